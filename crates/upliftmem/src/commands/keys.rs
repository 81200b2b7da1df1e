//! `keys`: who may call the server.

use anyhow::{Result, bail};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;
use upliftmem_server::create_key;
use upliftmem_store::{Permission, ScopeParts, Timestamp};

use crate::{context::Context, output::Table};

#[derive(Debug, Args)]
pub(crate) struct KeysArguments {
    #[command(subcommand)]
    command: KeysCommand,
}

#[derive(Debug, Subcommand)]
enum KeysCommand {
    /// Make a key and show it once.
    Create(CreateArguments),
    /// List keys; the secrets are not kept.
    List,
    /// Make a key invalid.
    Revoke {
        /// The key's id, as `list` shows it.
        id: String,
    },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Allowed {
    /// Searching and reading.
    Read,
    /// Also writing memories, tasks and outcomes, and working on probes.
    Write,
    /// Also training, scorer versions, import, export and keys.
    Admin,
}

#[derive(Debug, Args)]
struct CreateArguments {
    /// What to call it.
    name: String,
    /// What it allows.
    #[arg(long, value_enum, default_value = "write")]
    permission: Allowed,
    #[command(flatten)]
    tenant: TenantArguments,
}

/// A tenant on the command line.
#[derive(Debug, Args)]
pub(super) struct TenantArguments {
    /// Every scope of the tenant has this user.
    #[arg(long)]
    user_id: Option<String>,
    /// Every scope of the tenant has this agent.
    #[arg(long)]
    agent_id: Option<String>,
    /// Every scope of the tenant has this run.
    #[arg(long)]
    run_id: Option<String>,
    /// Every scope of the tenant has this application.
    #[arg(long)]
    app_id: Option<String>,
    /// All scopes there are.
    #[arg(long)]
    all_scopes: bool,
}

impl TenantArguments {
    /// The tenant; everything must be asked for by name.
    pub(super) fn tenant(self) -> Result<ScopeParts> {
        let tenant = ScopeParts {
            user_id: self.user_id,
            agent_id: self.agent_id,
            run_id: self.run_id,
            app_id: self.app_id,
        };
        if (tenant == ScopeParts::default()) != self.all_scopes {
            bail!(
                "say whose: --user-id, --agent-id, --run-id or --app-id for one tenant,\n  or --all-scopes for \
                 everything, and not both"
            );
        }
        Ok(tenant)
    }
}

pub(crate) async fn keys(context: &Context, arguments: KeysArguments) -> Result<()> {
    match arguments.command {
        KeysCommand::Create(arguments) => create(context, arguments).await,
        KeysCommand::List => list(context).await,
        KeysCommand::Revoke { id } => {
            if !context.store.revoke_key(&id, Timestamp::now()).await? {
                bail!("there is no valid key {id:?}\n  `upliftmem keys list` shows those there are");
            }
            context.output.result(&json!({ "id": id, "revoked": true }), || {
                format!("{id} is revoked")
            })
        }
    }
}

async fn create(context: &Context, arguments: CreateArguments) -> Result<()> {
    let tenant = arguments.tenant.tenant()?;
    let permission = match arguments.permission {
        Allowed::Read => Permission::Read,
        Allowed::Write => Permission::Write,
        Allowed::Admin => Permission::Admin,
    };
    let (key, secret) = create_key(context.store.as_ref(), &arguments.name, tenant, permission).await?;
    let document = json!({ "key": secret, "id": key.id, "name": key.name, "tenant": key.tenant,
                           "permission": key.permission });
    context.output.result(&document, || {
        format!(
            "{secret}\n\nThis is {} ({}); it is not shown again.\nSend it as `Authorization: Bearer um_...`.",
            key.id,
            permission.as_str()
        )
    })
}

async fn list(context: &Context) -> Result<()> {
    let keys = context.store.list_keys().await?;
    context.output.result(&keys, || {
        if keys.is_empty() {
            return "no keys; `upliftmem keys create NAME --agent-id default` makes one".to_owned();
        }
        let mut table = Table::new(&["key", "allows", "reaches", "state", "name"]);
        for key in &keys {
            let parts = serde_json::to_string(&key.tenant).unwrap_or_default();
            table.row(vec![
                key.id.clone(),
                key.permission.as_str().to_owned(),
                if key.tenant == ScopeParts::default() {
                    "all".to_owned()
                } else {
                    parts
                },
                if key.revoked_at.is_some() {
                    "revoked"
                } else {
                    "valid"
                }
                .to_owned(),
                key.name.clone(),
            ]);
        }
        table.text()
    })
}
