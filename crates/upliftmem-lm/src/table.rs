//! What every token stands for: the rows that texts begin with, and, at the other end, what each row is compared with.

use std::sync::Arc;

use candle_core::{Device, Result, Tensor};

use super::{
    numerical,
    ops::{CodedMatrix, coded_product},
    weights::{Rows, Weights},
};

/// A row for every token.
#[derive(Debug, Clone)]
pub(crate) enum Table {
    /// In single precision.
    Single(Tensor),
    /// In as few bits as the file has.
    Coded(Arc<CodedMatrix>),
}

impl Table {
    /// Reads a table.
    pub(crate) fn load(
        weights: &mut Weights,
        name: &str,
        shape: [usize; 2],
        device: &Device,
        few_bits: bool,
    ) -> crate::error::Result<Self> {
        match weights.matrix(name, shape, few_bits)? {
            Rows::Single(rows) => Tensor::from_vec(rows, &shape[..], device)
                .map(Self::Single)
                .map_err(numerical),
            Rows::Coded(rows) => Ok(Self::Coded(Arc::new(CodedMatrix::new(&rows)))),
        }
    }

    /// A token's row.
    pub(crate) fn row(&self, token: usize, device: &Device) -> Result<Tensor> {
        match self {
            Self::Single(rows) => rows.get(token),
            Self::Coded(rows) => Tensor::new(rows.row(token), device),
        }
    }

    /// The rows of some tokens.
    pub(crate) fn rows(&self, tokens: &[u32], device: &Device) -> Result<Tensor> {
        match self {
            Self::Single(rows) => rows.index_select(&Tensor::new(tokens, device)?, 0),
            Self::Coded(rows) => {
                let all: Vec<f32> = tokens
                    .iter()
                    .flat_map(|&token| rows.row(token as usize))
                    .collect();
                let width = all.len() / tokens.len().max(1);
                Tensor::from_vec(all, (tokens.len(), width), device)
            }
        }
    }

    /// The product of every given row with every token's.
    pub(crate) fn products(&self, x: &Tensor) -> Result<Tensor> {
        match self {
            Self::Single(rows) => x.matmul(&rows.t()?),
            Self::Coded(rows) => coded_product(x, rows),
        }
    }

    /// Whether two tables are the same but for rounding: a few rows tell.
    pub(crate) fn says_the_same(&self, other: &Self, tokens: usize) -> Result<bool> {
        for at in 0..8 {
            let token = at * tokens.saturating_sub(1) / 7;
            let own = self.row(token, &Device::Cpu)?.to_device(&Device::Cpu)?;
            let theirs = other.row(token, &Device::Cpu)?.to_device(&Device::Cpu)?;
            let square = |x: &Tensor| x.sqr()?.sum_all()?.to_scalar::<f32>();
            if square(&(own - &theirs)?)? > 0.1 * square(&theirs)?.max(1e-12) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
