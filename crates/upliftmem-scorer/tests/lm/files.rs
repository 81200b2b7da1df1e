//! Files that are damaged, foreign or do not fit: one error that names the file and the tensor.

use std::{collections::BTreeMap, fs, path::Path};

use safetensors::{Dtype, SafeTensors, tensor::TensorView};
use upliftmem_scorer::lm::{Base, Device, LmTokenizer, load_adapter};

use crate::world::fixture;

/// A copy of a model that may be spoilt.
fn copy(name: &str) -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(fixture(name)).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            fs::copy(&path, place.path().join(path.file_name().unwrap())).unwrap();
        }
    }
    place
}

fn problem(directory: &Path) -> String {
    Base::load_weights(directory, &Device::Cpu)
        .unwrap_err()
        .to_string()
}

/// Writes the tensors again after a change.
fn change(file: &Path, change: impl FnOnce(&mut BTreeMap<String, (Dtype, Vec<usize>, Vec<u8>)>)) {
    let bytes = fs::read(file).unwrap();
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    let mut all: BTreeMap<String, (Dtype, Vec<usize>, Vec<u8>)> = tensors
        .tensors()
        .into_iter()
        .map(|(name, view)| (name, (view.dtype(), view.shape().to_vec(), view.data().to_vec())))
        .collect();
    change(&mut all);
    let views = all.iter().map(|(name, (dtype, shape, data))| {
        (
            name.clone(),
            TensorView::new(*dtype, shape.clone(), data).unwrap(),
        )
    });
    fs::write(file, safetensors::serialize(views, None).unwrap()).unwrap();
}

const DOWN: &str = "model.layers.1.mlp.down_proj.weight";

#[test]
fn a_missing_tensor_is_named() {
    let place = copy("qwen3");
    change(&place.path().join("model.safetensors"), |all| {
        drop(all.remove(DOWN));
    });
    assert!(problem(place.path()).contains(DOWN));
}

#[test]
fn a_tensor_of_another_shape_type_or_content_is_named() {
    for (what, expected) in [("shape", "[48, 32]"), ("dtype", "I32"), ("nan", "NaN")] {
        let place = copy("qwen3");
        change(&place.path().join("model.safetensors"), |all| {
            let tensor = all.get_mut(DOWN).unwrap();
            match what {
                "shape" => tensor.1.reverse(),
                "dtype" => tensor.0 = Dtype::I32,
                _ => tensor.2[..4].copy_from_slice(&f32::NAN.to_le_bytes()),
            }
        });
        let problem = problem(place.path());
        assert!(problem.contains(DOWN) && problem.contains(expected), "{problem}");
    }
}

#[test]
fn a_truncated_file_is_named_at_every_length() {
    let place = copy("qwen3");
    let file = place.path().join("model.safetensors");
    let bytes = fs::read(&file).unwrap();
    for length in [0, 4, 8, 100, 3000, bytes.len() / 2, bytes.len() - 1] {
        fs::write(&file, &bytes[..length]).unwrap();
        let problem = problem(place.path());
        assert!(
            problem.contains("model.safetensors") && problem.contains("truncated"),
            "{length}: {problem}"
        );
    }
    fs::remove_file(&file).unwrap();
    assert!(problem(place.path()).contains("missing"));
}

#[test]
fn a_shard_that_lacks_its_tensor_is_named() {
    let place = copy("llama");
    let index = place.path().join("model.safetensors.index.json");
    let text = fs::read_to_string(&index).unwrap();
    let wrong = text.replace("model-00001-of-00004", "model-00002-of-00004");
    fs::write(&index, wrong).unwrap();
    let found = problem(place.path());
    assert!(
        found.contains("model-00002-of-00004.safetensors") && found.contains("has no tensor"),
        "{found}"
    );
    fs::write(
        &index,
        text.replace("model-00001-of-00004.safetensors", "../elsewhere.safetensors"),
    )
    .unwrap();
    assert!(problem(place.path()).contains("not a file beside it"));
}

#[test]
fn a_tokenizer_of_another_model_is_refused() {
    let place = copy("qwen3");
    let config = place.path().join("config.json");
    let text = fs::read_to_string(&config)
        .unwrap()
        .replace("\"vocab_size\": 300", "\"vocab_size\": 200");
    fs::write(&config, text).unwrap();
    change(&place.path().join("model.safetensors"), |all| {
        let embedding = all.get_mut("model.embed_tokens.weight").unwrap();
        embedding.1[0] = 200;
        embedding.2.truncate(200 * 32 * 4);
    });
    let problem = Base::load(place.path(), &Device::Cpu).err().unwrap().to_string();
    assert!(
        problem.contains("264 tokens") && problem.contains("200 rows"),
        "{problem}"
    );
}

#[test]
fn what_is_no_model_is_refused() {
    let place = tempfile::tempdir().unwrap();
    assert!(problem(place.path()).contains("model.safetensors"));
    let file = place.path().join("model.bin");
    fs::write(&file, "x").unwrap();
    assert!(problem(&file).contains(".gguf"));
    let file = place.path().join("model.gguf");
    fs::write(&file, "GGUF\u{3}\0\0\0").unwrap();
    assert!(problem(&file).contains("GGUF"));
    assert!(
        LmTokenizer::from_file(&file)
            .err()
            .unwrap()
            .to_string()
            .contains("tokenizer")
    );
}

#[test]
fn an_adapter_that_does_not_fit_is_named() {
    let config = Base::load_weights(&fixture("qwen3"), &Device::Cpu)
        .unwrap()
        .config()
        .clone();
    let load = |place: &Path| {
        load_adapter(place, &config, &Device::Cpu)
            .err()
            .unwrap()
            .to_string()
    };
    // Another model's adapter: its queries have another size.
    let problem = load(&fixture("llama/adapter"));
    assert!(
        problem.contains("self_attn.q_proj.lora_B.weight") && problem.contains("[64, 3]"),
        "{problem}"
    );
    let place = copy("qwen3/adapter");
    let file = place.path().join("adapter_model.safetensors");
    let name = "base_model.model.model.layers.1.mlp.up_proj.lora_A.weight";
    change(&file, |all| drop(all.remove(name)));
    assert!(load(place.path()).contains(name));
    let place = copy("qwen3/adapter");
    let file = place.path().join("adapter_config.json");
    let text = fs::read_to_string(&file).unwrap();
    for (from, to, named) in [
        ("\"use_dora\": false", "\"use_dora\": true", "use_dora"),
        ("\"r\": 3", "\"r\": 4", "lora_A.weight"),
        ("\"LORA\"", "\"IA3\"", "IA3"),
        ("\"gate_proj\"", "\"router\"", "target_modules"),
        ("\"bias\": \"none\"", "\"bias\": \"all\"", "bias"),
    ] {
        fs::write(&file, text.replace(from, to)).unwrap();
        let problem = load(place.path());
        assert!(problem.contains(named), "{to}: {problem}");
    }
}
