// Scorer versions: which one answers, how they compare, whether predictions come true.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { Api } from "../api";
import { count, moment, number, plural, uplift } from "../format";
import { Empty, Ready, useLoad, usePages } from "../load";
import { CalibrationPlot } from "../parts/calibration";
import { Badge, Heading, More, Panel, Stat, When } from "../parts/common";
import { Dialog } from "../parts/dialog";
import { Trend } from "../parts/trend";
import type { ActiveVersion, Calibration, Page, ScorerVersion, Settings, Training } from "../types";

type Question = { kind: "roll back" } | { kind: "follow" } | { kind: "learn" } | { kind: "activate"; version: number };

export function TrainingPage({ api, settings }: { api: Api; settings: Settings }): JSX.Element {
  const training = useLoad((signal) => api.get<Training>("/v1/training", {}, signal), [api.scope]);
  const versions = usePages<ScorerVersion>(
    (after, signal) => api.get<Page<ScorerVersion>>("/v1/scorers", { order: "newest", limit: 20, after }, signal),
    [api.scope],
  );
  const calibration = useLoad((signal) => api.get<Calibration>("/v1/reports/calibration", {}, signal), [api.scope]);
  const [question, setQuestion] = useState<Question | null>(null);
  const admin = settings.caller.permission === "admin";
  const reload = () => {
    training.reload();
    versions.reload();
    calibration.reload();
  };
  return (
    <>
      <Heading
        title="Training"
        about="What predicts the uplift of a set of memories, and how well."
        actions={
          admin && (
            <>
              <button type="button" onClick={() => setQuestion({ kind: "learn" })}>
                Learn now
              </button>
              {training.data?.active.pinned && (
                <button type="button" onClick={() => setQuestion({ kind: "follow" })}>
                  Follow the newest
                </button>
              )}
              <button type="button" class="danger" onClick={() => setQuestion({ kind: "roll back" })} disabled={!training.data || training.data.active.version === 0}>
                Roll back
              </button>
            </>
          )
        }
      />
      <Ready of={training}>{(data) => <Active {...data} />}</Ready>
      <Panel title="Calibration" about="Predicted against observed uplift of retrievals whose outcome was compared. On the diagonal, predictions come true; below it, they promise too much.">
        <Ready of={calibration}>{(data) => <CalibrationShown {...data} />}</Ready>
      </Panel>
      <Ready of={versions}>
        {(rows) =>
          rows.length === 0 ? (
            <Panel title="Versions">
              <Empty title="Nothing was learned in this scope yet">
                <p>The scorer learns by itself once outcomes can be compared with the same task without memory. Report outcomes, or run a training:</p>
                <pre>upliftmem train --tasks tasks.jsonl</pre>
              </Empty>
            </Panel>
          ) : (
            <>
              <Metrics rows={rows} />
              <Versions rows={rows} active={training.data?.active} activate={admin ? (version) => setQuestion({ kind: "activate", version }) : undefined} />
              <More more={versions.more} show={versions.showMore} />
            </>
          )
        }
      </Ready>
      {question && <Ask api={api} question={question} close={() => setQuestion(null)} done={reload} />}
    </>
  );
}

function Active({ active, learning, refits }: Training): JSX.Element {
  return (
    <dl class="stats">
      <Stat
        label="Answers now"
        value={active.version === 0 ? "nothing learned" : `version ${count(active.version)}`}
        note={active.pinned ? <Badge tone="quarantined">chosen by hand</Badge> : "follows the labels"}
      />
      <Stat label="Labels" value={count(active.labels)} note={active.labels > active.version ? `${plural(active.labels - active.version, "label")} not in use` : "all in use"} />
      <Stat label="Learning" value={learning ? "now" : "idle"} note={`${plural(refits, "time")} since the scope was opened`} />
    </dl>
  );
}

function CalibrationShown({ pairs, slope, optimism, bins }: Calibration): JSX.Element {
  if (bins.length === 0) {
    return <p class="quiet">No prediction could be checked yet: report outcomes of retrievals that gave memories.</p>;
  }
  return (
    <div class="beside">
      <CalibrationPlot bins={bins} />
      <dl class="stats column">
        <Stat label="Slope" value={slope === null ? "—" : number(slope)} note="1 is calibrated; less promises too much" />
        <Stat label="Optimism" value={optimism === null ? "—" : uplift(optimism)} note="predicted minus observed, on average" />
        <Stat label="Retrievals" value={count(pairs)} note="with a prediction and a comparison" />
      </dl>
    </div>
  );
}

function numbers(rows: ScorerVersion[]): string[] {
  const names = new Set<string>();
  for (const row of rows) {
    for (const [name, value] of Object.entries(row.metrics)) {
      if (typeof value === "number") names.add(name);
    }
  }
  return [...names].sort();
}

const label = (row: ScorerVersion): string => `${row.name}@${row.version}`;

function Metrics({ rows }: { rows: ScorerVersion[] }): JSX.Element | null {
  // A version is named after its labels: drawn against itself it says nothing.
  const names = numbers(rows).filter((name) => name !== "fitted" && name !== "labels");
  const [chosen, setChosen] = useState<string>();
  const name = chosen ?? names.find((one) => one !== "evaluations") ?? names[0];
  if (name === undefined) return null;
  const found = rows
    .filter((row) => typeof row.metrics[name] === "number")
    .slice(0, 60)
    .reverse();
  return (
    <Panel
      title="Measures"
      about={
        name === "log_evidence"
          ? "What each version reported when it was learned. It speaks of all labels of a version and falls as labels come: it compares versions with the same labels."
          : "What each version reported when it was learned."
      }
      actions={
        <label class="inline">
          <span>Measure</span>
          <select value={name} onChange={(event) => setChosen(event.currentTarget.value)}>
            {names.map((one) => (
              <option key={one}>{one}</option>
            ))}
          </select>
        </label>
      }
    >
      <Trend
        title={`${name} by version`}
        unit={name}
        below="version"
        height={210}
        points={found.map((row) => {
          const value = Number(row.metrics[name]);
          return { label: String(row.version), value, tip: [`${name} ${number(value)}`, label(row), moment(row.at)] };
        })}
      />
    </Panel>
  );
}

interface VersionsProps {
  rows: ScorerVersion[];
  active: ActiveVersion | undefined;
  activate: ((version: number) => void) | undefined;
}

function Versions({ rows, active, activate }: VersionsProps): JSX.Element {
  const [compared, setCompared] = useState<number[]>([]);
  const toggle = (sequence: number) => setCompared((before) => (before.includes(sequence) ? before.filter((one) => one !== sequence) : [...before, sequence].slice(-2)));
  const pair = rows.filter((row) => compared.includes(row.sequence));
  return (
    <Panel title="Versions" about="A version is a function of the labels it rests on: the same number always answers the same. Mark two to compare them.">
      {pair.length === 2 && pair[0] && pair[1] && <Compare newer={pair[0]} older={pair[1]} />}
      <div class="scroll">
        <table class="list">
          <thead>
            <tr>
              <th scope="col">Compare</th>
              <th scope="col">Version</th>
              <th scope="col">Learned</th>
              <th scope="col" class="amount">Labels</th>
              <th scope="col">Digest</th>
              <th scope="col">
                <span class="visually-hidden">Actions</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => {
              const answers = row.servable && row.version === active?.version;
              return (
                <tr key={row.sequence} aria-current={answers}>
                  <td>
                    <input type="checkbox" aria-label={`Compare ${label(row)}`} checked={compared.includes(row.sequence)} onChange={() => toggle(row.sequence)} />
                  </td>
                  <td>
                    <code>{label(row)}</code> {answers && <Badge tone="active">answers</Badge>}
                  </td>
                  <td class="nowrap">
                    <When at={row.at} />
                  </td>
                  <td class="amount">{typeof row.metrics.labels === "number" ? count(row.metrics.labels) : "—"}</td>
                  <td>
                    <code title={row.digest}>{row.digest.slice(0, 10)}</code>
                  </td>
                  <td class="end">
                    {activate && row.servable && !answers && (
                      <button type="button" onClick={() => activate(row.version)} aria-label={`Activate ${label(row)}`}>
                        Activate
                      </button>
                    )}
                  </td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
    </Panel>
  );
}

function Compare({ older, newer }: { older: ScorerVersion; newer: ScorerVersion }): JSX.Element {
  const names = [...new Set([...Object.keys(older.metrics), ...Object.keys(newer.metrics)])].sort();
  const show = (value: unknown) => (value === undefined ? "—" : typeof value === "number" ? number(value) : JSON.stringify(value));
  return (
    <div class="scroll">
      <table class="list compact compare">
        <caption>
          {label(older)} against {label(newer)}
        </caption>
        <thead>
          <tr>
            <th scope="col">Measure</th>
            <th scope="col" class="amount">{label(older)}</th>
            <th scope="col" class="amount">{label(newer)}</th>
            <th scope="col" class="amount">Change</th>
          </tr>
        </thead>
        <tbody>
          <tr>
            <th scope="row">learned</th>
            <td class="amount">{moment(older.at)}</td>
            <td class="amount">{moment(newer.at)}</td>
            <td />
          </tr>
          {names.map((name) => {
            const [before, after] = [older.metrics[name], newer.metrics[name]];
            return (
              <tr key={name}>
                <th scope="row">{name}</th>
                <td class="amount">{show(before)}</td>
                <td class="amount">{show(after)}</td>
                <td class="amount">{typeof before === "number" && typeof after === "number" ? uplift(after - before) : ""}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}

function Ask({ api, question, close, done }: { api: Api; question: Question; close(): void; done(): void }): JSX.Element {
  const post = (path: string, body: object = {}) => api.postScoped(path, body).then(done);
  switch (question.kind) {
    case "roll back":
      return (
        <Dialog title="Answer with the version before?" action="Roll back" dangerous close={close} confirm={() => post("/v1/scorers/rollback")}>
          <p>It answers until another is chosen: labels that come later are stored and not used until you follow the newest again.</p>
        </Dialog>
      );
    case "follow":
      return (
        <Dialog title="Follow the labels again?" action="Follow the newest" close={close} confirm={() => post("/v1/scorers/activate", { version: null })}>
          <p>The newest version answers from now on, and each one after it.</p>
        </Dialog>
      );
    case "learn":
      return (
        <Dialog title="Learn everything there is, now?" action="Learn now" close={close} confirm={() => post("/v1/training/refit")}>
          <p>It happens by itself soon after labels come. It takes seconds, and searches go on meanwhile.</p>
        </Dialog>
      );
    case "activate":
      return (
        <Dialog title={`Answer with version ${question.version}?`} action="Activate" close={close} confirm={() => post("/v1/scorers/activate", { version: question.version })}>
          <p>It answers until another is chosen.</p>
        </Dialog>
      );
  }
}
