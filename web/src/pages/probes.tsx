// Executions that are wanted, why, and what they may cost.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { Api } from "../api";
import { count, number, percent, plural, shortId } from "../format";
import { Empty, Failure, Ready, useLoad, usePages } from "../load";
import { Badge, Heading, MemoryName, More, Panel, Stat, When } from "../parts/common";
import { address, go, usePlace } from "../router";
import { useMemoryTexts, useTaskTexts } from "../texts";
import type { Batch, Ledger, Page, Plan, Settings, Ticket } from "../types";

const STATES = ["waiting", "leased", "completed", "failed"];
const TONES: Record<string, string> = { waiting: "open", leased: "superseded", completed: "active", failed: "quarantined" };

export function ProbesPage({ api, settings }: { api: Api; settings: Settings }): JSX.Element {
  const { query } = usePlace();
  const state = query.get("state") ?? "waiting";
  const asked = state === "any" ? undefined : state;
  const queue = usePages<Ticket>((after, signal) => api.get<Page<Ticket>>("/v1/probes", { state: asked, limit: 50, after }, signal), [api.scope, state]);
  const batches = usePages<Batch>((after, signal) => api.get<Page<Batch>>("/v1/probes/batches", { order: "newest", limit: 5, after }, signal), [api.scope]);
  const ledger = useLoad((signal) => api.get<Ledger>("/v1/reports/ledger", {}, signal), [api.scope]);
  const reload = () => {
    queue.reload();
    batches.reload();
    ledger.reload();
  };
  return (
    <>
      <Heading title="Probes" about="Extra executions, chosen where their outcome would improve a decision about what to retrieve." />
      <Budget api={api} settings={settings} ledger={ledger.data} done={reload} />
      <Panel
        title="Queue"
        about={
          <>
            Workers take these with <code>GET /v1/probes/next</code> and answer with <code>POST /v1/outcomes</code>.
          </>
        }
        actions={
          <label class="inline">
            <span>State</span>
            <select value={state} onChange={(event) => go(address("/probes", { state: event.currentTarget.value }), true)}>
              {[...STATES, "any"].map((word) => (
                <option key={word}>{word}</option>
              ))}
            </select>
          </label>
        }
      >
        <Ready of={queue}>
          {(rows) =>
            rows.length === 0 ? (
              <Empty title={state === "any" ? "Nothing was ever queued here" : `Nothing is ${state}`}>
                <p>Outcomes of new tasks ask for one execution without memory. Probes come from a plan: retrieve for some tasks, then plan a batch above.</p>
              </Empty>
            ) : (
              <>
                <Queue api={api} rows={rows} />
                <More more={queue.more} show={queue.showMore} />
              </>
            )
          }
        </Ready>
      </Panel>
      <Panel title="Batches" about="What each probe was chosen for, the newest batch first.">
        <Ready of={batches}>
          {(rows) =>
            rows.length === 0 ? (
              <p class="quiet">No batch was planned yet.</p>
            ) : (
              <>
                {rows.map((batch, index) => (
                  <BatchDetails key={batch.id} api={api} batch={batch} open={index === 0} />
                ))}
                <More more={batches.more} show={batches.showMore} />
              </>
            )
          }
        </Ready>
      </Panel>
    </>
  );
}

function Budget({ api, settings, ledger, done }: { api: Api; settings: Settings; ledger: Ledger | undefined; done(): void }): JSX.Element {
  const most = Number(settings.acquisition.probe_budget ?? 100);
  const [budget, setBudget] = useState(String(most));
  const [planned, setPlanned] = useState<Plan>();
  const [error, setError] = useState<Error>();
  const [busy, setBusy] = useState(false);
  const spent = ledger?.lines.find((line) => line.purpose === "probe");
  const may = settings.caller.permission !== "read";
  const plan = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setError(undefined);
    try {
      setPlanned(await api.postScoped<Plan>("/v1/probes/plan", { budget: Number(budget) }));
      done();
    } catch (problem) {
      setError(problem instanceof Error ? problem : new Error(String(problem)));
    }
    setBusy(false);
  };
  return (
    <Panel title="Budget">
      <dl class="stats">
        <Stat label="Probes executed" value={spent ? count(spent.executions) : "—"} note={spent ? `cost ${number(spent.cost)}` : ""} />
        <Stat label="Share of all executions" value={ledger && ledger.executions > 0 && spent ? percent(spent.executions / ledger.executions) : "—"} note={ledger ? `of ${count(ledger.executions)}` : ""} />
        <Stat label="Most per batch" value={count(most)} note={<code>acquisition.probe_budget</code>} />
        <Stat label="Chosen by" value={String(settings.acquisition.strategy ?? "evsi")} note={<code>acquisition.strategy</code>} />
      </dl>
      {may && (
        <form class="toolbar" onSubmit={plan}>
          <label>
            <span>Probes at most</span>
            <input type="number" min={1} max={most} required value={budget} onInput={(event) => setBudget(event.currentTarget.value)} />
          </label>
          <button type="submit" class="primary" disabled={busy}>
            {busy ? "Planning…" : "Plan a batch"}
          </button>
          {planned && (
            <output>
              {planned.probes > 0 ? `${plural(planned.probes, "probe")} wait to be executed` : "Nothing is worth a probe now"}; {plural(planned.tasks, "task")} looked at
              {planned.references > 0 && `; ${plural(planned.references, "task")} must be done without memory first`}.
            </output>
          )}
        </form>
      )}
      {error && <Failure error={error} />}
    </Panel>
  );
}

function Members({ ids, texts }: { ids: string[]; texts: Record<string, string> }): JSX.Element {
  if (ids.length === 0) return <span class="quiet">no memory</span>;
  return (
    <ul class="members">
      {ids.map((id) => (
        <li key={id}>
          <MemoryName id={id} text={texts[id]} />
        </li>
      ))}
    </ul>
  );
}

function Queue({ api, rows }: { api: Api; rows: Ticket[] }): JSX.Element {
  const tasks = useTaskTexts(api, rows.map((row) => row.task_id));
  const memories = useMemoryTexts(api, rows.flatMap((row) => row.memories));
  return (
    <div class="scroll">
      <table class="list">
        <thead>
          <tr>
            <th scope="col">Task</th>
            <th scope="col">With</th>
            <th scope="col">Purpose</th>
            <th scope="col">State</th>
            <th scope="col">Queued</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={row.rollout_id}>
              <td class="wide">{tasks[row.task_id] ?? <code>{shortId(row.task_id)}</code>}</td>
              <td class="wide">
                <Members ids={row.memories} texts={memories} />
              </td>
              <td>{row.purpose}</td>
              <td>
                <Badge tone={TONES[row.state] ?? "open"}>{row.state}</Badge>
                {row.worker && <div class="quiet">by {row.worker}</div>}
                {row.attempts > 1 && (
                  <div class="quiet">
                    attempt {row.attempts} of {row.attempts_max}
                  </div>
                )}
                {row.last_error && <div class="quiet">{row.last_error}</div>}
              </td>
              <td class="nowrap">
                <When at={row.enqueued_at} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function BatchDetails({ api, batch, open }: { api: Api; batch: Batch; open: boolean }): JSX.Element {
  const tasks = useTaskTexts(api, batch.probes.map((probe) => probe.task_id));
  const picks = batch.decision.picks ?? [];
  const memories = useMemoryTexts(api, [...batch.probes.flatMap((probe) => probe.memories), ...picks.flatMap((pick) => pick.incumbent ?? [])]);
  const { pool, comparisons, batch_value: value } = batch.decision;
  return (
    <details class="depth" open={open}>
      <summary>
        {plural(batch.probes.length, "probe")} by <b>{batch.strategy}</b>{" "}
        <span class="quiet">
          <When at={batch.at} /> · {pool !== undefined && `from ${count(pool)} possible · `}
          {comparisons !== undefined && `${plural(comparisons, "decision")} · `}
          {value !== undefined && `expected to improve them by ${number(value)} in all · `}
          <code>{batch.scorer}</code>
        </span>
      </summary>
      <div class="scroll">
        <table class="list compact">
          <thead>
            <tr>
              <th scope="col">Task</th>
              <th scope="col">Tries</th>
              <th scope="col">Against, as retrieved now</th>
              <th scope="col" class="amount">Adds to the batch</th>
            </tr>
          </thead>
          <tbody>
            {batch.probes.map((probe, index) => (
              <tr key={probe.rollout_id}>
                <td class="wide">{tasks[probe.task_id] ?? <code>{shortId(probe.task_id)}</code>}</td>
                <td class="wide">
                  <Members ids={probe.memories} texts={memories} />
                </td>
                <td class="wide">
                  <Members ids={picks[index]?.incumbent ?? []} texts={memories} />
                </td>
                <td class="amount">{probe.marginal_value.toPrecision(2)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </details>
  );
}
