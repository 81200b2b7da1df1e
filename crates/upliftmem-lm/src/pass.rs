//! What goes through a model together: the tokens of many segments, one after another.

use std::{ops::Range, sync::Arc};

use super::ops::{AttentionPlan, KeptLayers, RotaryRows, SegmentPlan, Span};

/// What a segment continues.
#[derive(Debug, Clone)]
pub enum Before {
    /// Another segment of the pass, by its number.
    Segment(usize),
    /// Tokens of an earlier pass.
    Kept(KeptLayers, Range<usize>),
}

/// Tokens that stand together.
#[derive(Debug, Clone)]
pub struct Segment {
    /// The tokens.
    pub tokens: Vec<u32>,
    /// The position of the first token.
    pub position: usize,
    /// What it continues: earlier segments and kept tokens, from the start of the text.
    pub before: Vec<Before>,
    /// Whether its last token's hidden state is wanted.
    pub wanted: bool,
}

/// Segments laid out as rows.
#[derive(Debug)]
pub struct Pass {
    tokens: Vec<u32>,
    rows: Vec<Range<usize>>,
    rotary: RotaryRows,
    plan: Arc<AttentionPlan>,
    /// For the last layer: rows, rotary angles and who sees what. `None` when every row is wanted.
    last: Option<(Vec<u32>, RotaryRows, Arc<AttentionPlan>)>,
}

impl Pass {
    /// Lays out segments; `frequencies` are the model's rotary angles.
    pub(crate) fn new(segments: &[Segment], frequencies: &[f64], every_row: bool) -> Self {
        let (mut tokens, mut positions, mut rows) = (Vec::new(), Vec::new(), Vec::new());
        for segment in segments {
            let start = tokens.len();
            tokens.extend_from_slice(&segment.tokens);
            positions.extend((0..segment.tokens.len()).map(|at| segment.position + at));
            rows.push(start..tokens.len());
        }
        let plans: Vec<SegmentPlan> = segments
            .iter()
            .zip(&rows)
            .map(|(segment, own)| SegmentPlan {
                context: segment
                    .before
                    .iter()
                    .map(|before| match before {
                        Before::Segment(number) => Span::Local(rows[*number].clone()),
                        Before::Kept(kept, range) => Span::Kept(Arc::clone(kept), range.clone()),
                    })
                    .collect(),
                own: own.clone(),
                queries: own.clone(),
                first: 0,
            })
            .collect();
        let rotary = RotaryRows::new(frequencies, &positions);
        let last = (!every_row).then(|| {
            let mut wanted = Vec::new();
            let mut asked = Vec::new();
            for (segment, plan) in segments.iter().zip(&plans) {
                if segment.wanted && !plan.own.is_empty() {
                    asked.push(SegmentPlan {
                        queries: wanted.len()..wanted.len() + 1,
                        first: plan.own.len() - 1,
                        ..plan.clone()
                    });
                    wanted.push(plan.own.end - 1);
                }
            }
            let rotary = rotary.select(&wanted);
            let wanted = wanted.into_iter().map(row_number).collect();
            (wanted, rotary, Arc::new(AttentionPlan { segments: asked }))
        });
        Self {
            tokens,
            rows,
            rotary,
            plan: Arc::new(AttentionPlan { segments: plans }),
            last,
        }
    }

    /// All tokens, segment after segment.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// The rows of a segment.
    pub fn rows(&self, segment: usize) -> Range<usize> {
        self.rows[segment].clone()
    }

    pub(crate) const fn rotary(&self) -> &RotaryRows {
        &self.rotary
    }

    /// Rows that go through the last layer, unless all do.
    pub fn wanted(&self) -> Option<&[u32]> {
        self.last.as_ref().map(|(wanted, ..)| wanted.as_slice())
    }

    pub(crate) fn query_rotary(&self, last: bool) -> &RotaryRows {
        match &self.last {
            Some((_, rotary, _)) if last => rotary,
            _ => &self.rotary,
        }
    }

    pub(crate) fn plan(&self, last: bool) -> &Arc<AttentionPlan> {
        match &self.last {
            Some((.., plan)) if last => plan,
            _ => &self.plan,
        }
    }
}

/// Passes are far below four thousand million rows: `score_tokens_max` sees to it.
#[expect(clippy::cast_possible_truncation, reason = "see above")]
const fn row_number(row: usize) -> u32 {
    row as u32
}
