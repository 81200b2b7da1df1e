// How the server is set up, who may use it, and how this page looks.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { apiKey, at, SCOPE_PARTS, server, setApiKey } from "../api";
import { Empty, Ready, useLoad } from "../load";
import { Badge, Facts, Heading, Panel, Stat, When } from "../parts/common";
import { Dialog } from "../parts/dialog";
import { useStore } from "../store";
import { setTheme, theme, THEMES } from "../theme";
import type { ApiKey, Scope, Settings } from "../types";

export function SettingsPage({ settings }: { settings: Settings }): JSX.Element {
  const key = useStore(apiKey);
  return (
    <>
      <Heading
        title="Settings"
        about={
          <>
            Values come from <code>upliftmem.toml</code> and the environment; <code>upliftmem config --reference</code> explains each.
          </>
        }
        actions={
          key !== null && (
            <button type="button" onClick={() => setApiKey(null)}>
              Sign out
            </button>
          )
        }
      />
      <dl class="stats">
        <Stat label="Version" value={settings.version} note={<a href="/docs">API</a>} />
        <Stat label="Keys" value={settings.keys ? "needed" : "not needed"} note={settings.keys ? "every request carries one" : "this server listens on this machine only"} />
        <Stat label="You are" value={settings.caller.id} note={`may ${MAY[settings.caller.permission]}`} />
        <Stat label="Outcomes of" value={settings.agent} note="the agent that is compared with itself" />
      </dl>
      <Appearance />
      {settings.caller.permission === "admin" ? (
        <Keys />
      ) : (
        <Panel title="Keys">
          <p class="quiet">A key with the permission admin shows and makes keys.</p>
        </Panel>
      )}
      <div class="columns three">
        <Panel title="Retrieval" about={<code>[retrieval]</code>}>
          <Facts of={settings.retrieval} />
        </Panel>
        <Panel title="Probes" about={<code>[acquisition]</code>}>
          <Facts of={settings.acquisition} />
        </Panel>
        <Panel title="Limits" about={<code>[server]</code>}>
          <Facts of={settings.limits} />
        </Panel>
      </div>
    </>
  );
}

const MAY = { read: "read", write: "read and write", admin: "do everything" };

function Appearance(): JSX.Element {
  const current = useStore(theme);
  return (
    <Panel title="Appearance">
      <fieldset class="choices">
        <legend class="visually-hidden">Theme</legend>
        {THEMES.map((one) => (
          <label key={one}>
            <input type="radio" name="theme" checked={current === one} onChange={() => setTheme(one)} />
            {one === "auto" ? "as the system" : one}
          </label>
        ))}
      </fieldset>
    </Panel>
  );
}

const reach = (tenant: Scope): string =>
  SCOPE_PARTS.filter((part) => tenant[part])
    .map((part) => `${part} ${tenant[part]}`)
    .join(", ") || "everything";

function Keys(): JSX.Element {
  const loaded = useLoad((signal) => server.get<{ results: ApiKey[] }>("/v1/keys", {}, signal), []);
  const [creating, setCreating] = useState(false);
  const [made, setMade] = useState<string>();
  const [revoking, setRevoking] = useState<ApiKey>();
  return (
    <Panel
      title="Keys"
      about="A key is shown once and stored as a hash."
      actions={
        <button type="button" class="primary" onClick={() => setCreating(true)}>
          Create a key
        </button>
      }
    >
      {made && <NewKey secret={made} close={() => setMade(undefined)} />}
      <Ready of={loaded}>
        {({ results }) =>
          results.length === 0 ? (
            <Empty title="No keys">
              <p>Without keys only programs of this machine reach the server. Create one before it listens elsewhere.</p>
            </Empty>
          ) : (
            <div class="scroll">
              <table class="list">
                <thead>
                  <tr>
                    <th scope="col">Name</th>
                    <th scope="col">Id</th>
                    <th scope="col">Permission</th>
                    <th scope="col">Reaches</th>
                    <th scope="col">Created</th>
                    <th scope="col">
                      <span class="visually-hidden">Actions</span>
                    </th>
                  </tr>
                </thead>
                <tbody>
                  {results.map((key) => (
                    <tr key={key.id} class={key.revoked_at ? "gone" : ""}>
                      <td>{key.name}</td>
                      <td>
                        <code>{key.id}</code>
                      </td>
                      <td>{key.permission}</td>
                      <td>{reach(key.tenant)}</td>
                      <td class="nowrap">
                        <When at={key.created_at} />
                      </td>
                      <td class="end">
                        {key.revoked_at ? (
                          <Badge tone="quarantined">revoked</Badge>
                        ) : (
                          <button type="button" class="danger" aria-label={`Revoke ${key.name}`} onClick={() => setRevoking(key)}>
                            Revoke
                          </button>
                        )}
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          )
        }
      </Ready>
      {creating && (
        <Creating
          close={() => setCreating(false)}
          done={(secret) => {
            setMade(secret);
            loaded.reload();
          }}
        />
      )}
      {revoking && (
        <Dialog
          title={`Revoke ${revoking.name}?`}
          action="Revoke"
          dangerous
          close={() => setRevoking(undefined)}
          confirm={() => server.remove(at`/v1/keys/${revoking.id}`).then(loaded.reload)}
        >
          <p>Whoever uses it is refused from now on. It can not be undone.</p>
        </Dialog>
      )}
    </Panel>
  );
}

function NewKey({ secret, close }: { secret: string; close(): void }): JSX.Element {
  const [copied, setCopied] = useState(false);
  return (
    <div class="notice good" role="status">
      <p>This is the only time the key is shown:</p>
      <p class="secret">
        <code>{secret}</code>
      </p>
      <div class="buttons">
        <button type="button" onClick={() => navigator.clipboard?.writeText(secret).then(() => setCopied(true))}>
          {copied ? "Copied" : "Copy"}
        </button>
        <button type="button" onClick={close}>
          I have it
        </button>
      </div>
    </div>
  );
}

function Creating({ close, done }: { close(): void; done(secret: string): void }): JSX.Element {
  const [name, setName] = useState("");
  const [permission, setPermission] = useState("write");
  const [scope, setScope] = useState<Scope>({});
  const confirm = async () => {
    const parts = Object.fromEntries(Object.entries(scope).filter(([, value]) => value !== ""));
    const made = await server.post<{ key: string }>("/v1/keys", { name, permission, ...parts });
    done(made.key);
  };
  return (
    <Dialog title="Create a key" action="Create" close={close} confirm={confirm}>
      <label class="field">
        <span>Name</span>
        <input required autofocus maxLength={256} placeholder="Who will use it" value={name} onInput={(event) => setName(event.currentTarget.value)} />
      </label>
      <label class="field">
        <span>Permission</span>
        <select value={permission} onChange={(event) => setPermission(event.currentTarget.value)}>
          <option value="read">read: search and look</option>
          <option value="write">write: also add, change and report</option>
          <option value="admin">admin: also keys, export and scorer versions</option>
        </select>
      </label>
      <fieldset>
        <legend>Reaches only scopes with; empty is any</legend>
        <div class="grid">
          {SCOPE_PARTS.map((part) => (
            <label class="field" key={part}>
              <span>{part}</span>
              <input value={scope[part] ?? ""} onInput={(event) => setScope({ ...scope, [part]: event.currentTarget.value })} />
            </label>
          ))}
        </div>
      </fieldset>
    </Dialog>
  );
}
