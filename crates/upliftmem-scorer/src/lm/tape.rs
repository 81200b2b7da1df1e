//! The way back through a model, within a bound of memory.
//!
//! Going forth, a layer either keeps everything that its way back needs, or only its input and is computed a second time
//! (gradient checkpointing). How many layers keep everything is decided by the memory that is left.

use candle_core::{Result, Tensor, Var};

use upliftmem_lm::{Beside, Dropout, Module, Pass, rms_norm};

use super::{Adapter, Base, LmConfig};

/// An adapter whose matrices are variables, and the same numbers as constants.
pub(crate) struct Learnable {
    pub(crate) variables: Adapter,
    pub(crate) constants: Adapter,
    /// In the order of layers, maps, down before up.
    handles: Vec<Var>,
}

impl Learnable {
    pub(crate) fn new(adapter: &Adapter) -> Result<Self> {
        let (mut variables, mut constants) = (adapter.clone(), adapter.clone());
        let mut handles = Vec::new();
        for (layer, fixed) in variables.layers.iter_mut().zip(&mut constants.layers) {
            for (pair, fixed) in layer.iter_mut().zip(fixed) {
                for (matrix, fixed) in [(&mut pair.down, &mut fixed.down), (&mut pair.up, &mut fixed.up)] {
                    let variable = Var::from_tensor(matrix)?;
                    *matrix = variable.as_tensor().clone();
                    *fixed = matrix.detach();
                    handles.push(variable);
                }
            }
        }
        Ok(Self {
            variables,
            constants,
            handles,
        })
    }

    /// The variables that a layer's slopes go to, with their numbers among all.
    fn of_layer(&self, layer: usize) -> impl Iterator<Item = (usize, &Var)> {
        let each = 2 * self.variables.settings().modules.len();
        self.handles.iter().enumerate().skip(layer * each).take(each)
    }
}

/// What a layer left for the way back.
enum Left {
    /// Input and output with everything between.
    Whole { input: Option<Var>, output: Tensor },
    /// The input alone.
    Input(Tensor),
}

/// One pass that can be gone back.
pub(crate) struct Tape<'a> {
    base: &'a Base,
    learnable: &'a Learnable,
    pass: Pass,
    dropout: Option<Dropout>,
    direction: Tensor,
    left: Vec<Left>,
    /// The margins of the wanted rows.
    pub(crate) margins: Vec<f64>,
}

/// Bytes that a layer keeps of one token for its way back.
fn layer_bytes(config: &LmConfig, adapter: &Adapter) -> usize {
    // Input, its norm, what attention adds, the sum, the output; queries and keys before and after rotation, values; what
    // was seen; gate and up.
    let mut rows =
        5 * config.hidden + 3 * config.query_size() + 3 * config.key_size() + 2 * config.intermediate;
    let inner = [Module::Gate, Module::Up, Module::Down];
    if inner
        .iter()
        .any(|module| adapter.settings().modules.contains(module))
    {
        // The feed-forward block step by step: its norm, what it adds, the product of gate and up.
        rows += 2 * config.hidden + config.intermediate;
    }
    rows * size_of::<f32>()
}

impl<'a> Tape<'a> {
    /// Goes forth. `memory` is what may be kept, in bytes, and becomes what is left of it.
    pub(crate) fn forward(
        base: &'a Base,
        learnable: &'a Learnable,
        pass: Pass,
        dropout: Option<Dropout>,
        direction: &Tensor,
        memory: &mut usize,
    ) -> Result<Self> {
        let tokens = pass.tokens().len();
        let inputs = base.layers().len() * tokens * base.config().hidden * size_of::<f32>();
        let mut spare = memory.saturating_sub(inputs);
        *memory = spare;
        let mut tape = Self {
            base,
            learnable,
            pass,
            dropout,
            direction: direction.clone(),
            left: Vec::with_capacity(base.layers().len()),
            margins: Vec::new(),
        };
        let whole = tokens * layer_bytes(base.config(), &learnable.constants);
        let mut rows = base.embed(&tape.pass)?;
        for index in 0..base.layers().len() {
            // The last layer is short: few rows go through it.
            let last = index + 1 == base.layers().len();
            if last || spare >= whole {
                spare = spare.saturating_sub(if last { 0 } else { whole });
                let (input, output) = tape.layer(index, &rows)?;
                rows = output.detach();
                tape.left.push(Left::Whole { input, output });
            } else {
                let output = tape.layer_with(index, &rows, &learnable.constants)?;
                tape.left.push(Left::Input(rows));
                rows = output;
            }
        }
        *memory = spare;
        tape.margins = rows.to_vec1::<f32>()?.into_iter().map(f64::from).collect();
        Ok(tape)
    }

    /// A layer whose way back is kept. The first one's input has no slope that anyone asks for.
    fn layer(&self, index: usize, rows: &Tensor) -> Result<(Option<Var>, Tensor)> {
        let input = if index == 0 {
            None
        } else {
            Some(Var::from_tensor(rows)?)
        };
        let start = input.as_ref().map_or(rows, |input| input.as_tensor());
        let output = self.layer_with(index, start, &self.learnable.variables)?;
        Ok((input, output))
    }

    /// A layer; the last one goes on to the margins.
    fn layer_with(&self, index: usize, rows: &Tensor, adapter: &Adapter) -> Result<Tensor> {
        let last = index + 1 == self.base.layers().len();
        let beside = Beside {
            adapter: Some(adapter),
            dropout: self.dropout,
        };
        let rows = self.base.layers()[index]
            .forward(rows, &self.pass, last, beside)?
            .rows;
        if !last {
            return Ok(rows);
        }
        let hidden = rms_norm(&rows, self.base.norm(), self.base.config().norm_epsilon)?;
        hidden.matmul(&self.direction)?.flatten_all()
    }

    /// Goes back from slopes by the margins and adds to the gradient, one entry for each matrix of the adapter.
    pub(crate) fn backward(mut self, slopes: &[f32], gradient: &mut [Vec<f32>]) -> Result<()> {
        let mut slope = Tensor::new(slopes, self.base.device())?;
        while let Some(left) = self.left.pop() {
            let index = self.left.len();
            let (input, output) = match left {
                Left::Whole { input, output } => (input, output),
                Left::Input(rows) => self.layer(index, &rows)?,
            };
            let mut slopes = (output * slope)?.sum_all()?.backward()?;
            for (at, variable) in self.learnable.of_layer(index) {
                if let Some(found) = slopes.remove(variable) {
                    let found = found.flatten_all()?.to_vec1::<f32>()?;
                    for (sum, value) in gradient[at].iter_mut().zip(found) {
                        *sum += value;
                    }
                }
            }
            let Some(input) = input else { break };
            slope = match slopes.remove(&input) {
                Some(slope) => slope,
                None => break,
            };
        }
        Ok(())
    }
}
