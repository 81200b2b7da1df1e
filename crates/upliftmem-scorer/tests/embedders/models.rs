//! Getting models, from a real server on loopback and from directories.

use std::{fs, path::Path, time::Duration};

use sha2::{Digest, Sha256};
use upliftmem_scorer::models::{
    Hub, KNOWN_MODELS, KnownModel, ModelFile, ModelKind, ModelLibrary, ModelsError, Progress, Source,
    open_directory,
};

use crate::{
    reference::{copy_model, fixtures},
    server::{Reply, Request, Server},
};

/// The tiny static model as if it were published, with the hashes of its files.
fn tiny() -> KnownModel {
    let files: Vec<ModelFile> = ["config.json", "tokenizer.json", "model.safetensors"]
        .into_iter()
        .map(|path| ModelFile {
            path,
            sha256: Some(hash(&content(path)).leak()),
        })
        .collect();
    KnownModel {
        name: "tiny-static",
        what: "nothing",
        licence: "none",
        kind: ModelKind::Static,
        dimension: 8,
        bytes: 10_000,
        repository: "someone/tiny-static",
        revision: "abc",
        files: files.leak(),
    }
}

fn content(path: &str) -> Vec<u8> {
    fs::read(fixtures().join("tiny-static").join(path)).unwrap()
}

fn hash(content: &[u8]) -> String {
    Sha256::digest(content)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// A hub that has the file, and knows how to continue.
fn published(request: &Request) -> Reply {
    let path = request.path.strip_prefix("/someone/tiny-static/resolve/abc/");
    let content = content(path.expect("an address like the hub's"));
    match request.header("range") {
        None => Reply::new(200, content),
        Some(range) => {
            let start: usize = range
                .strip_prefix("bytes=")
                .unwrap()
                .strip_suffix('-')
                .unwrap()
                .parse()
                .unwrap();
            let range = format!(
                "content-range: bytes {start}-{}/{}",
                content.len() - 1,
                content.len()
            );
            Reply::new(206, &content[start..]).header(range)
        }
    }
}

fn hub(server: &Server) -> Source {
    Source::Hub(Hub {
        endpoint: server.url(),
        backoff: Duration::from_millis(1),
        retries: 2,
        ..Hub::default()
    })
}

fn quiet(_: Progress<'_>) {}

/// Nothing but directories of unfinished transfers, and nothing that looks like a model.
fn holds_no_model(root: &Path) {
    assert!(!root.join("tiny-static").exists());
}

#[test]
fn a_model_is_pulled_and_opened() {
    let server = Server::start(|_, request| published(request));
    let root = tempfile::tempdir().unwrap();
    let library = ModelLibrary::new(root.path().join("models"));
    let mut last = Vec::new();
    let source = Source::Hub(Hub {
        endpoint: format!("{}/", server.url()),
        token: Some("secret".to_owned()),
        ..Hub::default()
    });
    let directory = library
        .pull_model(&tiny(), &source, &mut |progress| {
            last.push((progress.file.to_owned(), progress.done, progress.total));
        })
        .unwrap();
    let length = content("model.safetensors").len() as u64;
    assert_eq!(
        last.last(),
        Some(&("model.safetensors".to_owned(), length, Some(length)))
    );
    assert_eq!(
        open_directory(&directory).unwrap().generation().name,
        "tiny-static"
    );
    let requests = server.requests();
    assert_eq!(requests.len(), 3);
    assert!(
        requests
            .iter()
            .all(|request| request.header("authorization") == Some("Bearer secret"))
    );
    assert!(
        requests
            .iter()
            .all(|request| request.header("accept-encoding") != Some("gzip"))
    );

    library.pull_model(&tiny(), &source, &mut quiet).unwrap();
    assert_eq!(server.requests().len(), 3, "what is here is not fetched again");
}

#[test]
fn a_cut_connection_is_continued() {
    let server = Server::start(|number, request| Reply {
        cut: (number == 2).then_some(1_000),
        ..published(request)
    });
    let root = tempfile::tempdir().unwrap();
    let directory = ModelLibrary::new(root.path())
        .pull_model(&tiny(), &hub(&server), &mut quiet)
        .unwrap();
    assert_eq!(
        fs::read(directory.join("model.safetensors")).unwrap(),
        content("model.safetensors")
    );
    let ranges: Vec<Option<String>> = server
        .requests()
        .iter()
        .map(|request| request.header("range").map(str::to_owned))
        .collect();
    assert_eq!(ranges, [None, None, None, Some("bytes=1000-".to_owned())]);
}

#[test]
fn a_transfer_that_was_given_up_is_continued_by_the_next() {
    let root = tempfile::tempdir().unwrap();
    let library = ModelLibrary::new(root.path());
    let broken = Server::start(|number, request| match number {
        0 | 1 => published(request),
        2 => Reply {
            cut: Some(500),
            ..published(request)
        },
        _ => Reply::new(502, "bad gateway"),
    });
    let message = library
        .pull_model(&tiny(), &hub(&broken), &mut quiet)
        .unwrap_err()
        .to_string();
    assert!(
        message.contains("502") && message.contains("gave up after 3 attempts"),
        "{message}"
    );
    holds_no_model(root.path());

    let whole = Server::start(|_, request| published(request));
    library.pull_model(&tiny(), &hub(&whole), &mut quiet).unwrap();
    let requests = whole.requests();
    assert_eq!(requests.len(), 1, "the files that had arrived are kept");
    assert_eq!(requests[0].header("range"), Some("bytes=500-"));
}

#[test]
fn a_server_that_can_not_continue_starts_over() {
    let server = Server::start(|number, request| {
        let request = Request {
            headers: Vec::new(),
            ..request.clone()
        };
        Reply {
            cut: (number == 2).then_some(500),
            ..published(&request)
        }
    });
    let root = tempfile::tempdir().unwrap();
    let library = ModelLibrary::new(root.path());
    library.pull_model(&tiny(), &hub(&server), &mut quiet).unwrap();
    assert_eq!(server.requests().len(), 4);

    // A part longer than the file, as after a change of the file: the server refuses to continue it.
    let root = tempfile::tempdir().unwrap();
    let staging = root.path().join(".tiny-static.partial");
    fs::create_dir_all(&staging).unwrap();
    fs::write(staging.join("config.json.partial"), vec![0; 5_000]).unwrap();
    let server = Server::start(|number, request| match number {
        0 => Reply::new(416, ""),
        _ => published(request),
    });
    ModelLibrary::new(root.path())
        .pull_model(&tiny(), &hub(&server), &mut quiet)
        .unwrap();
}

#[test]
fn a_wrong_file_is_refused_and_leaves_nothing() {
    let server = Server::start(|number, request| match number {
        2 => Reply::new(200, "other weights"),
        _ => published(request),
    });
    let root = tempfile::tempdir().unwrap();
    let error = ModelLibrary::new(root.path())
        .pull_model(&tiny(), &hub(&server), &mut quiet)
        .unwrap_err();
    assert!(matches!(error, ModelsError::WrongHash { .. }), "{error}");
    let message = error.to_string();
    for words in [
        "tiny-static",
        "model.safetensors",
        &server.url(),
        &hash(b"other weights"),
    ] {
        assert!(message.contains(words), "{message}");
    }
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
    assert_eq!(server.requests().len(), 3, "a wrong file is not asked for again");
}

#[test]
fn refusals_name_the_model_and_the_file() {
    for (status, words) in [
        (404, "there is no such file"),
        (401, "give a token"),
        (403, "give a token"),
    ] {
        let server = Server::start(move |number, request| match number {
            1 => Reply::new(status, ""),
            _ => published(request),
        });
        let root = tempfile::tempdir().unwrap();
        let error = ModelLibrary::new(root.path()).pull_model(&tiny(), &hub(&server), &mut quiet);
        let message = error.unwrap_err().to_string();
        for words in ["tiny-static", "tokenizer.json", &status.to_string(), words] {
            assert!(message.contains(words), "{message}");
        }
        holds_no_model(root.path());
        assert_eq!(server.requests().len(), 2);
    }
}

#[test]
fn a_directory_is_a_source() {
    let root = tempfile::tempdir().unwrap();
    let library = ModelLibrary::new(root.path());
    let source = Source::Directory(fixtures().join("tiny-static"));
    library.pull_model(&tiny(), &source, &mut quiet).unwrap();
    assert!(open_directory(&root.path().join("tiny-static")).is_ok());

    let root = tempfile::tempdir().unwrap();
    let library = ModelLibrary::new(root.path());
    let other = Source::Directory(fixtures().join("tiny-static-mapped"));
    let error = library.pull_model(&tiny(), &other, &mut quiet).unwrap_err();
    assert!(matches!(error, ModelsError::WrongHash { .. }), "{error}");
    let empty = Source::Directory(root.path().join("nothing"));
    let message = library
        .pull_model(&tiny(), &empty, &mut quiet)
        .unwrap_err()
        .to_string();
    assert!(
        message.contains("config.json") && message.contains("nothing"),
        "{message}"
    );
    holds_no_model(root.path());
}

#[test]
fn auto_takes_what_is_here_and_says_what_is_lost() {
    let root = tempfile::tempdir().unwrap();
    let library = ModelLibrary::new(root.path());
    let auto = library.auto().unwrap();
    assert_eq!(auto.embedder.generation().name, "hash");
    let fallback = auto.fallback.unwrap();
    assert_eq!(fallback.available, KNOWN_MODELS);
    assert!(
        fallback.lost.contains("the same in other words is not found"),
        "{}",
        fallback.lost
    );
    assert!(
        fallback.lost.contains("all-MiniLM-L6-v2 (91 MB)"),
        "{}",
        fallback.lost
    );

    // Presence goes by the files; which weights they hold does not matter here.
    copy_model("tiny-static", &library.path("potion-base-8M").unwrap());
    let auto = library.auto().unwrap();
    assert_eq!(auto.embedder.generation().name, "potion-base-8M");
    assert!(auto.fallback.is_none());
    copy_model("tiny-bert", &library.path("all-MiniLM-L6-v2").unwrap());
    assert_eq!(
        library.auto().unwrap().embedder.generation().name,
        "all-MiniLM-L6-v2"
    );

    fs::remove_file(root.path().join("all-MiniLM-L6-v2/tokenizer.json")).unwrap();
    let message = library
        .auto()
        .err()
        .expect("a damaged model is not passed over")
        .to_string();
    assert!(
        message.contains("all-MiniLM-L6-v2") && message.contains("tokenizer.json"),
        "{message}"
    );
}

#[test]
fn names_and_directories_that_hold_no_model() {
    let root = tempfile::tempdir().unwrap();
    let library = ModelLibrary::new(root.path());
    assert!(matches!(library.path("gpt"), Err(ModelsError::Unknown { .. })));
    assert!(matches!(
        library.open("potion-base-8M"),
        Err(ModelsError::Absent { .. })
    ));
    assert_eq!(
        library.path("potion-base-8M").unwrap(),
        root.path().join("potion-base-8M")
    );
    let message = |directory: &Path| open_directory(directory).err().unwrap().to_string();
    assert!(message(root.path()).contains("config.json"));
    fs::write(root.path().join("config.json"), r#"{"model_type": "qwen3"}"#).unwrap();
    assert!(message(root.path()).contains("\"qwen3\""));
}

#[test]
fn the_list_agrees_with_the_real_models() {
    for name in ["all-MiniLM-L6-v2", "potion-base-8M"] {
        if let Some(directory) = crate::reference::real(name) {
            let root = tempfile::tempdir().unwrap();
            let library = ModelLibrary::new(root.path());
            library
                .pull(name, &Source::Directory(directory), &mut quiet)
                .unwrap();
            let model = KnownModel::find(name).unwrap();
            assert_eq!(library.present().unwrap(), [model]);
            assert_eq!(
                library.open(name).unwrap().generation().dimension,
                model.dimension
            );
        }
    }
}
