// The frame around every page: navigation, scope, key, keyboard.

import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { Api, apiKey, refused, SCOPE_PARTS, server, setApiKey } from "./api";
import { GO, listen } from "./keys";
import { Empty, Ready, useLoad } from "./load";
import { Dialog } from "./parts/dialog";
import { MemoriesPage } from "./pages/memories";
import { MemoryPage } from "./pages/memory";
import { OverviewPage } from "./pages/overview";
import { ProbesPage } from "./pages/probes";
import { RetrievalPage } from "./pages/retrieval";
import { RetrievalsPage } from "./pages/retrievals";
import { SettingsPage } from "./pages/settings";
import { TrainingPage } from "./pages/training";
import { address, go, Link, scopeOf, usePlace } from "./router";
import { useStore } from "./store";
import { theme, toggleTheme } from "./theme";
import type { Page, Scope, Settings } from "./types";

interface Known {
  settings: Settings;
  scopes: Scope[];
}

async function load(signal: AbortSignal): Promise<Known> {
  const [settings, scopes] = await Promise.all([
    server.get<Settings>("/v1/settings", {}, signal),
    server.get<Page<Scope>>("/v1/scopes", { limit: 500 }, signal),
  ]);
  return { settings, scopes: scopes.results };
}

export function App(): JSX.Element {
  const key = useStore(apiKey);
  const problem = useStore(refused);
  const known = useLoad(load, [key]);
  const [help, setHelp] = useState(false);
  useEffect(() => listen(() => setHelp(true)), []);
  if (problem !== null) {
    return <SignIn problem={problem} />;
  }
  return (
    <>
      <a class="skip" href="#main">
        Skip to content
      </a>
      <Side known={known.data} help={() => setHelp(true)} />
      <main id="main" tabIndex={-1}>
        <Ready of={known}>{(data) => <Content {...data} />}</Ready>
      </main>
      {help && <Help close={() => setHelp(false)} />}
    </>
  );
}

/** A part of a scope and what it is, as far as needed to tell scopes apart. */
const scopeName = (scope: Scope): string =>
  SCOPE_PARTS.filter((part) => scope[part])
    .map((part) => `${part.replace("_id", "")}: ${scope[part]}`)
    .join(" · ");

function Content({ settings, scopes }: Known): JSX.Element {
  const { path, query } = usePlace();
  const asked = JSON.stringify(scopeOf(query));
  const scope = useMemo(() => {
    const named = JSON.parse(asked) as Scope;
    if (Object.keys(named).length > 0) return named;
    const own = settings.default_scope ?? settings.caller.tenant;
    return Object.keys(own).length > 0 ? own : scopes[0];
  }, [asked, settings, scopes]);
  const api = useMemo(() => new Api(scope ?? {}), [scope]);
  const [, section, id, more] = path.split("/");
  const page = GO_BY_PATH[`/${section}`] ?? "Not found";
  useEffect(() => {
    document.title = `${page} · UpliftMem`;
  }, [page]);
  if (section === "settings" && id === undefined) return <SettingsPage settings={settings} />;
  if (scope === undefined) {
    return (
      <Empty title="There is no scope yet">
        <p>
          A scope is whose memories they are: a user, an agent, a run, an app. Name one in a first request, for instance{" "}
          <code>"agent_id": "helpdesk"</code>, and it can be chosen here. Keys are made at <Link to="/settings">Settings</Link>.
        </p>
      </Empty>
    );
  }
  if (more === undefined && id === undefined) {
    switch (section) {
      case "":
        return <OverviewPage api={api} />;
      case "memories":
        return <MemoriesPage api={api} />;
      case "retrievals":
        return <RetrievalsPage api={api} />;
      case "probes":
        return <ProbesPage api={api} settings={settings} />;
      case "training":
        return <TrainingPage api={api} settings={settings} />;
    }
  }
  if (more === undefined && id) {
    if (section === "memories") return <MemoryPage api={api} id={decode(id)} />;
    if (section === "retrievals") return <RetrievalPage api={api} id={decode(id)} />;
  }
  return (
    <Empty title="There is no such page">
      <p>
        Back to the <Link to="/">overview</Link>.
      </p>
    </Empty>
  );
}

const GO_BY_PATH = Object.fromEntries(Object.values(GO).map(({ path, name }) => [path, name]));

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function Side({ known, help }: { known: Known | undefined; help(): void }): JSX.Element {
  const { path } = usePlace();
  useStore(theme);
  return (
    <header class="side">
      <Link to="/" class="brand" label="UpliftMem, overview">
        <img src="/icon.svg" alt="" width={26} height={26} />
        <span>UpliftMem</span>
      </Link>
      {known && <ScopeChoice {...known} />}
      <nav aria-label="Pages">
        <ul>
          {Object.entries(GO).map(([letter, { path: to, name }]) => (
            <li key={letter}>
              <Link to={to} current={to === "/" ? path === "/" : path === to || path.startsWith(`${to}/`)}>
                <span>{name}</span>
                <kbd aria-hidden="true">g {letter}</kbd>
              </Link>
            </li>
          ))}
        </ul>
      </nav>
      <div class="foot">
        <button type="button" class="quiet-button" onClick={toggleTheme} aria-label="Switch between light and dark" title="Switch between light and dark">
          ◐
        </button>
        <button type="button" class="quiet-button" onClick={help} aria-label="Keyboard shortcuts" title="Keyboard shortcuts">
          ?
        </button>
      </div>
    </header>
  );
}

function ScopeChoice({ settings, scopes }: Known): JSX.Element {
  const { path, query } = usePlace();
  const named = scopeOf(query);
  const own = settings.default_scope ?? settings.caller.tenant;
  const current = Object.keys(named).length > 0 ? named : Object.keys(own).length > 0 ? own : (scopes[0] ?? {});
  const choices = new Map<string, Scope>();
  for (const scope of [current, ...scopes]) {
    const name = scopeName(scope);
    if (name !== "") choices.set(name, Object.fromEntries(SCOPE_PARTS.filter((part) => scope[part]).map((part) => [part, scope[part]])) as Scope);
  }
  if (choices.size === 0) return <p class="scope quiet">no scope</p>;
  const choose = (name: string) => {
    const scope = choices.get(name);
    // A memory or a retrieval of one scope is not in another.
    const section = `/${path.split("/")[1] ?? ""}`;
    if (scope) go(address(section, {}, scope));
  };
  return (
    <label class="scope">
      <span>Scope</span>
      <select value={scopeName(current)} onChange={(event) => choose(event.currentTarget.value)}>
        {[...choices.keys()].sort().map((name) => (
          <option key={name}>{name}</option>
        ))}
      </select>
    </label>
  );
}

function SignIn({ problem }: { problem: string }): JSX.Element {
  const [key, setKey] = useState("");
  const submit = (event: Event) => {
    event.preventDefault();
    setApiKey(key.trim());
  };
  return (
    <main id="main" class="sign-in" tabIndex={-1}>
      <form onSubmit={submit}>
        <img src="/icon.svg" alt="" width={40} height={40} />
        <h1>UpliftMem</h1>
        <p role="status">{problem}</p>
        <label class="field">
          <span>Key</span>
          <input type="password" required autofocus autocomplete="off" value={key} onInput={(event) => setKey(event.currentTarget.value)} />
        </label>
        <button type="submit" class="primary">
          Open
        </button>
        <p class="quiet">
          Make one where the server runs: <code>upliftmem keys create NAME --permission admin --all-scopes</code>. It is kept until this tab is closed.
        </p>
      </form>
    </main>
  );
}

function Help({ close }: { close(): void }): JSX.Element {
  return (
    <Dialog title="Keyboard" close={close}>
      <dl class="facts">
        <div>
          <dt>
            <kbd>/</kbd>
          </dt>
          <dd>Search</dd>
        </div>
        {Object.entries(GO).map(([letter, { name }]) => (
          <div key={letter}>
            <dt>
              <kbd>g</kbd> <kbd>{letter}</kbd>
            </dt>
            <dd>{name}</dd>
          </div>
        ))}
        <div>
          <dt>
            <kbd>?</kbd>
          </dt>
          <dd>This list</dd>
        </div>
        <div>
          <dt>
            <kbd>Esc</kbd>
          </dt>
          <dd>Close a dialog</dd>
        </div>
      </dl>
    </Dialog>
  );
}
