// One search: what each memory added, what else was looked at, how it went.

import type { JSX } from "preact";
import { type Api, at } from "../api";
import { count, moment, number, plural, uplift } from "../format";
import { Ready, useLoad } from "../load";
import { Badge, Heading, MemoryName, Panel, Stat } from "../parts/common";
import { Link } from "../router";
import type { BeamStep, Explanation } from "../types";

export function RetrievalPage({ api, id }: { api: Api; id: string }): JSX.Element {
  const loaded = useLoad((signal) => api.get<Explanation>(at`/v1/retrievals/${id}`, {}, signal), [api.scope, id]);
  return (
    <>
      <p class="back">
        <Link to="/retrievals">← Retrievals</Link>
      </p>
      <Heading title="Retrieval" about={<code>{id}</code>} />
      <Ready of={loaded}>{(found) => <Shown {...found} />}</Ready>
    </>
  );
}

const same = (one: string[], other: string[]): boolean => one.length === other.length && one.every((id) => other.includes(id));

/** The steps from the empty set to the answer. */
export function pathTo(found: Pick<Explanation, "steps" | "memories">): BeamStep[] {
  const path: BeamStep[] = [];
  let target = found.memories;
  while (target.length > 0) {
    const step = found.steps?.[target.length - 1]?.kept.find((kept) => same(kept.set, target));
    if (!step) return path;
    path.unshift(step);
    target = step.parent;
  }
  return path;
}

function Shown(found: Explanation): JSX.Element {
  const path = pathTo(found);
  const timings = Object.entries(found.timings ?? {});
  return (
    <>
      <Panel title="Task" actions={found.abstained ? <Badge tone="open">abstained</Badge> : <Badge tone="active">{plural(found.memories.length, "memory", "memories")}</Badge>}>
        <blockquote class="text">{found.query}</blockquote>
        <p class="quiet">
          {moment(found.at)} · <code>{found.scorer}</code> · {plural(found.candidates, "candidate")}
          {found.trace.scored !== undefined && ` · ${plural(found.trace.scored, "set")} scored`}
          {found.trace.end && found.trace.end !== "complete" && ` · search ended early: ${found.trace.end}`}
        </p>
      </Panel>
      <dl class="stats">
        <Stat label="Predicted uplift" value={uplift(found.predicted_uplift)} note="over the same task without memory" />
        <Stat
          label="Observed uplift"
          value={found.outcome?.uplift == null ? "—" : uplift(found.outcome.uplift)}
          note={found.outcome === null ? "no outcome was reported" : found.outcome.uplift === null ? "waits for the task without memory" : "utility minus its reference"}
          tone={found.outcome?.uplift == null ? "" : found.outcome.uplift > 0 ? "helps" : found.outcome.uplift < 0 ? "harms" : ""}
        />
        <Stat label="Performance" value={found.outcome ? number(found.outcome.performance) : "—"} note={found.outcome ? `cost ${number(found.outcome.cost)}` : "from 0 to 1"} />
        {timings.length > 0 && <Stat label="Time" value={`${number(timings.reduce((sum, [, value]) => sum + value, 0))} ms`} note={timings.map(([name, value]) => `${name.replace(/_ms$/, "")} ${number(value)}`).join(" · ")} />}
      </dl>
      <Panel title="What was injected" about="Each memory was added where it gained most; the gains add up to the prediction.">
        {found.abstained ? (
          <p class="quiet">
            Nothing: {found.candidates === 0 ? "there was no candidate." : `none of ${plural(found.candidates, "candidate")} was expected to help.`} The agent was advised to go on without memory.
          </p>
        ) : (
          <Gains path={path} texts={found.texts} total={found.predicted_uplift} />
        )}
      </Panel>
      <Panel title="What else was looked at" about="For each size of set: what was kept, and the best of what was not.">
        {found.steps && found.steps.length > 0 ? <Steps steps={found.steps} texts={found.texts} answer={found.memories} /> : <p class="quiet">Nothing was scored.</p>}
      </Panel>
    </>
  );
}

function Gains({ path, texts, total }: { path: BeamStep[]; texts: Record<string, string>; total: number }): JSX.Element {
  const most = Math.max(0.001, ...path.map((step) => Math.abs(step.gain)));
  return (
    <div class="scroll">
      <table class="list">
        <thead>
          <tr>
            <th scope="col" class="amount">Step</th>
            <th scope="col">Memory</th>
            <th scope="col">Gain</th>
            <th scope="col" class="amount">Sum</th>
          </tr>
        </thead>
        <tbody>
          {path.map((step, index) => (
            <tr key={step.added}>
              <td class="amount">{index + 1}</td>
              <td class="wide">
                <MemoryName id={step.added} text={texts[step.added]} />
              </td>
              <td>
                <span class={`gain ${step.gain < 0 ? "harms" : "helps"}`}>
                  <i aria-hidden="true" style={{ width: `${(Math.abs(step.gain) / most) * 6}rem` }} />
                  <b>{uplift(step.gain)}</b>
                </span>
              </td>
              <td class="amount">{uplift(step.value)}</td>
            </tr>
          ))}
        </tbody>
        <tfoot>
          <tr>
            <th scope="row" colSpan={3}>
              Predicted uplift
            </th>
            <td class="amount">
              <b>{uplift(total)}</b>
            </td>
          </tr>
        </tfoot>
      </table>
    </div>
  );
}

function Steps({ steps, texts, answer }: { steps: NonNullable<Explanation["steps"]>; texts: Record<string, string>; answer: string[] }): JSX.Element {
  return (
    <>
      {steps.map((depth, index) => (
        <details key={index} class="depth" open={index === 0 || index + 1 === answer.length}>
          <summary>
            Sets of {index + 1} <span class="quiet">{count(depth.scored)} scored</span>
          </summary>
          <div class="scroll">
          <table class="list compact">
            <thead>
              <tr>
                <th scope="col" />
                <th scope="col">Added</th>
                <th scope="col" class="amount">Gain</th>
                <th scope="col" class="amount">Predicted uplift</th>
              </tr>
            </thead>
            <tbody>
              {[...depth.kept.map((step) => ({ step, kept: true })), ...depth.runners_up.map((step) => ({ step, kept: false }))].map(({ step, kept }) => (
                <tr key={step.set.join()}>
                  <td>{same(step.set, answer) ? <Badge tone="active">answer</Badge> : kept ? <Badge tone="open">kept</Badge> : <span class="quiet">runner-up</span>}</td>
                  <td class="wide">
                    <MemoryName id={step.added} text={texts[step.added]} />
                    {step.parent.length > 0 && <span class="quiet"> to {plural(step.parent.length, "other")}: {step.parent.map((id) => texts[id] ?? id).join(" · ")}</span>}
                  </td>
                  <td class="amount">{uplift(step.gain)}</td>
                  <td class="amount">{uplift(step.value)}</td>
                </tr>
              ))}
            </tbody>
          </table>
          </div>
        </details>
      ))}
    </>
  );
}
