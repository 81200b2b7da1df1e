//! Adapters on disk in the layout of PEFT, with the calibration beside them.

use std::{
    borrow::Cow,
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use candle_core::{Device, Tensor};
use safetensors::{Dtype, SafeTensors, View};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use upliftmem_lm::with_entries;

use super::{Adapter, Calibration, LmConfig, LoraSettings, LowRank, Module, numerical, problem};
use crate::error::Result;

const TENSORS: &str = "adapter_model.safetensors";
const CONFIG: &str = "adapter_config.json";
const CALIBRATION: &str = "calibration.json";

#[derive(Deserialize)]
struct File {
    peft_type: String,
    r: usize,
    lora_alpha: f64,
    #[serde(default)]
    lora_dropout: f64,
    target_modules: Value,
    #[serde(flatten)]
    others: Map<String, Value>,
}

/// What stands beside an adapter and PEFT does not know.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Beside {
    calibration: Calibration,
}

struct Entries {
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl View for Entries {
    fn dtype(&self) -> Dtype {
        Dtype::F32
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&self.bytes)
    }

    fn data_len(&self) -> usize {
        self.bytes.len()
    }
}

fn name(layer: usize, module: Module, which: &str) -> String {
    format!(
        "base_model.model.model.layers.{layer}.{}.lora_{which}.weight",
        module.path()
    )
}

/// Writes an adapter into a directory, which is made if it is not there. `base` names the model it belongs to.
pub fn save_adapter(directory: &Path, adapter: &Adapter, calibration: Calibration, base: &str) -> Result<()> {
    let unwritable = |file: PathBuf| {
        move |error: std::io::Error| problem(&file, format_args!("can not be written: {error}"))
    };
    fs::create_dir_all(directory).map_err(unwritable(directory.to_owned()))?;
    let settings = adapter.settings();
    let mut tensors = Vec::new();
    for (layer, pairs) in adapter.layers.iter().enumerate() {
        for (pair, &module) in pairs.iter().zip(&settings.modules) {
            for (which, tensor) in [("A", &pair.down), ("B", &pair.up)] {
                let bytes = with_entries(&tensor.to_device(&Device::Cpu).map_err(numerical)?, |entries| {
                    Ok(entries.iter().flat_map(|entry| entry.to_le_bytes()).collect())
                })
                .map_err(numerical)?;
                let shape = tensor.dims().to_vec();
                tensors.push((name(layer, module, which), Entries { shape, bytes }));
            }
        }
    }
    let config = json!({
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base,
        "r": settings.rank,
        "lora_alpha": settings.alpha,
        "lora_dropout": settings.dropout,
        "target_modules": settings.modules,
        "bias": "none",
        "fan_in_fan_out": false,
        "inference_mode": true,
        "init_lora_weights": true,
        "modules_to_save": null,
        "use_dora": false,
        "use_rslora": false,
    });
    let tensors = safetensors::serialize(tensors, None).map_err(|error| {
        problem(
            &directory.join(TENSORS),
            format_args!("can not be written: {error}"),
        )
    })?;
    let text = |value: &Value| format!("{value:#}\n").into_bytes();
    let beside = serde_json::to_value(Beside { calibration }).unwrap_or_default();
    // The configuration last: without it the directory is no adapter, so that a half written one is never read.
    for (file, bytes) in [
        (TENSORS, tensors),
        (CALIBRATION, text(&beside)),
        (CONFIG, text(&config)),
    ] {
        let (target, fresh) = (
            directory.join(file),
            directory.join(format!(".{file}.unfinished")),
        );
        fs::write(&fresh, bytes)
            .and_then(|()| fs::File::open(&fresh)?.sync_all())
            .and_then(|()| fs::rename(&fresh, &target))
            .map_err(unwritable(target))?;
    }
    Ok(())
}

/// Reads an adapter for a base of this shape, written here or by PEFT. Without a calibration the margin is the value.
pub fn load_adapter(directory: &Path, config: &LmConfig, device: &Device) -> Result<(Adapter, Calibration)> {
    let settings = read_settings(&directory.join(CONFIG))?;
    let file = directory.join(TENSORS);
    let bytes = read(&file)?;
    let tensors = SafeTensors::deserialize(&bytes).map_err(|error| {
        let size = bytes.len();
        problem(
            &file,
            format_args!("is truncated or not a safetensors file ({size} bytes: {error}); get it again"),
        )
    })?;
    let mut expected = BTreeSet::new();
    let mut layers = Vec::with_capacity(config.layers);
    for layer in 0..config.layers {
        let mut pairs = Vec::with_capacity(settings.modules.len());
        for &module in &settings.modules {
            let (outputs, inputs) = module.shape(config);
            let mut matrix = |which: &str, shape: (usize, usize)| -> Result<Tensor> {
                let name = name(layer, module, which);
                let entries = entries(&file, &tensors, &name, shape)?;
                expected.insert(name);
                Tensor::from_vec(entries, shape, device).map_err(numerical)
            };
            pairs.push(LowRank {
                down: matrix("A", (settings.rank, inputs))?,
                up: matrix("B", (outputs, settings.rank))?,
            });
        }
        layers.push(pairs);
    }
    if let Some(other) = tensors.names().into_iter().find(|&name| !expected.contains(name)) {
        return Err(problem(
            &file,
            format_args!(
                "has a tensor {other:?} that this base has no place for; it belongs to another model"
            ),
        ));
    }
    Ok((Adapter { settings, layers }, Calibration::load(directory)?))
}

impl Calibration {
    /// Reads what stands beside an adapter; the margin as it is if there is nothing.
    pub fn load(directory: &Path) -> Result<Self> {
        let file = directory.join(CALIBRATION);
        if !file.exists() {
            return Ok(Self::NONE);
        }
        let beside: Beside = serde_json::from_slice(&read(&file)?)
            .map_err(|error| problem(&file, format_args!("is not a calibration: {error}")))?;
        let Self { scale, offset } = beside.calibration;
        if scale.is_finite() && offset.is_finite() {
            return Ok(beside.calibration);
        }
        Err(problem(
            &file,
            format_args!("scale {scale} or offset {offset} is not a number"),
        ))
    }
}

fn read(file: &Path) -> Result<Vec<u8>> {
    fs::read(file).map_err(|error| problem(file, format_args!("can not be read: {error}")))
}

fn read_settings(file: &Path) -> Result<LoraSettings> {
    let wrong = |what: &dyn std::fmt::Display| problem(file, what);
    let parsed: File = serde_json::from_slice(&read(file)?)
        .map_err(|error| wrong(&format_args!("is not a configuration of an adapter: {error}")))?;
    if parsed.peft_type != "LORA" {
        return Err(wrong(&format_args!(
            "peft_type is {:?}; only \"LORA\" is known here",
            parsed.peft_type
        )));
    }
    // What would change the numbers and is not computed here must be off.
    for key in [
        "use_dora",
        "use_rslora",
        "fan_in_fan_out",
        "modules_to_save",
        "rank_pattern",
        "alpha_pattern",
        "layers_to_transform",
        "layer_replication",
        "trainable_token_indices",
        "exclude_modules",
        "lora_bias",
    ] {
        let off = parsed.others.get(key).is_none_or(|value| match value {
            Value::Null => true,
            Value::Bool(on) => !on,
            Value::Object(pattern) => pattern.is_empty(),
            Value::Array(list) => list.is_empty(),
            _ => false,
        });
        if !off {
            return Err(wrong(&format_args!("{key} is not supported here")));
        }
    }
    if let Some(bias) = parsed
        .others
        .get("bias")
        .and_then(Value::as_str)
        .filter(|bias| *bias != "none")
    {
        return Err(wrong(&format_args!("bias {bias:?} is not supported here")));
    }
    let mut modules: Vec<Module> = serde_json::from_value(parsed.target_modules).map_err(|error| {
        wrong(&format_args!("target_modules is not a list of q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj: {error}"))
    })?;
    modules.sort_unstable();
    let settings = LoraSettings {
        rank: parsed.r,
        alpha: parsed.lora_alpha,
        dropout: parsed.lora_dropout,
        modules,
    };
    settings.check().map_err(|error| wrong(&error))?;
    Ok(settings)
}

fn entries(
    file: &Path,
    tensors: &SafeTensors<'_>,
    name: &str,
    (rows, columns): (usize, usize),
) -> Result<Vec<f32>> {
    let tensor = tensors
        .tensor(name)
        .map_err(|_| problem(file, format_args!("has no tensor {name:?}")))?;
    if tensor.shape() != [rows, columns] {
        return Err(problem(
            file,
            format_args!(
                "tensor {name:?} has the shape {:?}; this base and adapter_config.json ask for {:?}",
                tensor.shape(),
                [rows, columns]
            ),
        ));
    }
    let data = tensor.data();
    let entries: Vec<f32> = match tensor.dtype() {
        Dtype::F32 => data
            .as_chunks()
            .0
            .iter()
            .map(|&entry| f32::from_le_bytes(entry))
            .collect(),
        Dtype::F16 => data
            .as_chunks()
            .0
            .iter()
            .map(|&entry| half::f16::from_le_bytes(entry).to_f32())
            .collect(),
        Dtype::BF16 => data
            .as_chunks()
            .0
            .iter()
            .map(|&entry| half::bf16::from_le_bytes(entry).to_f32())
            .collect(),
        other => {
            return Err(problem(
                file,
                format_args!("tensor {name:?} is stored as {other:?}, which is not known here"),
            ));
        }
    };
    match entries.iter().position(|entry| !entry.is_finite()) {
        Some(at) => Err(problem(
            file,
            format_args!("tensor {name:?} has {} at entry {at}", entries[at]),
        )),
        None => Ok(entries),
    }
}
