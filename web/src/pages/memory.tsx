// One memory: its text, its effect, its history, and what can be done about it.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { type Api, at } from "../api";
import { count, moment, plural, shortId, uplift } from "../format";
import { Ready, useLoad } from "../load";
import { Badge, Facts, Heading, MemoryName, Panel, Stat, When } from "../parts/common";
import { Dialog } from "../parts/dialog";
import { EffectBar, judged } from "../parts/effect";
import { address, go, Link } from "../router";
import type { Memory, MemoryEffect, MemoryVersion } from "../types";

interface Known {
  memory: Memory;
  history: MemoryVersion[];
  effect: MemoryEffect | undefined;
}

async function load(api: Api, id: string, signal: AbortSignal): Promise<Known> {
  const [memory, history, effects] = await Promise.all([
    api.get<Memory>(at`/v1/memories/${id}`, {}, signal),
    api.get<{ results: MemoryVersion[] }>(at`/v1/memories/${id}/history`, {}, signal),
    api.get<{ results: MemoryEffect[] }>("/v1/reports/memories", { memories: id }, signal),
  ]);
  return { memory, history: history.results, effect: effects.results[0] };
}

type Question = "quarantine" | "release" | "change" | "supersede";

export function MemoryPage({ api, id }: { api: Api; id: string }): JSX.Element {
  const loaded = useLoad((signal) => load(api, id, signal), [api.scope, id]);
  const [question, setQuestion] = useState<Question | null>(null);
  const status = loaded.data?.memory.status;
  const current = status === "active" || status === "quarantined";
  return (
    <>
      <p class="back">
        <Link to="/memories">← Memories</Link>
      </p>
      <Heading
        title={`Memory ${shortId(id)}`}
        about={<code>{id}</code>}
        actions={
          current && (
            <>
              <button type="button" onClick={() => setQuestion("change")}>
                Change the text
              </button>
              <button type="button" onClick={() => setQuestion("supersede")}>
                Supersede
              </button>
              {status === "active" ? (
                <button type="button" class="danger" onClick={() => setQuestion("quarantine")}>
                  Quarantine
                </button>
              ) : (
                <button type="button" class="primary" onClick={() => setQuestion("release")}>
                  Release
                </button>
              )}
            </>
          )
        }
      />
      <Ready of={loaded}>{(known) => <Shown {...known} />}</Ready>
      {loaded.data && question && (
        <Ask api={api} memory={loaded.data.memory} question={question} close={() => setQuestion(null)} done={loaded.reload} />
      )}
    </>
  );
}

function Shown({ memory, history, effect }: Known): JSX.Element {
  return (
    <>
      <Panel title="Text" actions={<Badge tone={memory.status}>{memory.status}</Badge>}>
        <blockquote class="text">{memory.memory}</blockquote>
        {memory.quarantine_reason && (
          <p class="notice bad">
            Kept out of retrieval: {memory.quarantine_reason}
          </p>
        )}
        {memory.superseded_by && (
          <p class="notice">
            Superseded by <MemoryName id={memory.superseded_by} />
          </p>
        )}
      </Panel>
      <dl class="stats">
        <Stat
          label="Effect"
          value={effect ? uplift(effect.effect) : "—"}
          note={effect?.interval ? `95 %: ${uplift(effect.interval.low)} to ${uplift(effect.interval.high)}` : effect ? "too few for an interval" : "not tried yet"}
          tone={judged(effect?.interval ?? null)}
        />
        <Stat label="Executions" value={effect ? count(effect.executions) : "0"} note="compared with the task without memory" />
        <Stat label="Length" value={count(memory.tokens)} note="tokens" />
        <Stat label="Written" value={<When at={memory.created_at} />} note={memory.expires_at ? `expires ${moment(memory.expires_at)}` : moment(memory.created_at)} />
      </dl>
      {effect && (
        <p class="quiet">
          <EffectBar mean={effect.effect} interval={effect.interval} executions={effect.executions} /> mean uplift of {plural(effect.executions, "execution")} with it,
          shrunk towards zero; other memories of the same sets share in it.
        </p>
      )}
      <div class="columns">
        <Panel title="History" about="A changed text is a new memory: what was learned is about the old one.">
          <ol class="history">
            {history.map((version) => (
              <li key={version.id} aria-current={version.id === memory.id}>
                <div>
                  <When at={version.created_at} /> <Badge tone={version.status}>{version.status}</Badge>
                </div>
                {version.id === memory.id ? <span class="text-line">{version.memory}</span> : <MemoryName id={version.id} text={version.memory} />}
              </li>
            ))}
          </ol>
        </Panel>
        <Panel title="Details">
          <Facts of={{ kind: memory.kind, ...memory.metadata }} />
          {Object.keys(memory.provenance).length > 0 && (
            <>
              <h3>Where it came from</h3>
              <Facts of={memory.provenance} />
            </>
          )}
        </Panel>
      </div>
    </>
  );
}

interface AskProps {
  api: Api;
  memory: Memory;
  question: Question;
  close(): void;
  done(): void;
}

function Ask({ api, memory, question, close, done }: AskProps): JSX.Element {
  const [text, setText] = useState(question === "change" ? memory.memory : "");
  const path = at`/v1/memories/${memory.id}`;
  const field = (label: string, long = false) => (
    <label class="field">
      <span>{label}</span>
      {long ? (
        <textarea rows={6} required autofocus value={text} onInput={(event) => setText(event.currentTarget.value)} />
      ) : (
        <input required autofocus maxLength={256} value={text} onInput={(event) => setText(event.currentTarget.value)} />
      )}
    </label>
  );
  switch (question) {
    case "quarantine":
      return (
        <Dialog title="Keep this memory out of retrieval?" action="Quarantine" dangerous close={close} confirm={() => api.post(`${path}/quarantine`, { reason: text }).then(done)}>
          <p>It stays stored with all that was learned, and can be released again.</p>
          {field("Why")}
        </Dialog>
      );
    case "release":
      return (
        <Dialog title="Let this memory be retrieved again?" action="Release" close={close} confirm={() => api.post(`${path}/release`).then(done)}>
          <p>It was quarantined: {memory.quarantine_reason ?? "no reason is known"}</p>
        </Dialog>
      );
    case "change":
      return (
        <Dialog
          title="Change the text"
          action="Save as new version"
          close={close}
          confirm={async () => {
            const changed = await api.patch<Memory>(path, { text });
            if (changed.id === memory.id) done();
            else go(address(`/memories/${changed.id}`));
          }}
        >
          <p>The new text starts without a record of its own; this one is superseded.</p>
          {field("Text", true)}
        </Dialog>
      );
    case "supersede":
      return (
        <Dialog title="Which memory takes its place?" action="Supersede" dangerous close={close} confirm={() => api.post(`${path}/supersede`, { by: text.trim() }).then(done)}>
          <p>This one is no longer retrieved. To write a new text for it, change the text instead.</p>
          {field("Id of the other memory")}
        </Dialog>
      );
  }
}
