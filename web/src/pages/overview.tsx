// Is memory helping?

import type { JSX } from "preact";
import type { Api } from "../api";
import { count, moment, number, percent, plural, tick, uplift } from "../format";
import { Ready, useLoad } from "../load";
import { Bars } from "../parts/bars";
import { Heading, MemoryName, Panel, Stat } from "../parts/common";
import { EffectBar, judged, reach } from "../parts/effect";
import { Trend } from "../parts/trend";
import { Link } from "../router";
import type { Effect, HelpReport, Ledger, MemoryEffect, UpliftPoint } from "../types";
import { FirstSteps } from "./first-steps";

interface Overview {
  help: HelpReport;
  uplift: UpliftPoint[];
  ledger: Ledger;
  best: MemoryEffect[];
  worst: MemoryEffect[];
}

/** Comparisons of one point at least: fewer say nothing, with intervals that hide the rest. */
const GROUP = 8;
const POINTS_MAX = 24;
/** Utilities are from 0 to 1 and a little more for savings. */
const BOUNDS: [number, number] = [-1.2, 1.2];

async function load(api: Api, signal: AbortSignal): Promise<Overview> {
  const effects = (order: string) => api.get<{ results: MemoryEffect[] }>("/v1/reports/memories", { order, limit: 5 }, signal);
  const help = await api.get<HelpReport>("/v1/reports/help", {}, signal);
  const groups = Math.floor((help.retrievals?.pairs ?? 0) / GROUP);
  const [points, ledger, best, worst] = await Promise.all([
    api.get<{ results: UpliftPoint[] }>("/v1/reports/uplift", { points: Math.min(POINTS_MAX, Math.max(1, groups)) }, signal),
    api.get<Ledger>("/v1/reports/ledger", {}, signal),
    effects("help"),
    effects("harm"),
  ]);
  return {
    help,
    uplift: points.results,
    ledger,
    best: best.results.filter((row) => row.effect > 0),
    worst: worst.results.filter((row) => row.effect < 0),
  };
}

const between = (effect: Effect): string =>
  effect.interval ? `95 %: ${uplift(effect.interval.low)} to ${uplift(effect.interval.high)}` : "too few for an interval";

export function OverviewPage({ api }: { api: Api }): JSX.Element {
  const loaded = useLoad((signal) => load(api, signal), [api.scope]);
  return (
    <>
      <Heading title="Overview" about="Does this agent do better with the memories it is given than without any?" />
      <Ready of={loaded}>{(data) => <Shown api={api} {...data} />}</Ready>
    </>
  );
}

function Shown({ api, help, uplift: points, ledger, best, worst }: Overview & { api: Api }): JSX.Element {
  const judgement = judged(help.retrievals?.interval ?? null);
  const nothing = help.retrievals === null && ledger.executions === 0;
  return (
    <>
      <div class={`verdict ${judgement}`} role="status">
        <strong>{help.verdict}</strong>
        {help.retrievals && (
          <span>
            {uplift(help.retrievals.mean)} utility per retrieval ({between(help.retrievals)}), from {plural(help.retrievals.pairs, "comparison")}
          </span>
        )}
      </div>
      {nothing ? (
        <FirstSteps api={api} />
      ) : (
        <>
          <dl class="stats">
            <Stat
              label="Uplift per retrieval"
              value={help.retrievals ? uplift(help.retrievals.mean) : "—"}
              note={help.retrievals ? between(help.retrievals) : "waits for references"}
              tone={judgement}
            />
            <Stat label="Abstention" value={help.abstained === null ? "—" : percent(help.abstained)} note="searches that advised no memory" />
            <Stat label="Did worse" value={help.retrievals ? percent(help.harmed) : "—"} note="retrievals below the task without memory" />
            <Stat label="Executions" value={count(ledger.executions)} note={`cost ${number(ledger.cost)} in all`} />
            <Stat
              label="Control"
              value={help.control ? uplift(help.control.mean) : "—"}
              note={help.control ? `no memory against itself; ${between(help.control)}` : "no memory against no memory"}
            />
          </dl>
          <Panel title="Uplift over time" about="Utility with the retrieved memories minus utility without. Each point is a group of comparisons; the band is 95 %.">
            {points.length === 0 ? (
              <p class="quiet">
                No comparison yet: a task counts once it was also done without memory. Such executions wait at <Link to="/probes">Probes</Link>.
              </p>
            ) : (
              <UpliftTrend points={points} />
            )}
          </Panel>
          <div class="columns">
            <Panel title="Executions spent" about="What was run, by purpose.">
              <Bars
                title="Executions by purpose"
                bars={ledger.lines.map((line) => ({
                  label: line.purpose,
                  value: line.executions,
                  words: `${count(line.executions)} · cost ${number(line.cost)}`,
                }))}
              />
            </Panel>
            <Panel
              title="What probes found"
              about="Probes are paid for to learn; their uplift may be below zero without harm to the agent's work."
            >
              {help.probes ? (
                <p>
                  <EffectBar mean={help.probes.mean} interval={help.probes.interval} executions={help.probes.pairs} />{" "}
                  <span class="quiet">{between(help.probes)}</span>
                </p>
              ) : (
                <p class="quiet">
                  No probe was executed yet. <Link to="/probes">Plan some</Link>.
                </p>
              )}
            </Panel>
          </div>
          <div class="columns">
            <EffectList title="Most helpful memories" rows={best} order="help" />
            <EffectList title="Most harmful memories" rows={worst} order="harm" />
          </div>
        </>
      )}
    </>
  );
}

function UpliftTrend({ points }: { points: UpliftPoint[] }): JSX.Element {
  const times = points.map((point) => new Date(point.at).getTime());
  const span = Math.max(...times) - Math.min(...times);
  return (
    <>
      <Trend
        title="Uplift over time with 95 % intervals"
        unit="uplift (utility)"
        below="when the comparisons came"
        zero
        bounds={BOUNDS}
        format={uplift}
        points={points.map(({ at, effect }) => ({
          label: tick(new Date(at).getTime(), span),
          value: effect.mean,
          low: effect.interval?.low,
          high: effect.interval?.high,
          tip: [`uplift ${uplift(effect.mean)}`, between(effect), plural(effect.pairs, "comparison"), moment(at)],
        }))}
      />
      <details>
        <summary>The same as a table</summary>
        <table>
          <thead>
            <tr>
              <th scope="col">Until</th>
              <th scope="col" class="amount">Comparisons</th>
              <th scope="col" class="amount">Uplift</th>
              <th scope="col">Interval</th>
            </tr>
          </thead>
          <tbody>
            {points.map(({ at, effect }) => (
              <tr key={at}>
                <td>{moment(at)}</td>
                <td class="amount">{count(effect.pairs)}</td>
                <td class="amount">{uplift(effect.mean)}</td>
                <td>{between(effect)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </details>
    </>
  );
}

function EffectList({ title, rows, order }: { title: string; rows: MemoryEffect[]; order: string }): JSX.Element {
  const most = reach(rows.map(({ effect, interval }) => ({ mean: effect, interval })));
  return (
    <Panel
      title={title}
      actions={
        <Link to="/memories" query={{ order }} class="button">
          All
        </Link>
      }
    >
      {rows.length === 0 ? (
        <p class="quiet">None so far.</p>
      ) : (
        <ul class="effects">
          {rows.map((row) => (
            <li key={row.id}>
              <MemoryName id={row.id} text={row.memory ?? undefined} />
              <EffectBar mean={row.effect} interval={row.interval} executions={row.executions} most={most} />
            </li>
          ))}
        </ul>
      )}
    </Panel>
  );
}
