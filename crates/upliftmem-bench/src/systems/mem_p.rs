//! MemP: procedural memory that is built, retrieved and updated.
//!
//! Build: a solved play becomes a script with its steps. Retrieve: by the vector of the task's description. Update: a new
//! solved play is added; a procedure that was shown is adjusted by what came of it, and one that failed more often than it
//! helped is no longer used. A language model writes the script; without one, or where its answer is none, it is the suite's lesson.

use async_trait::async_trait;
use upliftmem_agent::prompts::Template;

use super::{
    MemorySystem, Query, Shelf, Sources,
    steps::{text_in, told},
};
use crate::{
    protocol::Result,
    suite::{Experience, LessonKind},
};

const SCRIPT: Template = Template(include_str!("../../prompts/memp_script.txt"));

/// Uses after which a procedure is judged.
const JUDGED_AFTER: u32 = 3;

pub(super) struct MemP {
    shelf: Shelf,
    /// Uses that ended well, and all uses.
    uses: Vec<(u32, u32)>,
}

impl MemP {
    pub(super) async fn build(sources: Sources<'_>) -> Result<Self> {
        let mut system = Self {
            shelf: Shelf::new(sources.embedder),
            uses: Vec::new(),
        };
        for experience in sources.experiences {
            system.write(experience, sources).await?;
        }
        Ok(system)
    }

    async fn write(&mut self, experience: &Experience, sources: Sources<'_>) -> Result<()> {
        for text in scripts(experience, sources).await? {
            if self.shelf.texts().contains(&text) {
                continue;
            }
            let key = self.shelf.embed(&experience.task.context)?;
            self.shelf.push(text, key);
            self.uses.push((0, 0));
        }
        Ok(())
    }

    fn is_used(&self, place: usize) -> bool {
        let (good, all) = self.uses[place];
        all < JUDGED_AFTER || 2 * good >= all
    }
}

/// How a task was solved, if it was.
async fn scripts(experience: &Experience, sources: Sources<'_>) -> Result<Vec<String>> {
    if let Some(steps) = sources.steps
        && experience.succeeded()
    {
        let told = told(experience);
        let fields = [("experience", Some(told.as_str()))];
        if let Some(script) = steps.ask("memp-script", SCRIPT, &fields, text_in).await? {
            return Ok(vec![script]);
        }
    }
    let lessons = sources.suite.lessons(experience).into_iter();
    let scripts = lessons.filter(|lesson| lesson.kind == LessonKind::Procedure);
    Ok(scripts.map(|lesson| lesson.text).collect())
}

#[async_trait]
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

    async fn learn(&mut self, given: &[usize], experience: &Experience, sources: Sources<'_>) -> Result<()> {
        for &place in given {
            self.uses[place].0 += u32::from(experience.succeeded());
            self.uses[place].1 += 1;
        }
        self.write(experience, sources).await
    }
}
