// An effect with its uncertainty, small enough for a row of a table.

import type { JSX } from "preact";
import { plural, uplift } from "../format";
import type { Interval } from "../types";
import { scale } from "./axes";

const WIDTH = 132;
const HEIGHT = 18;

interface EffectProps {
  mean: number;
  interval: Interval | null;
  executions: number;
  /** The end of the scale to both sides, the same for all rows of a table; without it, the bar fills its width. */
  most?: number;
}

export function judged(interval: Interval | null): "helps" | "harms" | "open" {
  if (interval && interval.low > 0) return "helps";
  if (interval && interval.high < 0) return "harms";
  return "open";
}

const WORDS = { helps: "helps", harms: "harms", open: "not settled" };

/** The end of a scale that holds these effects. */
export const reach = (effects: { mean: number; interval: Interval | null }[]): number =>
  Math.max(0.05, ...effects.flatMap(({ mean, interval }) => [mean, interval?.low ?? 0, interval?.high ?? 0].map(Math.abs)));

export function EffectBar({ mean, interval, executions, most }: EffectProps): JSX.Element {
  const values = [0, mean, interval?.low ?? 0, interval?.high ?? 0];
  const ends: [number, number] = most === undefined ? [Math.min(...values), Math.max(...values, 1e-9)] : [-most, most];
  const along = scale(ends, [6, WIDTH - 6]);
  const place = (value: number) => along(Math.max(ends[0], Math.min(ends[1], value)));
  const judgement = judged(interval);
  const between = interval ? `, 95 % from ${uplift(interval.low)} to ${uplift(interval.high)}` : ", too few for an interval";
  const words = `${uplift(mean)}${between}, ${plural(executions, "execution")}: ${WORDS[judgement]}`;
  return (
    <span class={`effect ${judgement}`} title={words}>
      <svg width={WIDTH} height={HEIGHT} role="img" aria-label={words}>
        <line class="middle" x1={place(0)} x2={place(0)} y1={1} y2={HEIGHT - 1} />
        {interval && <line class="span" x1={place(interval.low)} x2={place(interval.high)} y1={HEIGHT / 2} y2={HEIGHT / 2} />}
        <circle cx={place(mean)} cy={HEIGHT / 2} r={4} />
      </svg>
      <b>{uplift(mean)}</b>
    </span>
  );
}
