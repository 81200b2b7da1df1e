//! `quotas`: how much a tenant may use.

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use serde_json::json;
use upliftmem_store::{Quota, QuotaLimits};

use super::keys::TenantArguments;
use crate::{context::Context, output::Table};

#[derive(Debug, Args)]
pub(crate) struct QuotasArguments {
    #[command(subcommand)]
    command: QuotasCommand,
}

#[derive(Debug, Subcommand)]
enum QuotasCommand {
    /// Give a tenant a quota, in place of the one it had, and count what it has.
    Set(SetArguments),
    /// List quotas and what was used of them.
    List,
    /// Take a tenant's quota away.
    Remove {
        #[command(flatten)]
        tenant: TenantArguments,
    },
}

#[derive(Debug, Args)]
struct SetArguments {
    #[command(flatten)]
    tenant: TenantArguments,
    /// Memories that are stored, whatever their status [default: no limit].
    #[arg(long, value_name = "NUMBER")]
    memories: Option<u64>,
    /// Executions that training and servers may ask for in all [default: no limit].
    #[arg(long, value_name = "NUMBER")]
    executions: Option<u64>,
    /// Requests a second of all its keys together, on each replica [default: no limit].
    #[arg(long, value_name = "NUMBER")]
    requests_per_second: Option<f64>,
}

pub(crate) async fn quotas(context: &Context, arguments: QuotasArguments) -> Result<()> {
    match arguments.command {
        QuotasCommand::Set(arguments) => set(context, arguments).await,
        QuotasCommand::List => list(context).await,
        QuotasCommand::Remove { tenant } => {
            let tenant = tenant.tenant()?;
            if !context.store.remove_quota(&tenant).await? {
                bail!("{tenant} has no quota\n  `upliftmem quotas list` shows those there are");
            }
            let document = json!({ "tenant": tenant, "removed": true });
            context
                .output
                .result(&document, || format!("{tenant} has no quota any more"))
        }
    }
}

async fn set(context: &Context, arguments: SetArguments) -> Result<()> {
    let tenant = arguments.tenant.tenant()?;
    let limits = QuotaLimits {
        memories_max: arguments.memories,
        executions_max: arguments.executions,
        requests_per_second: arguments.requests_per_second,
    };
    if limits == QuotaLimits::default() {
        bail!(
            "say how much: --memories, --executions or --requests-per-second\n  `upliftmem quotas remove` takes a \
             quota away"
        );
    }
    let quota = context.store.set_quota(&tenant, limits).await?;
    context
        .output
        .result(&quota, || table(std::slice::from_ref(&quota)))
}

async fn list(context: &Context) -> Result<()> {
    let rows = context.store.limits().page_rows_max;
    let mut quotas: Vec<Quota> = Vec::new();
    loop {
        let after = quotas.last().map(|quota| quota.tenant.clone());
        let page = context.store.list_quotas(after.as_ref(), rows).await?;
        let whole = page.len() == rows;
        quotas.extend(page);
        if !whole {
            break;
        }
    }
    context.output.result(&quotas, || {
        if quotas.is_empty() {
            return "no quotas; `upliftmem quotas set --agent-id default --memories 100000` makes one"
                .to_owned();
        }
        table(&quotas)
    })
}

fn table(quotas: &[Quota]) -> String {
    let mut table = Table::new(&["tenant", "memories", "executions", "requests a second"]);
    for quota in quotas {
        let of = |used: u64, most: Option<u64>| match most {
            Some(most) => format!("{used} of {most}"),
            None => used.to_string(),
        };
        let pace = quota.limits.requests_per_second;
        table.row(vec![
            quota.tenant.to_string(),
            of(quota.memories, quota.limits.memories_max),
            of(quota.executions, quota.limits.executions_max),
            pace.map_or_else(|| "-".to_owned(), |pace| pace.to_string()),
        ]);
    }
    table.text()
}
