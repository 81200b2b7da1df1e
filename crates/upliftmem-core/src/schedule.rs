//! When to acquire and when to update. Paper: Algorithm 1, app. config.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::error::{InvalidInput, Result};

/// After which tasks the scorer is updated. Paper: I_upd.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UpdateRule {
    /// After every acquisition.
    #[default]
    AfterAcquisition,
    /// After every so many tasks.
    Every(u64),
    /// After exactly these tasks of the stream, counted from 1 over all epochs.
    At(BTreeSet<u64>),
}

/// The plan of a training run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScheduleRule {
    /// Tasks in one pass over the stream.
    pub tasks: u64,
    /// Passes over the stream; the task counter goes on across them.
    pub epochs: u64,
    /// Tasks from one acquisition of probes to the next. Paper: h.
    pub acquisition_interval: u64,
    /// When to update.
    #[serde(default)]
    pub updates: UpdateRule,
}

/// What a training run does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScheduleStep {
    /// Build the first pool and labels, and fit the value objective alone.
    WarmUp,
    /// Process the task of this count: 1 for the first of the first epoch, and on across epochs. Paper: t.
    Task(u64),
    /// Select and observe a batch of probes for the window that ends with this task.
    Acquire(u64),
    /// Update the scorer on value and policy, after this task.
    Update(u64),
    /// Nothing is left to do.
    Finished,
}

/// A training run as a sequence of steps. Its whole state is the step that is due, so a killed run that stored it
/// resumes there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "ScheduleFields")]
pub struct Schedule {
    rule: ScheduleRule,
    due: ScheduleStep,
}

#[derive(Deserialize)]
struct ScheduleFields {
    rule: ScheduleRule,
    due: ScheduleStep,
}

impl Schedule {
    /// A run that has not begun. Refuses intervals of zero and updates that would never come.
    pub fn new(rule: ScheduleRule) -> Result<Self> {
        let stream = rule.tasks.checked_mul(rule.epochs).ok_or_else(|| {
            InvalidInput::new(
                "epochs",
                format_args!(
                    "{} epochs of {} tasks can not be counted",
                    rule.epochs, rule.tasks
                ),
            )
        })?;
        if rule.acquisition_interval == 0 || rule.updates == UpdateRule::Every(0) {
            let what = if rule.acquisition_interval == 0 {
                "acquisition_interval"
            } else {
                "updates"
            };
            return Err(InvalidInput::new(what, "0 tasks is no interval; use 1 or more"));
        }
        if let UpdateRule::At(indices) = &rule.updates
            && let Some(outside) = indices.iter().find(|&&index| index == 0 || index > stream)
        {
            return Err(InvalidInput::new(
                "updates",
                format_args!("task {outside} is outside the stream of 1 to {stream}"),
            ));
        }
        Ok(Self {
            rule,
            due: ScheduleStep::WarmUp,
        })
    }

    /// The step that is due.
    pub const fn due(&self) -> ScheduleStep {
        self.due
    }

    /// The plan.
    pub const fn rule(&self) -> &ScheduleRule {
        &self.rule
    }

    /// Where the task of this count is found: its epoch and its place in the stream, both from 0.
    pub fn place(&self, count: u64) -> (u64, u64) {
        let tasks = self.rule.tasks.max(1);
        (count.saturating_sub(1) / tasks, count.saturating_sub(1) % tasks)
    }

    /// Takes note that the due step is done, and gives the next. Refuses any other step, so that a result that
    /// arrives twice does not advance the run twice.
    pub fn complete(&mut self, step: ScheduleStep) -> Result<ScheduleStep> {
        if step != self.due || step == ScheduleStep::Finished {
            return Err(InvalidInput::new(
                "schedule",
                format_args!("{step:?} is reported as done, but {:?} is due", self.due),
            ));
        }
        self.due = match step {
            ScheduleStep::WarmUp => self.task_after(0),
            ScheduleStep::Task(count) if count.is_multiple_of(self.rule.acquisition_interval) => {
                ScheduleStep::Acquire(count)
            }
            ScheduleStep::Task(count) | ScheduleStep::Acquire(count) if self.updates_after(count) => {
                ScheduleStep::Update(count)
            }
            ScheduleStep::Task(count) | ScheduleStep::Acquire(count) | ScheduleStep::Update(count) => {
                self.task_after(count)
            }
            ScheduleStep::Finished => ScheduleStep::Finished,
        };
        Ok(self.due)
    }

    fn task_after(&self, count: u64) -> ScheduleStep {
        if count < self.rule.tasks * self.rule.epochs {
            ScheduleStep::Task(count + 1)
        } else {
            ScheduleStep::Finished
        }
    }

    fn updates_after(&self, count: u64) -> bool {
        match &self.rule.updates {
            UpdateRule::AfterAcquisition => count.is_multiple_of(self.rule.acquisition_interval),
            UpdateRule::Every(interval) => count.is_multiple_of(*interval),
            UpdateRule::At(indices) => indices.contains(&count),
        }
    }

    /// Whether a run under this plan can ever be at this step.
    fn reaches(&self, step: ScheduleStep) -> bool {
        let in_stream = |count: u64| count >= 1 && count <= self.rule.tasks * self.rule.epochs;
        match step {
            ScheduleStep::WarmUp | ScheduleStep::Finished => true,
            ScheduleStep::Task(count) => in_stream(count),
            ScheduleStep::Acquire(count) => {
                in_stream(count) && count.is_multiple_of(self.rule.acquisition_interval)
            }
            ScheduleStep::Update(count) => in_stream(count) && self.updates_after(count),
        }
    }
}

impl TryFrom<ScheduleFields> for Schedule {
    type Error = InvalidInput;

    fn try_from(fields: ScheduleFields) -> Result<Self> {
        let mut schedule = Self::new(fields.rule)?;
        if !schedule.reaches(fields.due) {
            return Err(InvalidInput::new(
                "schedule",
                format_args!("{:?} is no step of this plan; the plan has changed", fields.due),
            ));
        }
        schedule.due = fields.due;
        Ok(schedule)
    }
}

#[cfg(test)]
mod tests {
    use ScheduleStep::{Acquire, Finished, Task, Update, WarmUp};

    use super::*;

    fn rule(tasks: u64, epochs: u64, interval: u64, updates: UpdateRule) -> ScheduleRule {
        ScheduleRule {
            tasks,
            epochs,
            acquisition_interval: interval,
            updates,
        }
    }

    fn steps(rule: ScheduleRule) -> Vec<ScheduleStep> {
        let mut schedule = Schedule::new(rule).unwrap();
        let mut steps = vec![schedule.due()];
        while schedule.due() != Finished {
            steps.push(schedule.complete(schedule.due()).unwrap());
        }
        steps
    }

    #[test]
    fn the_counter_continues_across_epochs_and_an_update_follows_each_acquisition() {
        assert_eq!(
            steps(rule(3, 2, 2, UpdateRule::AfterAcquisition)),
            [
                WarmUp,
                Task(1),
                Task(2),
                Acquire(2),
                Update(2),
                Task(3),
                Task(4),
                Acquire(4),
                Update(4),
                Task(5),
                Task(6),
                Acquire(6),
                Update(6),
                Finished
            ]
        );
    }

    #[test]
    fn updates_can_come_on_their_own() {
        assert_eq!(
            steps(rule(4, 1, 3, UpdateRule::At([1, 3].into()))),
            [
                WarmUp,
                Task(1),
                Update(1),
                Task(2),
                Task(3),
                Acquire(3),
                Update(3),
                Task(4),
                Finished
            ]
        );
        assert_eq!(
            steps(rule(4, 1, 3, UpdateRule::Every(2))),
            [
                WarmUp,
                Task(1),
                Task(2),
                Update(2),
                Task(3),
                Acquire(3),
                Task(4),
                Update(4),
                Finished
            ]
        );
    }

    #[test]
    fn an_empty_stream_is_warm_up_alone() {
        assert_eq!(steps(rule(0, 3, 400, UpdateRule::default())), [WarmUp, Finished]);
    }

    #[test]
    fn a_run_killed_at_any_step_does_the_rest_and_nothing_twice() {
        let plan = rule(5, 2, 3, UpdateRule::Every(2));
        let all = steps(plan.clone());
        for killed_at in 0..all.len() {
            let mut schedule = Schedule::new(plan.clone()).unwrap();
            for _ in 0..killed_at {
                schedule.complete(schedule.due()).unwrap();
            }
            let written = serde_json::to_string(&schedule).unwrap();
            let mut resumed: Schedule = serde_json::from_str(&written).unwrap();
            for &expected in &all[killed_at..] {
                assert_eq!(resumed.due(), expected);
                if expected != Finished {
                    resumed.complete(expected).unwrap();
                }
            }
        }
    }

    #[test]
    fn a_step_reported_twice_or_out_of_turn_changes_nothing() {
        let mut schedule = Schedule::new(rule(3, 1, 2, UpdateRule::default())).unwrap();
        schedule.complete(WarmUp).unwrap();
        let error = schedule.complete(WarmUp).unwrap_err();
        assert_eq!(
            error.to_string(),
            "schedule: WarmUp is reported as done, but Task(1) is due"
        );
        assert!(schedule.complete(Task(2)).is_err());
        assert_eq!(schedule.due(), Task(1));
    }

    #[test]
    fn a_finished_run_completes_nothing() {
        let mut schedule = Schedule::new(rule(0, 1, 2, UpdateRule::default())).unwrap();
        schedule.complete(WarmUp).unwrap();
        assert!(schedule.complete(Finished).is_err());
    }

    #[test]
    fn plans_that_make_no_sense_are_refused() {
        let refused = |plan| Schedule::new(plan).unwrap_err().what().to_owned();
        assert_eq!(
            refused(rule(3, 1, 0, UpdateRule::default())),
            "acquisition_interval"
        );
        assert_eq!(refused(rule(3, 1, 2, UpdateRule::Every(0))), "updates");
        assert_eq!(refused(rule(3, 1, 2, UpdateRule::At([4].into()))), "updates");
        assert_eq!(refused(rule(3, 1, 2, UpdateRule::At([0].into()))), "updates");
        assert_eq!(refused(rule(u64::MAX, 2, 2, UpdateRule::default())), "epochs");
    }

    #[test]
    fn a_stored_step_that_the_plan_never_reaches_is_refused() {
        let written = r#"{"rule":{"tasks":3,"epochs":1,"acquisition_interval":2},"due":{"acquire":3}}"#;
        let error = serde_json::from_str::<Schedule>(written).unwrap_err();
        assert!(error.to_string().contains("no step of this plan"), "{error}");
        assert!(serde_json::from_str::<Schedule>(&written.replace("acquire", "task")).is_ok());
    }

    #[test]
    fn a_count_has_its_place() {
        let schedule = Schedule::new(rule(3, 2, 2, UpdateRule::default())).unwrap();
        assert_eq!(schedule.place(1), (0, 0));
        assert_eq!(schedule.place(3), (0, 2));
        assert_eq!(schedule.place(4), (1, 0));
    }
}
