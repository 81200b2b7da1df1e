//! What is taken from the data as it is, before any learning: centres, the usual relevance, the unit of labels.

use serde::{Deserialize, Serialize};

use crate::{
    Embedding,
    compact::dot,
    error::{Result, invalid},
};

/// The frame in which a network sees texts and labels. Fixed when training starts anew.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Frame {
    /// The mean task and the mean memory: what all texts share says nothing.
    pub(crate) task_mean: Vec<f64>,
    pub(crate) memory_mean: Vec<f64>,
    /// Mean and standard deviation of the relevance of memories in labelled sets.
    pub(crate) relevance_mean: f64,
    pub(crate) relevance_sd: f64,
    /// Size of a typical label: the network predicts in this unit.
    pub(crate) unit: f64,
}

impl Frame {
    /// From the texts of tasks and memories, the pairs of them that occur in labels, and the labels.
    pub(super) fn of(
        tasks: &[&Embedding],
        memories: &[&Embedding],
        together: &[(&Embedding, &Embedding)],
        labels: &[f64],
    ) -> Self {
        let dimension = tasks.first().map_or(0, |text| text.dimension());
        let mut frame = Self {
            task_mean: mean(dimension, tasks),
            memory_mean: mean(dimension, memories),
            relevance_mean: 0.0,
            relevance_sd: 1.0,
            unit: typical(labels),
        };
        let found: Vec<f64> = together
            .iter()
            .map(|(task, memory)| frame.relevance(&frame.centred_task(task), &frame.centred_memory(memory)))
            .collect();
        if !found.is_empty() {
            let mean = found.iter().sum::<f64>() / found.len() as f64;
            let variance = found.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / found.len() as f64;
            frame.relevance_mean = mean;
            if variance > 1e-12 {
                frame.relevance_sd = variance.sqrt();
            }
        }
        frame
    }

    pub(crate) fn dimension(&self) -> usize {
        self.task_mean.len()
    }

    pub(super) fn centred_task(&self, text: &Embedding) -> Vec<f64> {
        centred(text, &self.task_mean)
    }

    pub(super) fn centred_memory(&self, text: &Embedding) -> Vec<f64> {
        centred(text, &self.memory_mean)
    }

    /// How well a memory's text matches a task's, in units of how much that varies.
    pub(super) fn relevance(&self, task: &[f64], memory: &[f64]) -> f64 {
        (dot(task, memory) - self.relevance_mean) / self.relevance_sd
    }

    /// Refuses texts of another embedder.
    pub(super) fn check(&self, what: impl std::fmt::Display, text: &Embedding) -> Result<()> {
        if text.dimension() == self.dimension() {
            return Ok(());
        }
        Err(invalid(
            what,
            format_args!(
                "its embedding has {} entries and the network's have {}; use one embedder for all texts",
                text.dimension(),
                self.dimension()
            ),
        ))
    }
}

/// The text's difference to the mean at length one; a text that equals the mean has no direction.
fn centred(text: &Embedding, mean: &[f64]) -> Vec<f64> {
    let mut values: Vec<f64> = text
        .values()
        .iter()
        .zip(mean)
        .map(|(&value, mean)| f64::from(value) - mean)
        .collect();
    let norm = dot(&values, &values).sqrt();
    let length = if norm > 1e-150 { norm } else { f64::INFINITY };
    for value in &mut values {
        *value /= length;
    }
    values
}

fn mean(dimension: usize, texts: &[&Embedding]) -> Vec<f64> {
    let mut mean = vec![0.0; dimension];
    // Few texts would centre themselves to nothing.
    if texts.len() < 3 {
        return mean;
    }
    for text in texts {
        for (sum, &value) in mean.iter_mut().zip(text.values()) {
            *sum += f64::from(value) / texts.len() as f64;
        }
    }
    mean
}

/// The root mean square, without overflow; 1 when there is nothing to measure.
fn typical(labels: &[f64]) -> f64 {
    let largest = labels.iter().fold(0.0_f64, |size, label| size.max(label.abs()));
    if largest <= f64::MIN_POSITIVE {
        return 1.0;
    }
    let squares: f64 = labels.iter().map(|label| (label / largest).powi(2)).sum();
    largest * (squares / labels.len() as f64).sqrt()
}
