//! Causal attention of packed segments over what stands before them.
//!
//! A pass holds the tokens of many segments one after another. A segment sees its context (whole spans of earlier
//! segments, of this pass or kept from an earlier one) and itself up to each token. A plain sequence is one segment
//! without context; a prefix tree is a segment a node whose context is the way from the root. Keys and values of a shared
//! prefix are therefore computed once, however many continuations there are.

mod few;
mod seen;
mod unit;

use std::{ops::Range, sync::Arc};

use candle_core::{CpuStorage, CustomOp3, D, Device, Layout, Result, Shape, Tensor};
use rayon::prelude::*;

use self::{
    few::{Few, Kept},
    seen::{Queries, Seen},
    unit::Unit,
};
use super::{slice, with_entries};

/// Multiplications below which another thread costs more than it gives.
const PARALLEL: usize = 1 << 20;

/// Keys and values of every layer for some tokens, kept from an earlier pass.
pub type KeptLayers = Arc<Vec<(Tensor, Tensor)>>;

/// A part of what a segment sees.
#[derive(Debug, Clone)]
pub(crate) enum Span {
    /// Tokens of this pass.
    Local(Range<usize>),
    /// Tokens of an earlier pass.
    Kept(KeptLayers, Range<usize>),
}

impl Span {
    fn len(&self) -> usize {
        match self {
            Self::Local(rows) | Self::Kept(_, rows) => rows.len(),
        }
    }

    /// Whether both are the same tokens.
    fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Local(own), Self::Local(other)) => own == other,
            (Self::Kept(kept, own), Self::Kept(others, other)) => Arc::ptr_eq(kept, others) && own == other,
            _ => false,
        }
    }
}

/// One segment of a pass.
#[derive(Debug, Clone)]
pub(crate) struct SegmentPlan {
    /// What stands before it.
    pub(crate) context: Vec<Span>,
    /// Its tokens among the keys and values.
    pub(crate) own: Range<usize>,
    /// Its rows among the queries.
    pub(crate) queries: Range<usize>,
    /// Which of its tokens the first query is.
    pub(crate) first: usize,
}

impl SegmentPlan {
    /// All that its last query sees.
    fn way(&self) -> Vec<Span> {
        let own = Span::Local(self.own.start..self.own.start + self.first + self.queries.len());
        self.context.iter().cloned().chain([own]).collect()
    }
}

/// Who sees what in a pass.
#[derive(Debug, Clone, Default)]
pub(crate) struct AttentionPlan {
    pub(crate) segments: Vec<SegmentPlan>,
}

/// The shape of heads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Heads {
    /// Heads of queries.
    pub(crate) queries: usize,
    /// Heads of keys and values, each shared by as many query heads as fit.
    pub(crate) keys: usize,
    /// Entries of a head.
    pub(crate) size: usize,
}

impl Heads {
    /// Query heads that share a key head.
    const fn group(self) -> usize {
        self.queries / self.keys
    }

    #[expect(clippy::cast_possible_truncation, reason = "scores are in single precision")]
    fn scale(self) -> f32 {
        (1.0 / (self.size as f64).sqrt()) as f32
    }
}

/// Attention of the queries' rows. `layer` chooses among the kept keys and values.
pub(crate) fn attention(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    heads: Heads,
    plan: &Arc<AttentionPlan>,
    layer: usize,
) -> Result<Tensor> {
    let (q, k, v) = (q.contiguous()?, k.contiguous()?, v.contiguous()?);
    if q.device().is_cpu() {
        let plan = Arc::clone(plan);
        return q.apply_op3(&k, &v, Attention { heads, plan, layer });
    }
    composed(&q, &k, &v, heads, plan, layer)
}

/// The same of candle's own operations.
fn composed(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    heads: Heads,
    plan: &AttentionPlan,
    layer: usize,
) -> Result<Tensor> {
    let mut rows = Vec::new();
    for segment in plan.segments.iter().filter(|segment| !segment.queries.is_empty()) {
        let (count, seen) = (segment.queries.len(), segment.first + segment.queries.len());
        let gather = |all: &Tensor, which: fn(&(Tensor, Tensor)) -> &Tensor| -> Result<Tensor> {
            let mut parts = Vec::new();
            for span in &segment.context {
                parts.push(match span {
                    Span::Local(rows) => all.narrow(0, rows.start, rows.len())?,
                    Span::Kept(kept, rows) => which(&kept[layer]).narrow(0, rows.start, rows.len())?,
                });
            }
            parts.push(all.narrow(0, segment.own.start, seen)?);
            let all = Tensor::cat(&parts, 0)?;
            let length = all.dim(0)?;
            // Every key head as often as query heads share it.
            all.reshape((length, heads.keys, 1, heads.size))?
                .broadcast_as((length, heads.keys, heads.group(), heads.size))?
                .reshape((length, heads.queries, heads.size))?
                .transpose(0, 1)?
                .contiguous()
        };
        let (keys, values) = (gather(k, |pair| &pair.0)?, gather(v, |pair| &pair.1)?);
        let queries = q
            .narrow(0, segment.queries.start, count)?
            .reshape((count, heads.queries, heads.size))?
            .transpose(0, 1)?
            .contiguous()?;
        let scores = (queries.matmul(&keys.transpose(1, 2)?.contiguous()?)? * f64::from(heads.scale()))?;
        let scores = scores.broadcast_add(&mask(count, keys.dim(1)?, q.device())?)?;
        let scores = scores
            .broadcast_sub(&scores.max_keepdim(D::Minus1)?.detach())?
            .exp()?;
        let shares = scores.broadcast_div(&scores.sum_keepdim(D::Minus1)?)?;
        let out = shares.matmul(&values)?.transpose(0, 1)?.contiguous()?;
        rows.push(out.reshape((count, heads.queries * heads.size))?);
    }
    Tensor::cat(&rows, 0)
}

/// Minus infinity where a query may not look: beyond itself, the last query seeing everything.
fn mask(queries: usize, seen: usize, device: &Device) -> Result<Tensor> {
    let mask: Vec<f32> = (0..queries)
        .flat_map(|query| {
            (0..seen).map(move |key| {
                if key + queries > seen + query {
                    f32::NEG_INFINITY
                } else {
                    0.0
                }
            })
        })
        .collect();
    Tensor::from_vec(mask, (queries, seen), device)
}

/// Attention on a processor, without a way back. `out` has a row for every query.
///
/// Segments follow one another as the tree is walked: what two neighbours both see is laid out once.
pub(crate) fn attend(
    [q, k, v]: [&[f32]; 3],
    heads: Heads,
    plan: &AttentionPlan,
    layer: usize,
    out: &mut [f32],
) -> Result<()> {
    let (size, group) = (heads.size, heads.group());
    let (stride, own_stride) = (heads.queries * size, group * size);
    let ways: Vec<Vec<Span>> = plan.segments.iter().map(SegmentPlan::way).collect();
    let lengths: Vec<usize> = ways.iter().map(|way| way.iter().map(Span::len).sum()).collect();
    let several = plan
        .segments
        .iter()
        .zip(&lengths)
        .filter(|(segment, _)| segment.queries.len() > 1);
    let room = several.map(|(_, &length)| length).max().unwrap_or(0);
    let rows = out.len() / stride;
    if rows == 0 {
        return Ok(());
    }
    let one = |(head, out): (usize, &mut [f32])| -> Result<()> {
        let mut seen = Seen::new(size, heads.scale(), room);
        let mut before: &[Span] = &[];
        for ((segment, way), &length) in plan.segments.iter().zip(&ways).zip(&lengths) {
            if segment.queries.is_empty() {
                continue;
            }
            if segment.queries.len() == 1 {
                let start = segment.queries.start * stride + head * own_stride;
                let queries = &q[start..start + own_stride];
                let mut few = Few::new(queries, size, heads.scale(), length);
                let place = head * size;
                each_span(
                    way,
                    k,
                    |pair| &pair.0,
                    layer,
                    |token, rows, all| {
                        few.compare(token, rows_of(all, rows, heads, place));
                    },
                )?;
                few.share();
                each_span(
                    way,
                    v,
                    |pair| &pair.1,
                    layer,
                    |token, rows, all| {
                        few.collect(token, rows_of(all, rows, heads, place));
                    },
                )?;
                few.settle();
                let out = out[segment.queries.start * own_stride..].chunks_exact_mut(size);
                for (out, found) in out.zip(few.found()) {
                    out.copy_from_slice(found);
                }
                continue;
            }
            let mut token = 0;
            let mut same = true;
            for (at, span) in way.iter().enumerate() {
                same = same && before.get(at).is_some_and(|before| before.is(span));
                let tokens = token..token + span.len();
                token = tokens.end;
                if same {
                    continue;
                }
                let start = |rows: &Range<usize>| rows.start * heads.keys * size + head * size;
                match span {
                    Span::Local(rows) => {
                        seen.put_keys(tokens.clone(), &k[start(rows)..], heads.keys * size);
                        seen.put_values(tokens, &v[start(rows)..], heads.keys * size);
                    }
                    Span::Kept(kept, rows) => {
                        let (keys, values) = &kept[layer];
                        with_entries(keys, |keys| {
                            seen.put_keys(tokens.clone(), &keys[start(rows)..], heads.keys * size);
                            Ok(())
                        })?;
                        with_entries(values, |values| {
                            seen.put_values(tokens, &values[start(rows)..], heads.keys * size);
                            Ok(())
                        })?;
                    }
                }
            }
            before = way;
            let queries = Queries {
                entries: &q[segment.queries.start * stride + head * own_stride..],
                stride,
                tokens: segment.queries.len(),
                group,
            };
            seen.attend(queries, length, &mut out[segment.queries.start * own_stride..]);
        }
        Ok(())
    };
    // Threads take whole heads, so each writes apart from the others.
    let mut apart = vec![0.0; out.len()];
    let work: usize = plan
        .segments
        .iter()
        .zip(&lengths)
        .map(|(segment, length)| segment.queries.len() * length)
        .sum();
    let parts = rows * own_stride;
    if work * stride < PARALLEL {
        apart.chunks_mut(parts).enumerate().try_for_each(one)?;
    } else {
        apart.par_chunks_mut(parts).enumerate().try_for_each(one)?;
    }
    for (head, part) in apart.chunks(parts).enumerate() {
        for (out, part) in out.chunks_mut(stride).zip(part.chunks(own_stride)) {
            out[head * own_stride..(head + 1) * own_stride].copy_from_slice(part);
        }
    }
    Ok(())
}

/// Goes through what a segment sees: the number of the first token, its rows, and what they are rows of.
fn each_span(
    way: &[Span],
    local: &[f32],
    which: fn(&(Tensor, Tensor)) -> &Tensor,
    layer: usize,
    mut see: impl FnMut(usize, &Range<usize>, &[f32]),
) -> Result<()> {
    let mut token = 0;
    for span in way {
        match span {
            Span::Local(rows) => see(token, rows, local),
            Span::Kept(kept, rows) => with_entries(which(&kept[layer]), |all| {
                see(token, rows, all);
                Ok(())
            })?,
        }
        token += span.len();
    }
    Ok(())
}

/// One head of some rows of keys or values.
fn rows_of<'a>(all: &'a [f32], rows: &Range<usize>, heads: Heads, place: usize) -> Kept<'a> {
    let stride = heads.keys * heads.size;
    Kept {
        entries: &all[rows.start * stride + place..],
        stride,
        count: rows.len(),
    }
}

struct Attention {
    heads: Heads,
    plan: Arc<AttentionPlan>,
    layer: usize,
}

impl Attention {
    /// Copies what one head of a segment sees: context, then itself as far as its last query.
    fn gather(
        &self,
        segment: &SegmentPlan,
        head: usize,
        k: &[f32],
        v: &[f32],
    ) -> Result<(Vec<f32>, Vec<f32>)> {
        let (size, stride) = (self.heads.size, self.heads.keys * self.heads.size);
        let way = segment.way();
        let count = way.iter().map(Span::len).sum::<usize>();
        let (mut keys, mut values) = (Vec::with_capacity(count * size), Vec::with_capacity(count * size));
        let copy = |all: &[f32], rows: &Range<usize>, out: &mut Vec<f32>| {
            for row in rows.clone() {
                out.extend_from_slice(&all[row * stride + head * size..][..size]);
            }
        };
        for span in &way {
            match span {
                Span::Local(rows) => {
                    copy(k, rows, &mut keys);
                    copy(v, rows, &mut values);
                }
                Span::Kept(kept, rows) => {
                    let (kept_keys, kept_values) = &kept[self.layer];
                    with_entries(kept_keys, |all| {
                        copy(all, rows, &mut keys);
                        Ok(())
                    })?;
                    with_entries(kept_values, |all| {
                        copy(all, rows, &mut values);
                        Ok(())
                    })?;
                }
            }
        }
        Ok((keys, values))
    }

    /// Every head of keys with what the segment sees of it.
    fn units<T: Send>(
        &self,
        segment: &SegmentPlan,
        k: &[f32],
        v: &[f32],
        work: impl Fn(usize, &Unit) -> T + Sync,
    ) -> Result<Vec<T>> {
        let heads = self.heads;
        let one = |head: usize| {
            let (keys, values) = self.gather(segment, head, k, v)?;
            let unit = Unit {
                size: heads.size,
                scale: heads.scale(),
                queries: segment.queries.len(),
                stride: heads.queries * heads.size,
                keys,
                values,
            };
            Ok(work(head, &unit))
        };
        let seen = segment.context.iter().map(Span::len).sum::<usize>() + segment.own.len();
        if segment.queries.len() * seen * heads.queries * heads.size < PARALLEL {
            (0..heads.keys).map(one).collect()
        } else {
            (0..heads.keys).into_par_iter().map(one).collect()
        }
    }

    /// Where the rows of a segment start for a query head.
    const fn start(&self, segment: &SegmentPlan, head: usize) -> usize {
        (segment.queries.start * self.heads.queries + head) * self.heads.size
    }
}

impl CustomOp3 for Attention {
    fn name(&self) -> &'static str {
        "causal-attention"
    }

    fn cpu_fwd(
        &self,
        q: &CpuStorage,
        q_layout: &Layout,
        k: &CpuStorage,
        k_layout: &Layout,
        v: &CpuStorage,
        v_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (q, k, v) = (slice(q, q_layout)?, slice(k, k_layout)?, slice(v, v_layout)?);
        let mut out = vec![0.0; q.len()];
        attend([q, k, v], self.heads, &self.plan, self.layer, &mut out)?;
        Ok((CpuStorage::F32(out), q_layout.shape().clone()))
    }

    fn bwd(
        &self,
        q: &Tensor,
        k: &Tensor,
        v: &Tensor,
        out: &Tensor,
        slope: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        let mut by_q = vec![0.0; q.elem_count()];
        let mut by_k = vec![0.0; k.elem_count()];
        let mut by_v = vec![0.0; v.elem_count()];
        let (size, group) = (self.heads.size, self.heads.group());
        let (stride, key_stride) = (self.heads.queries * size, self.heads.keys * size);
        let all = |read: &mut dyn FnMut([&[f32]; 5]) -> Result<()>| {
            with_entries(q, |q| {
                with_entries(k, |k| {
                    with_entries(v, |v| {
                        with_entries(out, |out| {
                            with_entries(slope, |slope| read([q, k, v, out, slope]))
                        })
                    })
                })
            })
        };
        all(&mut |[q, k, v, out, slope]| {
            for segment in self
                .plan
                .segments
                .iter()
                .filter(|segment| !segment.queries.is_empty())
            {
                let results = self.units(segment, k, v, |head, unit| {
                    let starts = (0..group).map(|member| self.start(segment, head * group + member));
                    unit.backward(starts.map(|start| [&q[start..], &out[start..], &slope[start..]]))
                })?;
                for (head, result) in results.iter().enumerate() {
                    for (member, rows) in result.queries.iter().enumerate() {
                        let start = self.start(segment, head * group + member);
                        for (by_q, row) in by_q[start..].chunks_mut(stride).zip(rows.chunks_exact(size)) {
                            by_q[..size].copy_from_slice(row);
                        }
                    }
                    let mut row = 0;
                    for span in segment.way() {
                        // What was kept from an earlier pass is a constant.
                        if let Span::Local(rows) = &span {
                            for (seen, token) in rows.clone().enumerate() {
                                let from = (row + seen) * size..(row + seen + 1) * size;
                                let to = token * key_stride + head * size;
                                add(&mut by_k[to..to + size], &result.keys[from.clone()]);
                                add(&mut by_v[to..to + size], &result.values[from]);
                            }
                        }
                        row += span.len();
                    }
                }
            }
            Ok(())
        })?;
        Ok((
            Some(Tensor::from_vec(by_q, q.shape(), q.device())?),
            Some(Tensor::from_vec(by_k, k.shape(), k.device())?),
            Some(Tensor::from_vec(by_v, v.shape(), v.device())?),
        ))
    }
}

fn add(target: &mut [f32], source: &[f32]) {
    for (target, value) in target.iter_mut().zip(source) {
        *target += value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::tests::{assert_close, check_slopes, variable};

    const HEADS: Heads = Heads {
        queries: 4,
        keys: 2,
        size: 6,
    };

    /// A root of 5 tokens with two children, one of which has a child and asks with its last token only.
    fn tree() -> Arc<AttentionPlan> {
        let root = || 0..5;
        let segment =
            |context: &[Range<usize>], own: Range<usize>, queries: Range<usize>, first| SegmentPlan {
                context: context.iter().cloned().map(Span::Local).collect(),
                own,
                queries,
                first,
            };
        Arc::new(AttentionPlan {
            segments: vec![
                segment(&[], 0..5, 0..5, 0),
                segment(&[root()], 5..8, 5..8, 0),
                segment(&[root()], 8..60, 8..60, 0),
                segment(&[root(), 8..60], 60..63, 60..61, 2),
            ],
        })
    }

    #[test]
    fn equals_its_composition_and_has_its_slopes() {
        let inputs = [
            variable(&[61, 24], 1),
            variable(&[63, 12], 2),
            variable(&[63, 12], 3),
        ];
        let plan = tree();
        let own = attention(&inputs[0], &inputs[1], &inputs[2], HEADS, &plan, 0).unwrap();
        let expected = composed(&inputs[0], &inputs[1], &inputs[2], HEADS, &plan, 0).unwrap();
        assert_close(&own, &expected, 1e-5);
        let (own, expected) = (
            own.sqr().unwrap().sum_all().unwrap().backward().unwrap(),
            expected.sqr().unwrap().sum_all().unwrap().backward().unwrap(),
        );
        for input in &inputs {
            assert_close(own.get(input).unwrap(), expected.get(input).unwrap(), 1e-4);
        }
        check_slopes(&inputs, |inputs| {
            attention(&inputs[0], &inputs[1], &inputs[2], HEADS, &plan, 0)
        });
    }

    #[test]
    fn what_was_kept_counts_as_what_is_there() {
        let inputs = [
            variable(&[61, 24], 1),
            variable(&[63, 12], 2),
            variable(&[63, 12], 3),
        ];
        let whole = attention(&inputs[0], &inputs[1], &inputs[2], HEADS, &tree(), 0).unwrap();
        let kept: KeptLayers = Arc::new(vec![(
            inputs[1].narrow(0, 0, 60).unwrap().contiguous().unwrap(),
            inputs[2].narrow(0, 0, 60).unwrap().contiguous().unwrap(),
        )]);
        let plan = Arc::new(AttentionPlan {
            segments: vec![SegmentPlan {
                context: vec![Span::Kept(Arc::clone(&kept), 0..5), Span::Kept(kept, 8..60)],
                own: 0..3,
                queries: 0..1,
                first: 2,
            }],
        });
        let tail = |tensor: &Tensor| tensor.narrow(0, 60, 3).unwrap();
        let alone = attention(
            &inputs[0].narrow(0, 60, 1).unwrap(),
            &tail(&inputs[1]),
            &tail(&inputs[2]),
            HEADS,
            &plan,
            0,
        );
        assert_close(&alone.unwrap(), &whole.narrow(0, 60, 1).unwrap(), 0.0);
    }
}
