//! MemP: procedural memory that is built, retrieved and updated.
//!
//! Build: a solved play becomes a script with its steps. Retrieve: by the vector of the task's description. Update: a new
//! solved play is added; a procedure that was shown is adjusted by what came of it, and one that failed more often than it
//! helped is no longer used. The script is the suite's lesson, where the original asks a language model to write it.

use super::{MemorySystem, Query, Shelf, Sources};
use crate::{
    protocol::Result,
    suite::{Experience, LessonKind, Suite},
};

/// Uses after which a procedure is judged.
const JUDGED_AFTER: u32 = 3;

pub(super) struct MemP {
    shelf: Shelf,
    /// Uses that ended well, and all uses.
    uses: Vec<(u32, u32)>,
}

impl MemP {
    pub(super) fn build(sources: Sources<'_>) -> Result<Self> {
        let mut system = Self {
            shelf: Shelf::new(sources.embedder),
            uses: Vec::new(),
        };
        for experience in sources.experiences {
            system.write(experience, sources.suite)?;
        }
        Ok(system)
    }

    fn write(&mut self, experience: &Experience, suite: &dyn Suite) -> Result<()> {
        let lessons = suite.lessons(experience).into_iter();
        let script = lessons.filter(|lesson| lesson.kind == LessonKind::Procedure);
        for lesson in script {
            if self.shelf.texts().contains(&lesson.text) {
                continue;
            }
            let key = self.shelf.embed(&experience.task.context)?;
            self.shelf.push(lesson.text, key);
            self.uses.push((0, 0));
        }
        Ok(())
    }

    fn is_used(&self, place: usize) -> bool {
        let (good, all) = self.uses[place];
        all < JUDGED_AFTER || 2 * good >= all
    }
}

impl MemorySystem for MemP {
    fn memories(&self) -> &[String] {
        self.shelf.texts()
    }

    fn retrieve(&self, query: &Query<'_>, count: usize) -> Vec<usize> {
        let nearest = self
            .shelf
            .nearest(query.embedding, count, |place| self.is_used(place));
        nearest.into_iter().map(|(place, _)| place).collect()
    }

    fn learns(&self) -> bool {
        true
    }

    fn learn(&mut self, given: &[usize], experience: &Experience, suite: &dyn Suite) -> Result<()> {
        for &place in given {
            self.uses[place].0 += u32::from(experience.succeeded());
            self.uses[place].1 += 1;
        }
        self.write(experience, suite)
    }
}
