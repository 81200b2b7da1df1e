//! Keys and values of a text that is being continued.

use std::{ops::Range, sync::Arc};

use candle_core::{Result, Tensor};

use super::{Spans, ops::KeptLayers, pass::Before};

/// Tokens that a part has room for while an answer grows token by token.
const ROOM: usize = 128;

/// Keys and values of a text that is being continued.
#[derive(Debug, Clone, Default)]
pub struct KvCache {
    parts: Vec<(KeptLayers, Range<usize>)>,
    length: usize,
}

impl KvCache {
    /// Tokens in it.
    pub const fn len(&self) -> usize {
        self.length
    }

    /// Whether nothing is in it.
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// A text whose start is kept elsewhere.
    pub fn from_spans(spans: Spans) -> Self {
        Self {
            length: spans.iter().map(|(_, rows)| rows.len()).sum(),
            parts: spans,
        }
    }

    /// Keys and values of the last `count` tokens, if they were added together.
    pub fn newest(&self, count: usize) -> Option<&KeptLayers> {
        let (layers, rows) = self.parts.last()?;
        (*rows == (0..count) && room(layers) == count).then_some(layers)
    }

    /// What stands before a token that follows.
    pub(crate) fn before(&self) -> Vec<Before> {
        self.parts
            .iter()
            .map(|(kept, rows)| Before::Kept(Arc::clone(kept), rows.clone()))
            .collect()
    }

    /// Forgets all tokens from `length` on.
    pub fn truncate(&mut self, length: usize) {
        let mut start = 0;
        self.parts.retain_mut(|(_, range)| {
            let keep = length.saturating_sub(start).min(range.len());
            start += range.len();
            range.end = range.start + keep;
            keep > 0
        });
        self.length = self.length.min(length);
    }

    /// Adds tokens that were read together. A single one goes into a part that has room for more: an answer would
    /// otherwise have as many parts as tokens.
    pub(crate) fn push(&mut self, layers: KeptLayers, count: usize) -> Result<()> {
        if count != 1 {
            self.parts.push((layers, 0..count));
        } else if !self.put(&layers)? {
            let roomy = |one: &Tensor| -> Result<Tensor> {
                let all = Tensor::zeros((ROOM, one.dim(1)?), one.dtype(), one.device())?;
                all.slice_set(one, 0, 0)?;
                Ok(all)
            };
            let all = layers
                .iter()
                .map(|(keys, values)| Ok((roomy(keys)?, roomy(values)?)));
            self.parts.push((Arc::new(all.collect::<Result<_>>()?), 0..1));
        }
        self.length += count;
        Ok(())
    }

    /// Writes a token behind the last one, if there is room and nobody else reads there.
    fn put(&mut self, one: &KeptLayers) -> Result<bool> {
        let Some((layers, rows)) = self.parts.last_mut() else {
            return Ok(false);
        };
        if rows.end >= room(layers) || Arc::get_mut(layers).is_none() {
            return Ok(false);
        }
        for ((keys, values), (key, value)) in layers.iter().zip(one.iter()) {
            keys.slice_set(key, 0, rows.end)?;
            values.slice_set(value, 0, rows.end)?;
        }
        rows.end += 1;
        Ok(true)
    }
}

/// Tokens that layers have room for.
fn room(layers: &KeptLayers) -> usize {
    layers.first().map_or(0, |(keys, _)| keys.dims()[0])
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;

    fn layers(tokens: &[f32]) -> KeptLayers {
        let rows = Tensor::new(tokens, &Device::Cpu).unwrap().unsqueeze(1).unwrap();
        Arc::new(vec![(rows.copy().unwrap(), rows)])
    }

    fn read(cache: &KvCache) -> Vec<f32> {
        let rows = |(layers, rows): &(KeptLayers, Range<usize>)| {
            let all = layers[0].1.flatten_all().unwrap().to_vec1::<f32>().unwrap();
            all[rows.clone()].to_vec()
        };
        cache.parts.iter().flat_map(rows).collect()
    }

    #[test]
    fn an_answer_grows_in_place() {
        let mut cache = KvCache::default();
        cache.push(layers(&[1.0, 2.0, 3.0]), 3).unwrap();
        assert!(cache.newest(3).is_some());
        let mut expected = vec![1.0, 2.0, 3.0];
        for token in 0..2 * ROOM {
            cache.push(layers(&[token as f32]), 1).unwrap();
            expected.push(token as f32);
        }
        assert_eq!((read(&cache), cache.len()), (expected, 3 + 2 * ROOM));
        assert_eq!(cache.parts.len(), 3);
        assert!(cache.newest(ROOM).is_some() && cache.newest(1).is_none());
    }

    #[test]
    fn copies_grow_apart() {
        let mut cache = KvCache::default();
        for token in 0..5_u8 {
            cache.push(layers(&[f32::from(token)]), 1).unwrap();
        }
        let mut other = cache.clone();
        other.truncate(3);
        other.push(layers(&[7.0]), 1).unwrap();
        cache.push(layers(&[9.0]), 1).unwrap();
        assert_eq!(read(&other), [0.0, 1.0, 2.0, 7.0]);
        assert_eq!(read(&cache), [0.0, 1.0, 2.0, 3.0, 4.0, 9.0]);
        drop(other);
        cache.truncate(4);
        cache.push(layers(&[8.0]), 1).unwrap();
        assert_eq!(read(&cache), [0.0, 1.0, 2.0, 3.0, 8.0]);
    }
}
