//! A-MEM: notes with keywords and tags that are linked to each other and evolve.
//!
//! A new note gets keywords and a context, is linked to its nearest notes, and makes those evolve. Retrieval takes the
//! nearest notes and what they are linked to. A language model gives keywords, links and changes. Without one, or where its answer
//! is none, the subject and topic of a lesson are keyword and tag, notes of one tag are linked when they are near, and a neighbour
//! about the same subject takes the new note's context into the text that it is found by.

use serde::Deserialize;
use upliftmem_agent::prompts::Template;

use super::{
    MemorySystem, Query, Shelf, Sources, Steps,
    steps::{indented, json_in, numbered, text_in, told},
};
use crate::{protocol::Result, suite::Experience};

const NOTE: Template = Template(include_str!("../../prompts/amem_note.txt"));
const LINKS: Template = Template(include_str!("../../prompts/amem_links.txt"));

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

/// What a model says of a new note's neighbours, by their places among them.
#[derive(Debug, PartialEq, Eq)]
struct Evolution {
    links: Vec<usize>,
    /// New contexts and tags.
    changes: Vec<(usize, String, String)>,
}

impl Evolution {
    /// What a model said of so many neighbours; none if it speaks of others.
    fn read(said: &str, count: usize) -> Option<Self> {
        #[derive(Deserialize)]
        struct Change {
            note: usize,
            context: String,
            tags: Vec<String>,
        }
        #[derive(Deserialize)]
        struct Said {
            links: Vec<usize>,
            #[serde(default)]
            changes: Vec<Change>,
        }
        let said: Said = json_in(said)?;
        let place = |number: usize| (1..=count).contains(&number).then(|| number - 1);
        let links = said.links.into_iter().map(place).collect::<Option<Vec<_>>>()?;
        let change = |change: Change| {
            Some((
                place(change.note)?,
                text_in(&change.context)?,
                text_in(&change.tags.join(", "))?,
            ))
        };
        let changes = said.changes.into_iter().map(change).collect::<Option<Vec<_>>>()?;
        Some(Self { links, changes })
    }
}

/// Keywords, tag and context of a note, as a model gives them.
async fn described(steps: &Steps, text: &str, experience: &Experience) -> Result<Option<Note>> {
    #[derive(Deserialize)]
    struct Said {
        keywords: Vec<String>,
        context: String,
        tags: Vec<String>,
    }
    let (note, told) = (indented(text), told(experience));
    let fields = [("note", Some(note.as_str())), ("experience", Some(told.as_str()))];
    let read = |said: &str| {
        let said: Said = json_in(said)?;
        Some(Note {
            subject: text_in(&said.keywords.join(", "))?,
            tag: text_in(&said.tags.join(", "))?,
            context: text_in(&said.context)?,
            links: Vec::new(),
        })
    };
    steps.ask("amem-note", NOTE, &fields, read).await
}

impl AMem {
    pub(super) async fn build(sources: Sources<'_>) -> Result<Self> {
        let mut system = Self {
            shelf: Shelf::new(sources.embedder),
            notes: Vec::new(),
        };
        for experience in sources.experiences {
            for lesson in sources.suite.lessons(experience) {
                if system.shelf.texts().contains(&lesson.text) {
                    continue;
                }
                let described = match sources.steps {
                    Some(steps) => described(steps, &lesson.text, experience).await?,
                    None => None,
                };
                let note = described.unwrap_or_else(|| Note {
                    subject: lesson.subject,
                    tag: lesson.topic,
                    context: experience.task.context.clone(),
                    links: Vec::new(),
                });
                system.write(lesson.text, note, sources.steps).await?;
            }
        }
        Ok(system)
    }

    async fn write(&mut self, text: String, mut note: Note, steps: Option<&Steps>) -> Result<()> {
        let key = self.shelf.embed(&enriched(&text, &note))?;
        let near = self.shelf.nearest(&key, NEIGHBOURS, |_| true);
        let said = match steps {
            Some(steps) if !near.is_empty() => self.asked(steps, &text, &near).await?,
            _ => None,
        };
        let evolution = said.unwrap_or_else(|| self.by_rule(&note, &near));
        let new = self.notes.len();
        for at in evolution.links {
            let other = near[at].0;
            if !note.links.contains(&other) {
                note.links.push(other);
                self.notes[other].links.push(new);
            }
        }
        for (at, context, tag) in evolution.changes {
            let other = near[at].0;
            self.notes[other].context = context;
            self.notes[other].tag = tag;
            let text = self.shelf.texts()[other].clone();
            let key = self.shelf.embed(&enriched(&text, &self.notes[other]))?;
            self.shelf.replace(other, text, key);
        }
        self.shelf.push(text, key);
        self.notes.push(note);
        Ok(())
    }

    /// What a model makes of a note and its neighbours.
    async fn asked(&self, steps: &Steps, text: &str, near: &[(usize, f64)]) -> Result<Option<Evolution>> {
        let memories = numbered(near.iter().map(|(place, _)| self.shelf.texts()[*place].as_str()));
        let note = indented(text);
        let fields = [
            ("note", Some(note.as_str())),
            ("memories", Some(memories.as_str())),
        ];
        let read = |said: &str| Evolution::read(said, near.len());
        steps.ask("amem-links", LINKS, &fields, read).await
    }

    /// Notes of one tag are linked when they are near; those about the same take the new note's context.
    fn by_rule(&self, note: &Note, near: &[(usize, f64)]) -> Evolution {
        let mut evolution = Evolution {
            links: Vec::new(),
            changes: Vec::new(),
        };
        for (at, (other, similarity)) in near.iter().enumerate() {
            let other = &self.notes[*other];
            if other.tag == note.tag && *similarity >= LINKED_FROM {
                evolution.links.push(at);
            }
            if other.subject == note.subject {
                evolution
                    .changes
                    .push((at, note.context.clone(), other.tag.clone()));
            }
        }
        evolution
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

#[cfg(test)]
mod tests {
    use super::Evolution;

    #[test]
    fn neighbours_are_those_that_were_shown() {
        let said = r#"{"links": [2], "changes": [{"note": 1, "context": "Mugs.", "tags": ["a", "b"]}]}"#;
        let expected = Evolution {
            links: vec![1],
            changes: vec![(0, "Mugs.".into(), "a, b".into())],
        };
        assert_eq!(Evolution::read(said, 2), Some(expected));
        assert_eq!(Evolution::read(said, 1), None);
        assert!(Evolution::read(r#"{"links": []}"#, 1).is_some());
        assert_eq!(Evolution::read("links: 1", 1), None);
    }
}
