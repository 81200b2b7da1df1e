//! The three products that a layer and its backward pass need.
//!
//! Weights are stored input by input. Every output is summed in one order, whatever the batch and the processor, so
//! that values are the same to the bit.

use crate::compact::dot;

/// `out += x W`.
#[inline(always)]
pub(super) fn forward(out: &mut [f64], x: &[f64], weights: &[f64]) {
    if out.is_empty() {
        return;
    }
    for (&entry, row) in x.iter().zip(weights.chunks_exact(out.len())) {
        if entry != 0.0 {
            add_scaled(out, entry, row);
        }
    }
}

/// `dx += W dy`.
#[inline(always)]
pub(super) fn backward(dx: &mut [f64], weights: &[f64], dy: &[f64]) {
    if dy.is_empty() {
        return;
    }
    for (entry, row) in dx.iter_mut().zip(weights.chunks_exact(dy.len())) {
        *entry += dot(row, dy);
    }
}

/// `dW += x dy`.
#[inline(always)]
pub(super) fn outer(d_weights: &mut [f64], x: &[f64], dy: &[f64]) {
    if dy.is_empty() {
        return;
    }
    for (&entry, row) in x.iter().zip(d_weights.chunks_exact_mut(dy.len())) {
        if entry != 0.0 {
            add_scaled(row, entry, dy);
        }
    }
}

/// `out += factor x`.
#[inline(always)]
pub(super) fn add_scaled(out: &mut [f64], factor: f64, x: &[f64]) {
    for (entry, value) in out.iter_mut().zip(x) {
        *entry += factor * value;
    }
}

/// 1 / (1 + exp(-x)) without overflow.
pub(super) fn sigmoid(x: f64) -> f64 {
    let tail = (-x.abs()).exp();
    if x >= 0.0 {
        1.0 / (1.0 + tail)
    } else {
        tail / (1.0 + tail)
    }
}
