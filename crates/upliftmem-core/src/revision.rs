//! Validating and revising a newly written memory. Paper: app. writing, eq. writing_validation.

use serde::{Deserialize, Serialize};

use crate::{
    Uplift,
    error::{InvalidInput, Result},
};

/// When a version is good enough, and how often a writer may try again.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RevisionRule {
    /// A version is accepted, and admitted to the pool, when its uplift is above this. Paper: tau_accept.
    pub accept_above: Uplift,
    /// Most revisions of the first version. Paper: T.
    pub revisions_max: u32,
}

/// What to do after a version was validated.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RevisionStep {
    /// Revise the latest version, then validate the result as this one.
    Revise {
        /// Number of the version to come; the first version is 0.
        version: usize,
    },
    /// This version is the result.
    Done(SelectedVersion),
}

/// The version that stands for the memory. Its label is kept whether or not it is admitted.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SelectedVersion {
    /// Its number; the first version is 0.
    pub version: usize,
    /// Its observed uplift on its source task.
    pub uplift: Uplift,
    /// Whether the memory enters the pool.
    pub admitted: bool,
    /// Why it was selected.
    pub end: RevisionEnd,
}

/// How revision ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RevisionEnd {
    /// A version passed the threshold.
    Accepted,
    /// None did; the best one was taken.
    Exhausted,
}

/// One memory on its way through validation. Serialisable, so that a killed run goes on where it was.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Revision {
    rule: RevisionRule,
    uplifts: Vec<Uplift>,
}

impl Revision {
    /// Before the first validation.
    pub const fn new(rule: RevisionRule) -> Self {
        Self {
            rule,
            uplifts: Vec::new(),
        }
    }

    /// Takes the validated uplift of the latest version and says what comes next. Refuses more once it is done.
    pub fn observe(&mut self, uplift: Uplift) -> Result<RevisionStep> {
        if let Some(RevisionStep::Done(selected)) = self.step() {
            return Err(InvalidInput::new(
                "revision",
                format_args!(
                    "version {} is already selected; start another revision",
                    selected.version
                ),
            ));
        }
        self.uplifts.push(uplift);
        Ok(self.next_step())
    }

    /// What comes next; `None` before the first validation.
    pub fn step(&self) -> Option<RevisionStep> {
        (!self.uplifts.is_empty()).then(|| self.next_step())
    }

    /// The best version so far: the result if the writer has nothing more to offer. `None` before the first
    /// validation.
    pub fn best(&self) -> Option<SelectedVersion> {
        let mut best: Option<(usize, Uplift)> = None;
        for (version, &uplift) in self.uplifts.iter().enumerate() {
            // Of equals the earlier one stays: it was the simpler text.
            if best.is_none_or(|(_, highest)| uplift > highest) {
                best = Some((version, uplift));
            }
        }
        best.map(|(version, uplift)| {
            let admitted = uplift > self.rule.accept_above;
            SelectedVersion {
                version,
                uplift,
                admitted,
                end: if admitted {
                    RevisionEnd::Accepted
                } else {
                    RevisionEnd::Exhausted
                },
            }
        })
    }

    fn next_step(&self) -> RevisionStep {
        let exhausted = self.uplifts.len() > self.rule.revisions_max as usize;
        match self.best() {
            // Only the latest version can pass: an earlier one would have ended the revision.
            Some(best) if best.admitted || exhausted => RevisionStep::Done(best),
            _ => RevisionStep::Revise {
                version: self.uplifts.len(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uplift(value: f64) -> Uplift {
        Uplift::new(value).unwrap()
    }

    /// Runs a revision over these uplifts; each but the last must ask for another version.
    fn run(uplifts: &[f64]) -> (Revision, SelectedVersion) {
        let mut revision = Revision::new(RevisionRule {
            accept_above: uplift(0.0),
            revisions_max: 3,
        });
        assert_eq!((revision.step(), revision.best()), (None, None));
        for (version, &value) in uplifts.iter().enumerate() {
            match revision.observe(uplift(value)).unwrap() {
                RevisionStep::Revise { version: next } => assert_eq!(next, version + 1),
                RevisionStep::Done(selected) => {
                    assert_eq!(version + 1, uplifts.len(), "ended early");
                    return (revision, selected);
                }
            }
        }
        panic!("not done after {uplifts:?}");
    }

    fn check(uplifts: &[f64], version: usize, end: RevisionEnd) {
        let (_, selected) = run(uplifts);
        assert_eq!((selected.version, selected.end), (version, end));
        assert_eq!(selected.uplift, uplift(uplifts[version]));
        assert_eq!(selected.admitted, end == RevisionEnd::Accepted);
    }

    #[test]
    fn the_first_version_above_the_threshold_is_taken_at_once() {
        check(&[0.1], 0, RevisionEnd::Accepted);
        check(&[-0.5, 0.0, 0.2], 2, RevisionEnd::Accepted);
        check(&[-0.5, -0.2, -0.1, 0.01], 3, RevisionEnd::Accepted);
    }

    #[test]
    fn without_one_the_best_is_selected_after_three_revisions_and_not_admitted() {
        check(&[-0.5, -0.1, -0.3, -0.4], 1, RevisionEnd::Exhausted);
        check(&[-1.0, -1.0, -1.0, 0.0], 3, RevisionEnd::Exhausted);
    }

    #[test]
    fn ties_keep_the_earlier_version() {
        check(&[-0.5, 0.0, 0.0, -0.1], 1, RevisionEnd::Exhausted);
    }

    #[test]
    fn a_finished_revision_takes_no_more() {
        let (mut revision, selected) = run(&[0.3]);
        let before = revision.clone();
        assert!(
            revision
                .observe(uplift(0.9))
                .unwrap_err()
                .to_string()
                .contains("already selected")
        );
        assert_eq!(revision, before);
        assert_eq!(revision.best(), Some(selected));
    }

    #[test]
    fn a_killed_revision_goes_on_where_it_was() {
        let mut revision = Revision::new(RevisionRule {
            accept_above: uplift(0.0),
            revisions_max: 1,
        });
        revision.observe(uplift(-0.2)).unwrap();
        let written = serde_json::to_string(&revision).unwrap();
        let mut resumed: Revision = serde_json::from_str(&written).unwrap();
        assert_eq!(resumed.step(), Some(RevisionStep::Revise { version: 1 }));
        assert_eq!(
            resumed.observe(uplift(-0.4)).unwrap(),
            revision.observe(uplift(-0.4)).unwrap()
        );
        assert_eq!(resumed.best().unwrap().version, 0);
    }

    #[test]
    fn without_revisions_the_first_version_decides() {
        let mut revision = Revision::new(RevisionRule {
            accept_above: uplift(0.25),
            revisions_max: 0,
        });
        let RevisionStep::Done(selected) = revision.observe(uplift(0.25)).unwrap() else {
            panic!("asked for a revision");
        };
        assert!(!selected.admitted);
    }
}
