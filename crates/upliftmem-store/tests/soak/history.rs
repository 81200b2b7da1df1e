//! What a run did, kept so that it can be done again.

use std::path::{Path, PathBuf};

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::{
    Database, Process, compare,
    model::Model,
    operation::{Answer, Group, Operation},
};

/// Everything between the start of a process and its kill.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Life {
    /// Operations in the order of their answers.
    pub(crate) acknowledged: Vec<(Operation, Answer)>,
    /// Operations without an answer that had taken effect all the same.
    pub(crate) found: Vec<Operation>,
}

/// All lives of a run.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct History {
    pub(crate) database: Database,
    pub(crate) lives: Vec<Life>,
}

impl History {
    pub(crate) fn read(file: &Path) -> Self {
        serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap()
    }

    /// Writes the history to a file that stays.
    pub(crate) fn keep(&self, seed: u64) -> PathBuf {
        let name = format!(
            "upliftmem-soak-{:?}-{seed}-{}.json",
            self.database,
            std::process::id()
        );
        let file = std::env::temp_dir().join(name.to_lowercase());
        std::fs::write(&file, serde_json::to_string(self).unwrap()).unwrap();
        file
    }
}

/// Does again what was done, one operation at a time; every answer must be the same. Says what the store holds.
pub(crate) fn replay(place: &str, history: &History) -> Model {
    let mut model = Model::default();
    for (number, life) in history.lives.iter().enumerate() {
        let mut process = Process::start(place);
        let known = life
            .acknowledged
            .iter()
            .map(|(operation, answer)| (operation, Some(answer)));
        let found = life.found.iter().map(|operation| (operation, None));
        for (operation, expected) in known.chain(found) {
            let group = Group(vec![operation.clone()]);
            process.send(&group);
            let answers = process.answers(1);
            if let Some(expected) = expected {
                assert_eq!(&answers[0].1, expected, "life {number}: {operation:?}");
            }
            model.apply(group, answers);
        }
        process.child.kill().unwrap();
        process.child.wait().unwrap();
        let mut rng = ChaCha8Rng::seed_from_u64(number as u64);
        let problem = compare(place, &mut model, &mut rng);
        assert_eq!(problem, Ok(()), "life {number} of the replay");
    }
    model
}
