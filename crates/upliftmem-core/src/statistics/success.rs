//! What a series of checkpoints has solved between them. Paper: sec. rq5.

use crate::error::{InvalidInput, Result};

/// For each checkpoint, in order, the fraction of tasks solved by it or by one before it. Each row holds one
/// checkpoint's outcome on every task, in the same order of tasks.
pub fn cumulative_success(checkpoints: &[Vec<bool>]) -> Result<Vec<f64>> {
    let tasks = checkpoints.first().map_or(0, Vec::len);
    if tasks == 0 {
        return Err(InvalidInput::new(
            "checkpoints",
            "there is nothing to count; give at least one checkpoint and one task",
        ));
    }
    let mut solved = vec![false; tasks];
    checkpoints
        .iter()
        .enumerate()
        .map(|(number, outcomes)| {
            if outcomes.len() != tasks {
                return Err(InvalidInput::new(
                    format_args!("checkpoint {number}"),
                    format_args!(
                        "{} outcomes for {tasks} tasks; evaluate every checkpoint on the same tasks",
                        outcomes.len()
                    ),
                ));
            }
            for (before, &now) in solved.iter_mut().zip(outcomes) {
                *before |= now;
            }
            Ok(solved.iter().filter(|&&solved| solved).count() as f64 / tasks as f64)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_once_solved_stays_solved() {
        let checkpoints = [
            vec![true, false, false, false],
            vec![false, true, false, false],
            vec![true, true, false, false],
            vec![false, false, true, false],
        ];
        assert_eq!(cumulative_success(&checkpoints).unwrap(), [0.25, 0.5, 0.5, 0.75]);
    }

    #[test]
    fn other_tasks_or_none_are_refused() {
        let error = cumulative_success(&[vec![true], vec![true, false]]).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("checkpoint 1: 2 outcomes for 1 tasks"),
            "{error}"
        );
        assert!(cumulative_success(&[]).is_err());
        assert!(cumulative_success(&[vec![]]).is_err());
    }
}
