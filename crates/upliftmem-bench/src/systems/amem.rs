//! A-MEM: notes with keywords and tags that are linked to each other and evolve.
//!
//! A new note gets keywords and a context, is linked to its nearest notes, and makes those evolve. Retrieval takes the
//! nearest notes and what they are linked to. The original asks a language model for keywords, links and changes; here
//! the subject and topic of a lesson are keyword and tag, notes of one tag are linked when they are near, and a neighbour about
//! the same subject takes the new note's tag and context into the text that it is found by.

use super::{MemorySystem, Query, Shelf, Sources};
use crate::protocol::Result;

/// Neighbours that are looked at when a note is written.
const NEIGHBOURS: usize = 5;
/// Nearness from which notes of one tag are linked.
const LINKED_FROM: f64 = 0.5;

pub(super) struct AMem {
    shelf: Shelf,
    notes: Vec<Note>,
}

struct Note {
    subject: String,
    tag: String,
    context: String,
    links: Vec<usize>,
}

impl AMem {
    pub(super) fn build(sources: Sources<'_>) -> Result<Self> {
        let mut system = Self {
            shelf: Shelf::new(sources.embedder),
            notes: Vec::new(),
        };
        for experience in sources.experiences {
            for lesson in sources.suite.lessons(experience) {
                if !system.shelf.texts().contains(&lesson.text) {
                    let note = Note {
                        subject: lesson.subject,
                        tag: lesson.topic,
                        context: experience.task.context.clone(),
                        links: Vec::new(),
                    };
                    system.write(lesson.text, note)?;
                }
            }
        }
        Ok(system)
    }

    fn write(&mut self, text: String, mut note: Note) -> Result<()> {
        let key = self.shelf.embed(&enriched(&text, &note))?;
        let near = self.shelf.nearest(&key, NEIGHBOURS, |_| true);
        let new = self.notes.len();
        for (other, similarity) in near {
            if self.notes[other].tag == note.tag && similarity >= LINKED_FROM {
                note.links.push(other);
                self.notes[other].links.push(new);
            }
            if self.notes[other].subject == note.subject {
                self.notes[other].context.clone_from(&note.context);
                let text = self.shelf.texts()[other].clone();
                let key = self.shelf.embed(&enriched(&text, &self.notes[other]))?;
                self.shelf.replace(other, text, key);
            }
        }
        self.shelf.push(text, key);
        self.notes.push(note);
        Ok(())
    }
}

/// The text that a note is found by.
fn enriched(text: &str, note: &Note) -> String {
    format!("{text} {} {} {}", note.subject, note.tag, note.context)
}

impl MemorySystem for AMem {
    fn memories(&self) -> &[String] {
        self.shelf.texts()
    }

    /// Half by nearness, the rest by their links, then by nearness again.
    fn retrieve(&self, query: &Query<'_>, count: usize) -> Vec<usize> {
        let near = self.shelf.nearest(query.embedding, count, |_| true);
        let near: Vec<usize> = near.into_iter().map(|(place, _)| place).collect();
        let (first, rest) = near.split_at(near.len().div_ceil(2));
        let linked = first
            .iter()
            .flat_map(|&place| self.notes[place].links.iter().copied());
        let mut given: Vec<usize> = Vec::with_capacity(count);
        for place in first.iter().copied().chain(linked).chain(rest.iter().copied()) {
            if given.len() < count && !given.contains(&place) {
                given.push(place);
            }
        }
        given
    }
}
