//! `init`, `config`, `doctor`, `models`, `completions`, `man`.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::{Args, CommandFactory, Subcommand};
use serde_json::json;
use upliftmem_scorer::models::{CHAT_MODELS, Hub, KNOWN_MODELS, Source};
use upliftmem_store::{EmbedTexts, MemoryFilter};

use super::Arguments;
use crate::{
    config::{Config, FILE_NAME, REFERENCE},
    context::{Context, model_library, open_executor, open_store},
    output::{Output, Table, wrap},
};

#[derive(Debug, Args)]
pub(crate) struct InitArguments {
    /// The directory.
    #[arg(default_value = ".")]
    directory: PathBuf,
}

pub(crate) async fn init(arguments: InitArguments, output: Output) -> Result<()> {
    let directory = arguments.directory;
    std::fs::create_dir_all(&directory)
        .with_context(|| format!("{} can not be made", directory.display()))?;
    let file = directory.join(FILE_NAME);
    let new = !file.exists();
    if new {
        std::fs::write(&file, REFERENCE).with_context(|| format!("{} can not be written", file.display()))?;
    }
    let config = Config::load(Some(&file), &[], &[])?;
    open_store(&config, true).await?;
    if let Some(fallback) = model_library().auto()?.fallback {
        output.note(&format!(
            "{}\n  `upliftmem models pull {}` gets it",
            wrap(&fallback.lost, 80).join("\n"),
            fallback.available[0].name
        ));
    }
    let document =
        json!({ "config": file, "store": config.directory.join(&config.store.location), "new": new });
    output.result(&document, || {
        format!(
            "{} {}\nnext: `upliftmem add \"...\"` or `upliftmem import FILE`,\nthen `upliftmem search \"...\"`",
            if new { "wrote" } else { "kept" },
            file.display()
        )
    })
}

#[derive(Debug, Args)]
pub(crate) struct ConfigArguments {
    /// Shows every key with its default and its reason instead of what is set here.
    #[arg(long)]
    reference: bool,
}

pub(crate) fn show_config(arguments: &ConfigArguments, config: &Config, output: Output) -> Result<()> {
    if arguments.reference {
        return output.line(REFERENCE.trim_end());
    }
    let text = toml::to_string(config)?;
    output.result(config, || text)
}

/// One thing that was checked.
#[derive(serde::Serialize)]
struct Check {
    what: &'static str,
    fine: bool,
    says: String,
}

pub(crate) async fn doctor(config: Config, output: Output) -> Result<()> {
    let mut checks = Vec::new();
    let mut check = |what: &'static str, result: Result<String>| {
        let fine = result.is_ok();
        let says = result.unwrap_or_else(|error| format!("{error:#}").replacen('\n', ";", 1));
        checks.push(Check { what, fine, says });
    };
    check(
        "utility",
        config
            .utility
            .rule()
            .map(|_| "makes sense".into())
            .map_err(Into::into),
    );
    check(
        "retrieval",
        config
            .retrieval
            .policy()
            .map(|_| "makes sense".into())
            .map_err(Into::into),
    );
    match Context::open(config.clone(), output).await {
        Err(error) => check("store", Err(error)),
        Ok(context) => {
            let filter = MemoryFilter::default();
            let first = context.store.list_memories(&context.scope, filter, 1).await;
            check(
                "store",
                first.map(|_| config.store.location.clone()).map_err(Into::into),
            );
            let stored = context.store.generations(&context.scope).await?.0;
            let ours = EmbedTexts::generation(context.texts.as_ref()).clone();
            check(
                "embedder",
                match stored {
                    Some(stored) if stored != ours => Err(anyhow::anyhow!(
                        "the store's vectors are of {stored}, the configured embedder is {ours}"
                    )),
                    _ => Ok(format!("{}, vectors of {} numbers", ours.name, ours.dimension)),
                },
            );
            let waiting = context.store.unindexed(&context.scope).await?;
            check(
                "index",
                Ok(match waiting {
                    0 => "has every memory".to_owned(),
                    waiting => format!("{waiting} memories are not indexed yet"),
                }),
            );
        }
    }
    check(
        "executor",
        open_executor(&config).map(|executor| executor.name().to_owned()),
    );
    let present = model_library().present()?;
    let names: Vec<&str> = present.iter().map(|model| model.name).collect();
    check(
        "models",
        Ok(if names.is_empty() {
            model_library()
                .auto()?
                .fallback
                .map_or_else(String::new, |fallback| {
                    format!(
                        "{} `upliftmem models pull {}` gets it.",
                        fallback.lost, fallback.available[0].name
                    )
                })
        } else {
            names.join(", ")
        }),
    );
    let failed = checks.iter().filter(|check| !check.fine).count();
    output.result(&checks, || {
        let mut table = Table::wrapping(&["", "what", "says"]);
        for check in &checks {
            let sign = if check.fine { "ok" } else { "NO" };
            table.row(vec![sign.into(), check.what.into(), check.says.clone()]);
        }
        table.text()
    })?;
    if failed > 0 {
        bail!("{failed} of {} checks failed", checks.len());
    }
    Ok(())
}

#[derive(Debug, Args)]
pub(crate) struct ModelsArguments {
    #[command(subcommand)]
    command: ModelsCommand,
}

#[derive(Debug, Subcommand)]
enum ModelsCommand {
    /// The models that can be used, and which are here.
    List,
    /// Get a model.
    Pull {
        /// Its name.
        name: String,
    },
    /// Where a model lies, or would lie.
    Path {
        /// Its name.
        name: String,
    },
}

pub(crate) async fn models(arguments: ModelsArguments, output: Output) -> Result<()> {
    let library = model_library();
    match arguments.command {
        ModelsCommand::List => {
            let here = |name: &str| library.has(name).unwrap_or(false);
            let all = || KNOWN_MODELS.iter().chain(CHAT_MODELS);
            let document: Vec<_> = all()
                .map(|model| {
                    json!({ "name": model.name, "what": model.what, "dimension": model.dimension,
                            "bytes": model.bytes, "licence": model.licence, "here": here(model.name) })
                })
                .collect();
            output.result(&document, || {
                let mut table = Table::wrapping(&["model", "here", "MB", "numbers", "licence", "what"]);
                for model in all() {
                    table.row(vec![
                        model.name.into(),
                        if here(model.name) {
                            "yes".into()
                        } else {
                            "no".into()
                        },
                        (model.bytes / 1_000_000).to_string(),
                        match model.dimension {
                            0 => "-".to_owned(),
                            dimension => dimension.to_string(),
                        },
                        model.licence.into(),
                        model.what.into(),
                    ]);
                }
                table.text()
            })
        }
        ModelsCommand::Path { name } => {
            let path = library.path(&name)?;
            output.result(&json!({ "path": path }), || path.display().to_string())
        }
        ModelsCommand::Pull { name } => {
            let path = pull(&name, output).await?;
            output.result(&json!({ "path": path }), || path.display().to_string())
        }
    }
}

/// Gets a model from the hub; says where it is.
async fn pull(name: &str, output: Output) -> Result<PathBuf> {
    let hub = Hub {
        endpoint: std::env::var("UPLIFTMEM_HUB")
            .or_else(|_| std::env::var("HF_ENDPOINT"))
            .unwrap_or_else(|_| Hub::default().endpoint),
        token: std::env::var("HF_TOKEN").ok(),
        proxy: std::env::var("HTTPS_PROXY").ok(),
        ..Hub::default()
    };
    let bar = output.bar(0, &format!("pulling {name}"));
    let shown = bar.clone();
    let name = name.to_owned();
    let work = tokio::task::spawn_blocking(move || {
        let path = model_library().pull(&name, &Source::Hub(hub), &mut |progress| {
            shown.set_length(progress.total.unwrap_or(progress.done));
            shown.set_position(progress.done);
        })?;
        anyhow::Ok(path)
    });
    let path = work.await??;
    bar.finish_and_clear();
    Ok(path)
}

/// Gets a chat model that a command needs if it is not here, and says so before: what it is, how large, and what else there is.
pub(crate) async fn pull_if_missing(name: &str, output: Output) -> Result<()> {
    let known = CHAT_MODELS.iter().find(|model| model.name == name);
    let Some(model) =
        known.filter(|_| !Path::new(name).exists() && !model_library().has(name).unwrap_or(false))
    else {
        return Ok(());
    };
    output.note(&format!(
        "{name} is not here yet: downloading {} MB once ({}, {}); --model FILE.gguf takes a file instead",
        model.bytes / 1_000_000,
        model.what,
        model.licence
    ));
    pull(name, output)
        .await
        .with_context(|| format!("{name} could not be downloaded; give a GGUF file with --model"))?;
    Ok(())
}

#[derive(Debug, Args)]
pub(crate) struct CompletionsArguments {
    /// The shell.
    #[arg(value_enum)]
    shell: clap_complete::Shell,
}

pub(crate) fn completions(arguments: &CompletionsArguments, output: Output) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(
        arguments.shell,
        &mut Arguments::command(),
        "upliftmem",
        &mut script,
    );
    output.bytes(&script)
}

#[derive(Debug, Args)]
pub(crate) struct ManArguments {
    /// The directory.
    directory: PathBuf,
}

pub(crate) fn man(arguments: &ManArguments, output: Output) -> Result<()> {
    let directory = &arguments.directory;
    std::fs::create_dir_all(directory).with_context(|| format!("{} can not be made", directory.display()))?;
    clap_mangen::generate_to(Arguments::command(), directory)
        .with_context(|| format!("{} can not be written", directory.display()))?;
    output.note(&format!(
        "`man {}` shows the first page",
        directory.join("upliftmem.1").display()
    ));
    Ok(())
}
