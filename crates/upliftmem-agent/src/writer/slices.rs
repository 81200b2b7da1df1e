//! What of a trajectory a writer reads.

use upliftmem_core::TrajectoryStep;

use crate::prompts::plain;

/// Characters of one observation that are worth reading.
const OBSERVATION_CHARS: usize = 600;

/// The steps that changed something, within a number of characters: the beginning and the end, if all do not fit.
pub fn transcript(steps: &[TrajectoryStep], chars_max: usize) -> String {
    let written: Vec<String> = critical(steps).into_iter().map(written).collect();
    let length = |parts: &[String]| -> usize { parts.iter().map(|part| part.chars().count() + 1).sum() };
    if length(&written) <= chars_max {
        return written.join("\n");
    }
    let (mut head, mut tail, mut used) = (0, 0, 0);
    // Alternately from the end, which shows the outcome, and from the beginning.
    while head + tail < written.len() {
        let from_end = tail <= head;
        let next = if from_end { written.len() - 1 - tail } else { head };
        let size = written[next].chars().count() + 1;
        if used + size > chars_max {
            break;
        }
        used += size;
        if from_end {
            tail += 1;
        } else {
            head += 1;
        }
    }
    let left_out = written.len() - head - tail;
    let mut parts = written[..head].to_vec();
    parts.push(format!("({left_out} steps left out)"));
    parts.extend_from_slice(&written[written.len() - tail..]);
    parts.join("\n")
}

/// Steps without those that repeat the one before to no effect.
fn critical(steps: &[TrajectoryStep]) -> Vec<&TrajectoryStep> {
    let mut kept: Vec<&TrajectoryStep> = Vec::with_capacity(steps.len());
    for step in steps {
        if kept.last().is_none_or(|last| *last != step) {
            kept.push(step);
        }
    }
    kept
}

fn written(step: &TrajectoryStep) -> String {
    let observation: String = plain(&step.observation).chars().take(OBSERVATION_CHARS).collect();
    format!(
        "Action: {}\nObservation: {}",
        plain(&step.action).replace('\n', "\n  "),
        observation.replace('\n', "\n  ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(action: &str, observation: &str) -> TrajectoryStep {
        TrajectoryStep {
            action: action.into(),
            observation: observation.into(),
        }
    }

    #[test]
    fn repetitions_are_told_once() {
        let steps = [
            step("look", "a desk"),
            step("look", "a desk"),
            step("take mug", "taken"),
        ];
        assert_eq!(
            transcript(&steps, 1_000),
            "Action: look\nObservation: a desk\nAction: take mug\nObservation: taken"
        );
    }

    #[test]
    fn a_long_episode_keeps_its_beginning_and_its_end() {
        let steps: Vec<_> = (0..100)
            .map(|at| step(&format!("go {at}"), "somewhere else"))
            .collect();
        let text = transcript(&steps, 400);
        assert!(text.chars().count() <= 400 + 30, "{}", text.chars().count());
        assert!(text.contains("go 0\n") && text.contains("go 99\n") && text.contains("steps left out)"));
        assert!(!text.contains("go 50\n"));
    }

    #[test]
    fn nothing_is_nothing() {
        assert_eq!(transcript(&[], 10), "");
    }
}
