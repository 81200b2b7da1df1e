// All memories: find them, see what each does.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { Api } from "../api";
import { count } from "../format";
import { Empty, Ready, usePages } from "../load";
import { Badge, Heading, MemoryName, More, When } from "../parts/common";
import { Dialog } from "../parts/dialog";
import { EffectBar, reach } from "../parts/effect";
import { address, go, usePlace } from "../router";
import type { Memory, MemoryEffect, MemoryStatus, Page } from "../types";

const STATUSES: MemoryStatus[] = ["active", "quarantined", "superseded", "expired"];

interface Row {
  id: string;
  text: string | null;
  status: MemoryStatus | null;
  kind?: string;
  created?: string;
  effect?: MemoryEffect;
}

async function effectsOf(api: Api, ids: string[], signal?: AbortSignal): Promise<Map<string, MemoryEffect>> {
  if (ids.length === 0) return new Map();
  const found = await api.get<{ results: MemoryEffect[] }>("/v1/reports/memories", { memories: ids.join(","), limit: 100 }, signal);
  return new Map(found.results.map((effect) => [effect.id, effect]));
}

interface Asked {
  words: string;
  status: string;
  order: string;
}

async function load(api: Api, asked: Asked, after?: string, signal?: AbortSignal): Promise<Page<Row>> {
  if (asked.words === "" && (asked.order === "harm" || asked.order === "help")) {
    const found = await api.get<{ results: MemoryEffect[] }>("/v1/reports/memories", { order: asked.order, limit: 100 }, signal);
    const rows = found.results.filter((effect) => asked.status === "" || effect.status === asked.status);
    return { results: rows.map((effect) => ({ id: effect.id, text: effect.memory, status: effect.status, effect })), next: null };
  }
  const page = await api.get<Page<Memory>>("/v1/memories", { words: asked.words, status: asked.status, limit: 50, after }, signal);
  const effects = await effectsOf(api, page.results.map((memory) => memory.id), signal);
  const rows = page.results.map((memory): Row => {
    const row: Row = { id: memory.id, text: memory.memory, status: memory.status, kind: memory.kind, created: memory.created_at };
    const effect = effects.get(memory.id);
    if (effect) row.effect = effect;
    return row;
  });
  return { results: rows, next: page.next };
}

export function MemoriesPage({ api }: { api: Api }): JSX.Element {
  const { query } = usePlace();
  const asked: Asked = { words: query.get("words") ?? "", status: query.get("status") ?? "", order: query.get("order") ?? "" };
  const pages = usePages((after, signal) => load(api, asked, after, signal), [api.scope, asked]);
  const [adding, setAdding] = useState(false);
  const show = (change: Partial<Asked>) => go(address("/memories", { ...asked, ...change }), true);
  const filtered = asked.words !== "" || asked.status !== "";
  return (
    <>
      <Heading
        title="Memories"
        about="What the agent may be given, and what executions say about each."
        actions={
          <button type="button" class="primary" onClick={() => setAdding(true)}>
            Add a memory
          </button>
        }
      />
      <div class="toolbar" role="search">
        <label class="grow">
          <span>Search</span>
          <input
            type="search"
            data-search
            placeholder="Words in the text"
            value={asked.words}
            onInput={(event) => show({ words: event.currentTarget.value })}
          />
        </label>
        <label>
          <span>Status</span>
          <select value={asked.status} disabled={asked.words !== ""} onChange={(event) => show({ status: event.currentTarget.value })}>
            <option value="">any</option>
            {STATUSES.map((status) => (
              <option key={status}>{status}</option>
            ))}
          </select>
        </label>
        <label>
          <span>Order</span>
          <select value={asked.order} disabled={asked.words !== ""} onChange={(event) => show({ order: event.currentTarget.value })}>
            <option value="">as written</option>
            <option value="help">most helpful first</option>
            <option value="harm">most harmful first</option>
          </select>
        </label>
      </div>
      <Ready of={pages}>
        {(rows) =>
          rows.length > 0 ? (
            <>
              <Table rows={rows} />
              <More more={pages.more} show={pages.showMore} />
            </>
          ) : filtered || asked.order !== "" ? (
            <Empty title="No memory fits">
              <p>{asked.order !== "" && !filtered ? "No memory was part of a compared execution yet." : "Try other words or another status."}</p>
              <button type="button" onClick={() => show({ words: "", status: "", order: "" })}>
                Show all
              </button>
            </Empty>
          ) : (
            <Empty title="No memories in this scope">
              <p>Add one here, let the agent add them through the API or MCP, or import what you have:</p>
              <pre>upliftmem import memories.jsonl</pre>
            </Empty>
          )
        }
      </Ready>
      {adding && <Adding api={api} close={() => setAdding(false)} done={pages.reload} />}
    </>
  );
}

function Table({ rows }: { rows: Row[] }): JSX.Element {
  const most = reach(rows.flatMap(({ effect }) => (effect ? [{ mean: effect.effect, interval: effect.interval }] : [])));
  return (
    <div class="scroll">
      <table class="list">
        <thead>
          <tr>
            <th scope="col">Memory</th>
            <th scope="col">Status</th>
            <th scope="col">Effect, 95 %</th>
            <th scope="col" class="amount">Executions</th>
            <th scope="col">Written</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={row.id}>
              <td class="wide">
                <MemoryName id={row.id} text={row.text ?? undefined} />
                {row.kind && row.kind !== "note" && <span class="quiet"> {row.kind}</span>}
              </td>
              <td>{row.status ? <Badge tone={row.status}>{row.status}</Badge> : <span class="quiet">removed</span>}</td>
              <td>
                {row.effect ? (
                  <EffectBar mean={row.effect.effect} interval={row.effect.interval} executions={row.effect.executions} most={most} />
                ) : (
                  <span class="quiet">not tried</span>
                )}
              </td>
              <td class="amount">{row.effect ? count(row.effect.executions) : "0"}</td>
              <td class="nowrap">{row.created ? <When at={row.created} /> : "—"}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Adding({ api, close, done }: { api: Api; close(): void; done(): void }): JSX.Element {
  const [text, setText] = useState("");
  const confirm = async () => {
    const added = await api.postScoped<{ results: { status: string; error?: string | null }[] }>("/v1/memories", { text });
    const result = added.results[0];
    if (result?.status === "failed") throw new Error(result.error ?? "It was not stored.");
    if (result?.status === "duplicate") throw new Error("A memory with this text is there already.");
    done();
  };
  return (
    <Dialog title="Add a memory" action="Add" close={close} confirm={confirm}>
      <label class="field">
        <span>Text</span>
        <textarea rows={5} required autofocus value={text} onInput={(event) => setText(event.currentTarget.value)} />
      </label>
    </Dialog>
  );
}
