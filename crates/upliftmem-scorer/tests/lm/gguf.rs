//! GGUF files, written here from the tiny models in the way of llama.cpp.

use std::{fs::File, path::Path};

use candle_core::{
    Tensor,
    quantized::{
        GgmlDType, QTensor,
        gguf_file::{self, Value},
    },
};
use upliftmem_scorer::lm::{Base, Device, KvCache, LmTokenizer};

use crate::world::fixture;

const PARTS: [(&str, &str); 9] = [
    ("input_layernorm", "attn_norm"),
    ("self_attn.q_proj", "attn_q"),
    ("self_attn.k_proj", "attn_k"),
    ("self_attn.v_proj", "attn_v"),
    ("self_attn.o_proj", "attn_output"),
    ("post_attention_layernorm", "ffn_norm"),
    ("mlp.gate_proj", "ffn_gate"),
    ("mlp.up_proj", "ffn_up"),
    ("mlp.down_proj", "ffn_down"),
];

/// llama.cpp's order of Llama's rows: entries that are turned together stand together.
fn paired(rows: &Tensor, heads: usize) -> Tensor {
    let (outputs, inputs) = rows.dims2().unwrap();
    let half = outputs / heads / 2;
    rows.reshape((heads, 2, half, inputs))
        .unwrap()
        .transpose(1, 2)
        .unwrap()
        .contiguous()
        .unwrap()
        .reshape((outputs, inputs))
        .unwrap()
}

fn write(file: &Path, tensors: &[(String, Tensor)]) {
    write_as(file, tensors, |_| GgmlDType::F32);
}

fn write_as(file: &Path, tensors: &[(String, Tensor)], kind: impl Fn(&str) -> GgmlDType) {
    let tensors: Vec<(String, QTensor)> = tensors
        .iter()
        .map(|(name, tensor)| (name.clone(), QTensor::quantize(tensor, kind(name)).unwrap()))
        .collect();
    let tensors: Vec<(&str, &QTensor)> = tensors
        .iter()
        .map(|(name, tensor)| (name.as_str(), tensor))
        .collect();
    let text = |text: &str| Value::String(text.to_owned());
    let letters: Vec<Value> = (b'a'..=b'z')
        .map(|byte| text(&char::from(byte).to_string()))
        .collect();
    let kinds = letters
        .iter()
        .map(|_| Value::I32(1))
        .chain([Value::I32(3)])
        .collect();
    let mut words = letters;
    words.push(text("<|im_end|>"));
    let keys = [
        ("general.architecture", text("llama")),
        ("llama.embedding_length", Value::U32(32)),
        ("llama.block_count", Value::U32(2)),
        ("llama.context_length", Value::U32(512)),
        ("llama.feed_forward_length", Value::U32(48)),
        ("llama.attention.head_count", Value::U32(4)),
        ("llama.attention.head_count_kv", Value::U32(2)),
        ("llama.attention.layer_norm_rms_epsilon", Value::F32(1e-5)),
        ("llama.rope.freq_base", Value::F32(1e4)),
        ("tokenizer.ggml.model", text("gpt2")),
        ("tokenizer.ggml.pre", text("smollm")),
        ("tokenizer.ggml.tokens", Value::Array(words)),
        ("tokenizer.ggml.token_type", Value::Array(kinds)),
        ("tokenizer.ggml.merges", Value::Array(vec![])),
    ];
    let keys: Vec<(&str, &Value)> = keys.iter().map(|(key, value)| (*key, value)).collect();
    gguf_file::write(&mut File::create(file).unwrap(), &keys, &tensors).unwrap();
}

fn tensors() -> Vec<(String, Tensor)> {
    let mut all = std::collections::HashMap::new();
    for shard in 1..=4 {
        let file = fixture("llama").join(format!("model-0000{shard}-of-00004.safetensors"));
        all.extend(candle_core::safetensors::load(file, &Device::Cpu).unwrap());
    }
    let mut tensors = vec![
        (
            "token_embd.weight".to_owned(),
            all["model.embed_tokens.weight"].clone(),
        ),
        ("output_norm.weight".to_owned(), all["model.norm.weight"].clone()),
        ("output.weight".to_owned(), all["lm_head.weight"].clone()),
    ];
    for layer in 0..2 {
        for (theirs, own) in PARTS {
            let tensor = all[&format!("model.layers.{layer}.{theirs}.weight")].clone();
            let tensor = match own {
                "attn_q" => paired(&tensor, 4),
                "attn_k" => paired(&tensor, 2),
                _ => tensor,
            };
            tensors.push((format!("blk.{layer}.{own}.weight"), tensor));
        }
    }
    tensors
}

#[test]
fn a_gguf_file_is_the_model_it_was_made_from() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("tiny.gguf");
    write(&file, &tensors());
    let theirs = Base::load_weights(&fixture("llama"), &Device::Cpu).unwrap();
    let own = Base::load_weights(&file, &Device::Cpu).unwrap();
    let logits = |base: &Base| {
        let hidden = base
            .forward(&[5, 17, 200, 31, 7, 290], &mut KvCache::default(), None)
            .unwrap();
        base.logits(&hidden)
            .unwrap()
            .flatten_all()
            .unwrap()
            .to_vec1::<f32>()
            .unwrap()
    };
    for (a, b) in logits(&own).iter().zip(logits(&theirs)) {
        assert!((a - b).abs() < 1e-5, "{a} for {b}");
    }
    let tokenizer = LmTokenizer::of_model(&file).unwrap();
    assert_eq!(tokenizer.encode("abz<|im_end|>c").unwrap(), [0, 1, 25, 26, 2]);
    assert_eq!(tokenizer.decode(&[7, 8], true).unwrap(), "hi");
}

#[test]
fn in_few_bits_a_model_says_nearly_the_same_and_a_text_may_come_in_parts() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("tiny.gguf");
    write_as(&file, &tensors(), |name| match name {
        "output.weight" | "token_embd.weight" => GgmlDType::Q8_0,
        name if name.contains("attn_q.") || name.contains("ffn_up") => GgmlDType::Q4_1,
        // Its rows are no whole number of blocks, nor are norms; they stay as they are.
        name if name.contains("ffn_down") || name.contains("norm") => GgmlDType::F32,
        _ => GgmlDType::Q5_0,
    });
    let single = Base::load_weights(&file, &Device::Cpu).unwrap();
    let (few, _) = Base::load_in_few_bits(&file).unwrap();
    let text = [5, 17, 200, 31, 7, 290, 11, 12, 13];
    let logits = |base: &Base, parts: &[usize]| -> Vec<f32> {
        let (mut cache, mut all, mut from) = (KvCache::default(), Vec::new(), 0);
        for &count in parts {
            let hidden = base.forward(&text[from..from + count], &mut cache, None).unwrap();
            let rows = base.logits(&hidden).unwrap().flatten_all().unwrap();
            all.extend(rows.to_vec1::<f32>().unwrap());
            from += count;
        }
        all
    };
    let (own, theirs) = (logits(&few, &[9]), logits(&single, &[9]));
    let dot = |a: &[f32], b: &[f32]| -> f64 { a.iter().zip(b).map(|(a, b)| f64::from(a * b)).sum() };
    let likeness = dot(&own, &theirs) / (dot(&own, &own) * dot(&theirs, &theirs)).sqrt();
    assert!(likeness > 0.999, "{likeness}");
    assert_eq!(own, logits(&few, &[1, 5, 1, 1, 1]));
    assert_eq!(
        few.margin_direction(3, 4).unwrap().to_vec2::<f32>().unwrap(),
        single.margin_direction(3, 4).unwrap().to_vec2::<f32>().unwrap()
    );
}

#[test]
fn a_gguf_file_that_lacks_or_cuts_a_tensor_names_it() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("tiny.gguf");
    let mut less = tensors();
    less.retain(|(name, _)| name != "blk.1.ffn_up.weight");
    write(&file, &less);
    let problem = Base::load_weights(&file, &Device::Cpu).unwrap_err().to_string();
    assert!(problem.contains("blk.1.ffn_up.weight"), "{problem}");
    write(&file, &tensors());
    let bytes = std::fs::read(&file).unwrap();
    std::fs::write(&file, &bytes[..bytes.len() - 100]).unwrap();
    let problem = Base::load_weights(&file, &Device::Cpu).unwrap_err().to_string();
    assert!(
        problem.contains("tensor \"blk.") || problem.contains("tensor \"o") || problem.contains("tensor \"t"),
        "{problem}"
    );
    let mut wrong = tensors();
    wrong[1].1 = Tensor::zeros(31, candle_core::DType::F32, &Device::Cpu).unwrap();
    write(&file, &wrong);
    let problem = Base::load_weights(&file, &Device::Cpu).unwrap_err().to_string();
    assert!(
        problem.contains("output_norm.weight") && problem.contains("[31]"),
        "{problem}"
    );
}
