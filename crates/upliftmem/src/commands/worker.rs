//! `worker`: executes what `train` and `serve` want, beside them or on other machines.

use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use upliftmem_engine::{Worker, WorkerSettings};
use upliftmem_store::ScopeParts;

use super::serve::stopped;
use crate::{config::Config, context::Context};

#[derive(Debug, Args)]
pub(crate) struct WorkerArguments {
    /// The store, as postgres://user@host/database [default: store.location of the configuration].
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// Executions at once [default: executor.concurrency of the configuration].
    #[arg(long, value_name = "N")]
    concurrency: Option<usize>,
    /// The name under which tickets are held; no two workers may share one [default: host and process].
    #[arg(long)]
    name: Option<String>,
    /// Work for this scope of the configuration only, not for all.
    #[arg(long)]
    own_scope: bool,
    /// Seconds that a ticket is kept without a heartbeat, before another worker gets it.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    lease_seconds: u64,
    /// Seconds that executions get to finish when the worker is told to stop.
    #[arg(long, default_value_t = 60)]
    drain_seconds: u64,
    /// Seconds after which it looks for tickets if it hears of none.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    look_after_seconds: u64,
}

impl WorkerArguments {
    /// What they change in the configuration.
    pub(crate) fn apply(&self, config: &mut Config) {
        if let Some(store) = &self.store {
            config.store.location.clone_from(store);
        }
    }
}

pub(crate) async fn worker(context: &Context, arguments: WorkerArguments) -> Result<()> {
    let concurrency = arguments
        .concurrency
        .unwrap_or(context.config.executor.concurrency);
    if concurrency == 0 {
        bail!("--concurrency: 0 executions at once would never do anything; allow at least 1");
    }
    let worker = Worker {
        store: context.store.clone(),
        executor: context.executor()?,
        utility: context.config.utility.rule()?,
        settings: WorkerSettings {
            name: arguments.name.unwrap_or_else(own_name),
            concurrency,
            lease: Duration::from_secs(arguments.lease_seconds),
            look_after: Duration::from_secs(arguments.look_after_seconds),
            patience: Duration::from_secs(arguments.drain_seconds),
            tenant: if arguments.own_scope {
                context.scope.parts().clone()
            } else {
                ScopeParts::default()
            },
        },
    };
    tracing::info!(name = worker.settings.name, concurrency, "working");
    let report = worker.run(stopped()).await?;
    context.output.result(&report, || {
        format!(
            "{} executed, {} attempts failed, {} came after someone else's",
            report.executed, report.failed, report.late
        )
    })
}

/// A name that no other worker has: the host's and the process's, and the moment, as numbers of processes come again.
fn own_name() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let moment = upliftmem_store::Timestamp::now().millis();
    format!("{}-{}-{moment}", host.trim(), std::process::id())
}
