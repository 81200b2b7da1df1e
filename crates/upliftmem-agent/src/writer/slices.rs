//! What of a trajectory a writer reads.

use upliftmem_core::TrajectoryStep;

use crate::prompts::{bounded, indented, plain, quoted, shown_chars};

/// Characters of one observation that are worth reading.
const OBSERVATION_CHARS: usize = 600;
/// What is said where steps are missing takes no more.
const NOTE_CHARS: usize = 40;

/// The steps that changed something, within a number of characters: the beginning and the end, if all do not fit. The last
/// step is always there; what is long in it is shortened in the middle.
pub fn transcript(steps: &[TrajectoryStep], chars_max: usize) -> String {
    let steps = critical(steps);
    let whole: Vec<String> = steps.iter().map(|step| written(step, usize::MAX)).collect();
    let length = |parts: &[String]| -> usize { parts.iter().map(|part| part.chars().count() + 1).sum() };
    if length(&whole) <= chars_max + 1 {
        return whole.join("\n");
    }
    let room = chars_max.saturating_sub(NOTE_CHARS);
    // One step may take all; of several, the last leaves room for another.
    let each = if steps.len() == 1 { chars_max } else { room / 2 };
    let written: Vec<String> = steps.iter().map(|step| written(step, each)).collect();
    if length(&written) <= chars_max + 1 {
        return written.join("\n");
    }
    let (mut head, mut tail, mut used) = (0, 0, 0);
    // Alternately from the end, which shows the outcome, and from the beginning.
    while head + tail < written.len() {
        let from_end = tail <= head;
        let next = if from_end { written.len() - 1 - tail } else { head };
        let size = written[next].chars().count() + 1;
        if used + size > room && tail > 0 {
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
    if left_out > 0 {
        parts.push(format!("({left_out} steps left out)"));
    }
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

/// A step in so much room: what its observation leaves is its action's.
fn written(step: &TrajectoryStep, room: usize) -> String {
    const LABELS: [&str; 2] = ["Action: ", "\nObservation: "];
    let room = room.saturating_sub(LABELS.concat().len());
    let observation = quoted(&step.observation, OBSERVATION_CHARS.min(room / 2), false);
    let action = plain(&step.action);
    let left = room.saturating_sub(observation.chars().count());
    let action = if shown_chars(&action) > left {
        bounded(&action, left)
    } else {
        action
    };
    format!(
        "{}{}{}{observation}",
        LABELS[0],
        indented(&action, false),
        LABELS[1]
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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
        assert!(text.chars().count() <= 400, "{}", text.chars().count());
        assert!(text.contains("go 0\n") && text.contains("go 99\n") && text.contains("steps left out)"));
        assert!(!text.contains("go 50\n"));
    }

    #[test]
    fn a_long_last_step_is_shortened_and_never_left_out() {
        let program = format!("import first\n{}return last", "x = 1\n".repeat(5_000));
        for steps in [
            vec![step(&program, "AssertionError")],
            vec![step("look", "a desk"), step(&program, "AssertionError")],
            vec![step(&program, "first"); 1]
                .into_iter()
                .chain([step(&program, "AssertionError")])
                .collect(),
        ] {
            let text = transcript(&steps, 1_000);
            assert!(text.chars().count() <= 1_000, "{}", text.chars().count());
            for part in [
                "Action: import first",
                "characters left out)",
                "return last\nObservation: AssertionError",
            ] {
                assert!(text.contains(part), "{part}: {text}");
            }
            assert!(!text.contains("steps left out"), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_transcript_fits_and_keeps_off_the_margin(
            parts in proptest::collection::vec(("(?s).{0,400}|(a\n){0,150}", "(?s).{0,80}"), 1..8),
            room in 200_usize..800,
        ) {
            let steps: Vec<TrajectoryStep> = parts.iter().map(|(action, seen)| step(action, seen)).collect();
            let text = transcript(&steps, room);
            prop_assert!(text.chars().count() <= room, "{text:?}");
            let ours = |line: &str| {
                ["  ", "Action: ", "Observation: ", "("].iter().any(|start| line.starts_with(start))
            };
            prop_assert!(text.split('\n').all(ours), "{text:?}");
        }
    }

    #[test]
    fn nothing_is_nothing() {
        assert_eq!(transcript(&[], 10), "");
    }
}
