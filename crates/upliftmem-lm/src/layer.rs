//! One layer of a decoder, over packed rows.

use candle_core::{Device, Result, Tensor};

use super::{
    Architecture, LmConfig,
    adapter::{Adapter, Module, place},
    numerical,
    ops::{
        Dropout, FrozenLinear, Heads, add_low_rank, attend, attention, feed_forward, gate, normalise,
        rms_norm, rotary, swiglu, with_entries,
    },
    pass::Pass,
    weights::{Rows, Weights},
};

/// The frozen numbers of a layer.
#[derive(Debug)]
pub struct Layer {
    index: usize,
    heads: Heads,
    epsilon: f64,
    input_norm: Tensor,
    post_norm: Tensor,
    /// Norms of the heads of queries and keys.
    head_norms: Option<(Tensor, Tensor)>,
    /// In the order of [`Module::ALL`].
    maps: Vec<FrozenLinear>,
}

/// What adds to the frozen maps in one pass.
#[derive(Debug, Clone, Copy, Default)]
pub struct Beside<'a> {
    /// What was learned.
    pub adapter: Option<&'a Adapter>,
    /// What is left out while learning.
    pub dropout: Option<Dropout>,
}

/// What a layer gives.
pub struct LayerOutput {
    /// All rows, or the wanted ones in the last layer.
    pub rows: Tensor,
    /// Keys of all rows.
    pub keys: Tensor,
    /// Values of all rows.
    pub values: Tensor,
}

/// Rows of a pass on a processor. Every layer works in the same space: fresh space for every result would have to be
/// cleared and mapped each time.
pub(crate) struct Space {
    count: usize,
    /// What goes from layer to layer.
    pub(crate) hidden: Vec<f32>,
    normed: Vec<f32>,
    queries: Vec<f32>,
    /// Keys of the last layer that was read, of all rows.
    pub(crate) keys: Vec<f32>,
    /// Its values.
    pub(crate) values: Vec<f32>,
    seen: Vec<f32>,
    gate: Vec<f32>,
    up: Vec<f32>,
}

impl Space {
    /// Starts with the embedding of some tokens.
    pub(crate) fn new(config: &LmConfig, hidden: Vec<f32>) -> Self {
        let count = hidden.len() / config.hidden;
        let space = |width: usize| vec![0.0; count * width];
        Self {
            count,
            normed: space(config.hidden),
            queries: space(config.query_size()),
            keys: space(config.key_size()),
            values: space(config.key_size()),
            seen: space(config.query_size()),
            gate: space(config.intermediate),
            up: space(config.intermediate),
            hidden,
        }
    }

    /// Goes on with some of the rows alone.
    fn pick(&mut self, wanted: &[u32]) {
        for all in [&mut self.hidden, &mut self.normed] {
            let width = all.len() / self.count;
            for (to, &from) in wanted.iter().enumerate() {
                let from = from as usize * width;
                all.copy_within(from..from + width, to * width);
            }
        }
        for all in [
            &mut self.hidden,
            &mut self.normed,
            &mut self.queries,
            &mut self.seen,
            &mut self.gate,
            &mut self.up,
        ] {
            all.truncate(all.len() / self.count * wanted.len());
        }
        self.count = wanted.len();
    }
}

impl Layer {
    /// Reads a layer.
    pub(crate) fn load(
        weights: &mut Weights,
        config: &LmConfig,
        index: usize,
        device: &Device,
        few_bits: bool,
    ) -> crate::error::Result<Self> {
        let read = |name: &str, shape: &[usize], weights: &mut Weights| {
            weights.tensor(&format!("model.layers.{index}.{name}"), shape)
        };
        let vector = |entries: Vec<f32>| {
            let count = entries.len();
            Tensor::from_vec(entries, count, device).map_err(numerical)
        };
        let mut maps = Vec::with_capacity(Module::ALL.len());
        for module in Module::ALL {
            let (outputs, inputs) = module.shape(config);
            let name = format!("model.layers.{index}.{}.weight", module.path());
            let rows = weights.matrix(&name, [outputs, inputs], few_bits)?;
            let biased = config.attention_bias
                && (matches!(module, Module::Query | Module::Key | Module::Value)
                    || (module == Module::Output && config.architecture == Architecture::Llama));
            let bias = if biased {
                Some(read(&format!("{}.bias", module.path()), &[outputs], weights)?)
            } else {
                None
            };
            let map = match rows {
                Rows::Single(rows) => FrozenLinear::new(&rows, outputs, inputs, bias.as_deref(), device),
                Rows::Coded(rows) => FrozenLinear::coded(&rows, bias.as_deref()),
            };
            maps.push(map.map_err(numerical)?);
        }
        let head_norms = if config.architecture == Architecture::Qwen3 {
            let size = [config.head_size];
            let queries = read("self_attn.q_norm.weight", &size, weights)?;
            let keys = read("self_attn.k_norm.weight", &size, weights)?;
            Some((vector(queries)?, vector(keys)?))
        } else {
            None
        };
        let hidden = [config.hidden];
        Ok(Self {
            input_norm: vector(read("input_layernorm.weight", &hidden, weights)?)?,
            post_norm: vector(read("post_attention_layernorm.weight", &hidden, weights)?)?,
            ..Self::of(config, index, maps, head_norms, device)?
        })
    }

    /// A layer with norms of one.
    pub(crate) fn of(
        config: &LmConfig,
        index: usize,
        maps: Vec<FrozenLinear>,
        head_norms: Option<(Tensor, Tensor)>,
        device: &Device,
    ) -> crate::error::Result<Self> {
        let ones = || Tensor::ones(config.hidden, candle_core::DType::F32, device).map_err(numerical);
        Ok(Self {
            index,
            heads: Heads {
                queries: config.heads,
                keys: config.key_heads,
                size: config.head_size,
            },
            epsilon: config.norm_epsilon,
            input_norm: ones()?,
            post_norm: ones()?,
            head_norms,
            maps,
        })
    }

    /// One map with what stands beside it.
    fn map(&self, module: Module, x: &Tensor, beside: Beside<'_>) -> Result<Tensor> {
        let map = &self.maps[module as usize];
        let Some(adapter) = beside.adapter else {
            return map.forward(x);
        };
        let Some(pair) = adapter.pair(self.index, module) else {
            return map.forward(x);
        };
        let dropout = beside
            .dropout
            .map(|dropout| dropout.at(place(self.index, module)));
        map.adapted(x, (&pair.down, &pair.up), adapter.settings().scale(), dropout)
    }

    /// All rows of a pass through the layer. In the last one only the wanted rows go on: nobody reads the others.
    pub fn forward(&self, x: &Tensor, pass: &Pass, last: bool, beside: Beside<'_>) -> Result<LayerOutput> {
        let normed = rms_norm(x, &self.input_norm, self.epsilon)?;
        let keys = self.map(Module::Key, &normed, beside)?;
        let values = self.map(Module::Value, &normed, beside)?;
        let (query_norm, key_norm) = self.head_norms.as_ref().map_or((None, None), |(q, k)| {
            (Some((q, self.epsilon)), Some((k, self.epsilon)))
        });
        let keys = rotary(&keys, pass.rotary(), key_norm)?;
        let pick = |rows: &Tensor| -> Result<Tensor> {
            match pass.wanted().filter(|_| last) {
                Some(wanted) => rows.index_select(&Tensor::new(wanted, rows.device())?, 0),
                None => Ok(rows.clone()),
            }
        };
        let queries = self.map(Module::Query, &pick(&normed)?, beside)?;
        let queries = rotary(&queries, pass.query_rotary(last), query_norm)?;
        let seen = attention(&queries, &keys, &values, self.heads, pass.plan(last), self.index)?;
        let rows = (pick(x)? + self.map(Module::Output, &seen, beside)?)?;
        let alone = [Module::Gate, Module::Up, Module::Down];
        if alone.iter().all(|&module| {
            beside
                .adapter
                .is_none_or(|adapter| adapter.pair(self.index, module).is_none())
        }) && let Some(rows) = feed_forward(
            &rows,
            &self.post_norm,
            self.epsilon,
            alone.map(|module| &self.maps[module as usize]),
        )? {
            return Ok(LayerOutput { rows, keys, values });
        }
        let normed = rms_norm(&rows, &self.post_norm, self.epsilon)?;
        let gate = self.map(Module::Gate, &normed, beside)?;
        let inner = swiglu(&gate, &self.map(Module::Up, &normed, beside)?)?;
        let rows = (rows + self.map(Module::Down, &inner, beside)?)?;
        Ok(LayerOutput { rows, keys, values })
    }

    /// One map on a processor, without a way back.
    fn apply(
        &self,
        module: Module,
        x: &[f32],
        adapter: Option<&Adapter>,
        out: &mut [f32],
        add: bool,
    ) -> Result<()> {
        self.maps[module as usize].apply(x, out, add)?;
        if let Some(adapter) = adapter
            && let Some(pair) = adapter.pair(self.index, module)
        {
            #[expect(clippy::cast_possible_truncation, reason = "entries are in single precision")]
            let scale = adapter.settings().scale() as f32;
            add_low_rank(x, &pair.down, &pair.up, scale, out)?;
        }
        Ok(())
    }

    fn norm(&self, rows: &mut [f32], weight: &Tensor) -> Result<()> {
        with_entries(weight, |weight| {
            normalise(rows, weight, self.epsilon);
            Ok(())
        })
    }

    /// [`Self::forward`] on a processor, without a way back and without a result that is not needed.
    pub(crate) fn read(
        &self,
        rows: &mut Space,
        pass: &Pass,
        last: bool,
        adapter: Option<&Adapter>,
    ) -> Result<()> {
        rows.normed.copy_from_slice(&rows.hidden);
        self.norm(&mut rows.normed, &self.input_norm)?;
        self.apply(Module::Key, &rows.normed, adapter, &mut rows.keys, false)?;
        self.apply(Module::Value, &rows.normed, adapter, &mut rows.values, false)?;
        if let Some((_, norm)) = &self.head_norms {
            self.norm(&mut rows.keys, norm)?;
        }
        pass.rotary().apply(&mut rows.keys);
        if let Some(wanted) = pass.wanted().filter(|_| last) {
            rows.pick(wanted);
        }
        self.apply(Module::Query, &rows.normed, adapter, &mut rows.queries, false)?;
        if let Some((norm, _)) = &self.head_norms {
            self.norm(&mut rows.queries, norm)?;
        }
        pass.query_rotary(last).apply(&mut rows.queries);
        attend(
            [&rows.queries, &rows.keys, &rows.values],
            self.heads,
            pass.plan(last),
            self.index,
            &mut rows.seen,
        )?;
        self.apply(Module::Output, &rows.seen, adapter, &mut rows.hidden, true)?;
        rows.normed.copy_from_slice(&rows.hidden);
        self.norm(&mut rows.normed, &self.post_norm)?;
        self.apply(Module::Gate, &rows.normed, adapter, &mut rows.gate, false)?;
        self.apply(Module::Up, &rows.normed, adapter, &mut rows.up, false)?;
        gate(&mut rows.gate, &rows.up);
        self.apply(Module::Down, &rows.gate, adapter, &mut rows.hidden, true)
    }
}
