//! What the store should hold, in plain maps.

use std::collections::{BTreeMap, BTreeSet};

use rand::{Rng, RngExt};
use upliftmem_core::{MemoryId, Purpose};
use upliftmem_store::*;

use crate::{
    child::{generation, report, scope},
    operation::{Answer, Group, Operation, text, vector},
};

type Check = std::result::Result<(), String>;
type State = (TicketState, u32);

#[derive(Debug, Default)]
pub(crate) struct Model {
    /// The last number that was given away; a replay gives none.
    next: u64,
    /// Whether each memory is active; deleted ones are not here.
    memories: BTreeMap<u64, bool>,
    tickets: BTreeMap<u64, State>,
    journal: BTreeSet<u64>,
    /// Sent before the last kill and never acknowledged.
    doubtful: Vec<Operation>,
    /// Of those, what had taken effect.
    pub(crate) found: Vec<Operation>,
}

/// Equal rows.
impl PartialEq for Model {
    fn eq(&self, other: &Self) -> bool {
        self.memories == other.memories && self.tickets == other.tickets && self.journal == other.journal
    }
}

impl Model {
    pub(crate) fn memories(&self) -> usize {
        self.memories.len()
    }

    pub(crate) fn tickets(&self) -> usize {
        self.tickets.len()
    }

    /// A few operations on different rows.
    pub(crate) fn propose(&mut self, rng: &mut impl Rng) -> Group {
        let mut operations: Vec<Operation> = Vec::new();
        let mut leasing = false;
        for _ in 0..rng.random_range(1..=4) {
            let operation = match rng.random_range(0..10) {
                0..=2 => Some(Operation::Add(self.fresh(rng))),
                3 => pick(rng, self.memories.keys()).map(Operation::Delete),
                4 => pick(
                    rng,
                    self.memories
                        .iter()
                        .filter(|(_, active)| **active)
                        .map(|(number, _)| number),
                )
                .map(Operation::Quarantine),
                5 => Some(Operation::Enqueue(self.fresh(rng))),
                // Which tickets are handed out depends on what else is: one such operation at a time.
                6 if !leasing => {
                    leasing = true;
                    Some(Operation::Lease(rng.random_range(1..4)))
                }
                7 => self
                    .leased(rng)
                    .map(|(number, attempt)| Operation::Complete(number, attempt)),
                8 => self
                    .leased(rng)
                    .map(|(number, attempt)| Operation::Fail(number, attempt)),
                _ => self.fresh(rng).first().copied().map(Operation::Append),
            };
            let fits = |operation: &Operation| !operations.iter().any(|other| clash(other, operation));
            operations.extend(operation.filter(fits));
        }
        Group(operations)
    }

    fn fresh(&mut self, rng: &mut impl Rng) -> Vec<u64> {
        let count = rng.random_range(1..=5);
        self.next += count;
        (self.next - count + 1..=self.next).collect()
    }

    fn leased(&self, rng: &mut impl Rng) -> Option<(u64, u32)> {
        let leased = self
            .tickets
            .iter()
            .filter(|(_, (state, _))| *state == TicketState::Leased);
        pick(rng, leased.map(|(number, _)| number)).map(|number| (number, self.tickets[&number].1))
    }

    /// Notes what was acknowledged, and what was not.
    pub(crate) fn apply(&mut self, group: Group, answers: Vec<(usize, Answer)>) {
        let mut by_position: BTreeMap<usize, Answer> = answers.into_iter().collect();
        for (position, operation) in group.0.into_iter().enumerate() {
            match by_position.remove(&position) {
                None => self.doubtful.push(operation),
                Some(Answer::Refused(reason)) => panic!("{operation:?} was refused: {reason}"),
                Some(Answer::Leased(leased)) => {
                    for (number, attempt) in leased {
                        self.tickets.insert(number, (TicketState::Leased, attempt));
                    }
                }
                Some(Answer::Done) => self.perform(&operation),
            }
        }
    }

    fn perform(&mut self, operation: &Operation) {
        match operation {
            Operation::Add(numbers) => self.memories.extend(numbers.iter().map(|&number| (number, true))),
            Operation::Delete(number) => drop(self.memories.remove(number)),
            Operation::Quarantine(number) => drop(self.memories.insert(*number, false)),
            Operation::Enqueue(numbers) => {
                for &number in numbers {
                    // A lease in the same group may have been acknowledged first.
                    self.tickets.entry(number).or_insert((TicketState::Waiting, 0));
                }
            }
            Operation::Lease(_) => {}
            Operation::Complete(number, attempt) => {
                self.tickets.insert(*number, (TicketState::Completed, *attempt));
            }
            Operation::Fail(number, attempt) => {
                let state = if *attempt < 3 {
                    TicketState::Waiting
                } else {
                    TicketState::Failed
                };
                // It may be in another worker's hands already.
                let entry = self.tickets.entry(*number).or_insert((state, *attempt));
                if entry.1 == *attempt {
                    *entry = (state, *attempt);
                }
            }
            Operation::Append(number) => drop(self.journal.insert(*number)),
        }
    }

    /// Compares every row; operations in doubt are settled by what is there, whole or not at all.
    pub(crate) async fn compare(&mut self, store: &dyn Store, rng: &mut impl Rng) -> Check {
        let memories = stored_memories(store).await;
        let tickets = stored_tickets(store).await;
        let journal = stored_journal(store).await;
        let mut leases = 0;
        for operation in std::mem::take(&mut self.doubtful) {
            let happened = match &operation {
                Operation::Add(numbers) => whole(numbers, |number| memories.contains_key(number))?,
                Operation::Delete(number) => !memories.contains_key(number),
                Operation::Quarantine(number) => memories.get(number) == Some(&false),
                Operation::Enqueue(numbers) => whole(numbers, |number| tickets.contains_key(number))?,
                Operation::Lease(most) => {
                    leases = *most;
                    false
                }
                Operation::Complete(number, _) => tickets[number].0 == TicketState::Completed,
                Operation::Fail(number, attempt) => tickets[number] != (TicketState::Leased, *attempt),
                Operation::Append(number) => journal.contains(number),
            };
            if happened {
                self.perform(&operation);
                self.found.push(operation);
            }
        }
        if self.settle_leases(&tickets, leases)? > 0 {
            self.found.push(Operation::Lease(leases));
        }
        same("memories", &self.memories, &memories)?;
        same("tickets", &self.tickets, &tickets)?;
        same("journal", &self.journal, &journal)?;
        self.compare_ledger(store).await?;
        self.compare_recall(store, rng).await
    }

    /// A lease in doubt handed out waiting tickets, no more than were asked for.
    fn settle_leases(
        &mut self,
        stored: &BTreeMap<u64, State>,
        most: usize,
    ) -> std::result::Result<usize, String> {
        let mut handed_out = 0;
        for (number, &state) in stored {
            if let Some(known) = self.tickets.get_mut(number)
                && known.0 == TicketState::Waiting
                && state == (TicketState::Leased, known.1 + 1)
            {
                *known = state;
                handed_out += 1;
            }
        }
        if handed_out > most {
            Err(format!("{handed_out} tickets handed out, {most} asked for"))
        } else {
            Ok(handed_out)
        }
    }

    async fn compare_ledger(&self, store: &dyn Store) -> Check {
        let ledger = store.ledger(&scope()).await.unwrap();
        let completed: Vec<u64> = self
            .tickets
            .iter()
            .filter(|(_, (state, _))| *state == TicketState::Completed)
            .map(|(number, _)| *number)
            .collect();
        let line = ledger.line(Purpose::Reference);
        same("executions", &(completed.len() as u64), &line.executions)?;
        // The sum of nothing would be -0.
        let cost = completed.iter().fold(0.0, |sum, &number| sum + number as f64);
        same("cost", &cost.to_bits(), &line.cost.to_bits())?;
        for number in completed {
            let stored = store
                .report(&scope(), report(number).outcome.rollout)
                .await
                .unwrap();
            same(
                "report",
                &Some(report(number)),
                &stored.map(|stored| stored.report),
            )?;
        }
        Ok(())
    }

    /// Some memories are looked for by their own word, and by their own vector.
    async fn compare_recall(&self, store: &dyn Store, rng: &mut impl Rng) -> Check {
        let now = Timestamp::from_millis(1_000);
        for _ in 0..5 {
            let last = self.memories.last_key_value().map_or(0, |(number, _)| *number);
            let number = rng.random_range(1..=last.max(1));
            let active = self.memories.get(&number) == Some(&true);
            let query = |mode, candidates| RecallQuery {
                text: format!("own{number}word"),
                embedding: Some(Embedding::new(generation(), vector(number)).unwrap()),
                candidates,
                mode,
            };
            let id = MemoryId::from_u128(number.into());
            for mode in [RecallMode::Lexical, RecallMode::Dense] {
                let recall = store.recall(&scope(), now, query(mode, 1)).await.unwrap();
                let found = recall.hits.first().is_some_and(|hit| hit.id == id);
                same(&format!("memory {number} found, {mode:?}"), &active, &found)?;
            }
        }
        Ok(())
    }
}

fn pick<'a>(rng: &mut impl Rng, numbers: impl Iterator<Item = &'a u64>) -> Option<u64> {
    let numbers: Vec<u64> = numbers.copied().collect();
    (!numbers.is_empty()).then(|| numbers[rng.random_range(0..numbers.len())])
}

/// Whether the answer to one of two operations can depend on the other: they touch the same row, or one of them
/// hands out tickets and the other changes which there are.
fn clash(one: &Operation, two: &Operation) -> bool {
    let leases = |operation: &Operation| matches!(operation, Operation::Lease(_));
    let tickets = |operation: &Operation| {
        matches!(
            operation,
            Operation::Enqueue(_) | Operation::Complete(..) | Operation::Fail(..)
        )
    };
    if (leases(one) && tickets(two)) || (leases(two) && tickets(one)) {
        return true;
    }
    let row = |operation: &Operation| match operation {
        Operation::Delete(number) | Operation::Quarantine(number) => Some((0, *number)),
        Operation::Complete(number, _) | Operation::Fail(number, _) => Some((1, *number)),
        _ => None,
    };
    row(one).is_some() && row(one) == row(two)
}

/// Whether all are there; some of them is an error.
fn whole(numbers: &[u64], there: impl Fn(&u64) -> bool) -> std::result::Result<bool, String> {
    match numbers.iter().filter(|number| there(number)).count() {
        0 => Ok(false),
        count if count == numbers.len() => Ok(true),
        count => Err(format!(
            "{count} of the {} rows of one batch: {numbers:?}",
            numbers.len()
        )),
    }
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, model: &T, store: &T) -> Check {
    if model == store {
        Ok(())
    } else {
        Err(format!("{what}: the model has {model:?}, the store {store:?}"))
    }
}

fn number(bits: u128) -> u64 {
    u64::try_from(bits).unwrap()
}

async fn stored_memories(store: &dyn Store) -> BTreeMap<u64, bool> {
    let mut all = BTreeMap::new();
    let mut filter = MemoryFilter::default();
    loop {
        let page = store.list_memories(&scope(), filter, 500).await.unwrap();
        let Some(last) = page.last() else { return all };
        filter.after = Some(last.memory.id);
        for stored in page {
            let number = number(stored.memory.id.as_u128());
            assert_eq!(stored.memory.text, text(number));
            all.insert(number, stored.status == MemoryStatus::Active);
        }
    }
}

async fn stored_tickets(store: &dyn Store) -> BTreeMap<u64, State> {
    let mut all = BTreeMap::new();
    let mut filter = TicketFilter::default();
    loop {
        let page = store.list_tickets(&scope(), filter, 500).await.unwrap();
        let Some(last) = page.last() else { return all };
        filter.after = Some(last.rollout.id);
        for ticket in page {
            let number = number(ticket.rollout.id.as_u128());
            assert_eq!(ticket.rollout, crate::child::rollout(number));
            all.insert(number, (ticket.state, ticket.attempts));
        }
    }
}

async fn stored_journal(store: &dyn Store) -> BTreeSet<u64> {
    let entries = store
        .list_entries(&scope(), JournalFilter::default(), 10_000)
        .await
        .unwrap();
    let places: Vec<u64> = entries.iter().map(|entry| entry.sequence).collect();
    assert_eq!(
        places,
        (1..=places.len() as u64).collect::<Vec<_>>(),
        "no place is missing"
    );
    entries
        .iter()
        .map(|entry| entry.entry.key().parse().unwrap())
        .collect()
}
