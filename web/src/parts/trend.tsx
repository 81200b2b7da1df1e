// A line with intervals: how something went on.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { number } from "../format";
import { range, scale, ticks, useWidth } from "./axes";

export interface TrendPoint {
  /** Under the axis. */
  label: string;
  value: number;
  low?: number | undefined;
  high?: number | undefined;
  /** Everything about it, in words. */
  tip: string[];
}

interface TrendProps {
  /** What a screen reader says of the whole. */
  title: string;
  points: TrendPoint[];
  unit: string;
  below: string;
  /** Whether zero means something and is always in sight. */
  zero?: boolean;
  /** Values that are possible; an interval from few executions can be much wider. */
  bounds?: [number, number];
  height?: number;
  format?: (value: number) => string;
}

const LEFT = 78;
const RIGHT = 14;
const TOP = 12;
const BOTTOM = 48;

export function Trend({ title, points, unit, below, zero = false, bounds = [-Infinity, Infinity], height = 250, format = number }: TrendProps): JSX.Element {
  const [box, width] = useWidth<HTMLDivElement>(720);
  const [shown, setShown] = useState<number | null>(null);
  const values = points.flatMap((point) => [point.value, point.low ?? point.value, point.high ?? point.value]);
  const within = (value: number) => Math.max(bounds[0], Math.min(bounds[1], value));
  const domain = range(values.map(within), zero ? [0] : []);
  const place = scale(domain, [height - BOTTOM, TOP]);
  const y = (value: number) => place(within(value));
  const inner = width - LEFT - RIGHT;
  const x = (index: number) => LEFT + (points.length === 1 ? inner / 2 : 12 + (index / (points.length - 1)) * (inner - 24));
  const marks = ticks(...domain, 6);
  const every = Math.max(1, Math.ceil(points.length / Math.max(2, Math.floor(inner / 84))));
  const line = points.map((point, index) => `${x(index)},${y(point.value)}`).join(" ");
  const withBand = points.map((point, index) => ({ point, index })).filter(({ point }) => point.low !== undefined);
  const band = [
    ...withBand.map(({ point, index }) => `${x(index)},${y(point.high ?? point.value)}`),
    ...withBand.reverse().map(({ point, index }) => `${x(index)},${y(point.low ?? point.value)}`),
  ].join(" ");
  const tip = shown === null ? undefined : points[shown];
  return (
    <div class="chart" ref={box}>
      <svg width={width} height={height} role="group" aria-label={title}>
        {marks.map((mark) => (
          <g key={mark} class={mark === 0 && zero ? "zero" : "grid"} aria-hidden="true">
            <line x1={LEFT} x2={width - RIGHT} y1={y(mark)} y2={y(mark)} />
            <text x={LEFT - 8} y={y(mark)} dy="0.32em" text-anchor="end">
              {format(mark)}
            </text>
          </g>
        ))}
        <text class="unit" transform={`translate(12 ${(TOP + height - BOTTOM) / 2}) rotate(-90)`} text-anchor="middle" aria-hidden="true">
          {unit}
        </text>
        <text class="unit" x={LEFT + inner / 2} y={height - 6} text-anchor="middle" aria-hidden="true">
          {below}
        </text>
        {withBand.length > 1 && <polygon class="band" points={band} />}
        {points.length > 1 && <polyline class="line" points={line} />}
        {points.map((point, index) => (
          <g
            key={index}
            class="point"
            tabIndex={0}
            role="img"
            aria-label={point.tip.join(", ")}
            onMouseEnter={() => setShown(index)}
            onMouseLeave={() => setShown(null)}
            onFocus={() => setShown(index)}
            onBlur={() => setShown(null)}
          >
            <rect class="hit" x={x(index) - Math.max(8, inner / points.length / 2)} y={TOP} width={Math.max(16, inner / points.length)} height={height - TOP - BOTTOM} />
            {point.low !== undefined && point.high !== undefined && (
              <line class="whisker" x1={x(index)} x2={x(index)} y1={y(point.low)} y2={y(point.high)} />
            )}
            <circle cx={x(index)} cy={y(point.value)} r={shown === index ? 5.5 : 3.5} />
          </g>
        ))}
        {points.map((point, index) =>
          index % every === 0 ? (
            <text key={index} class="tick" x={x(index)} y={height - BOTTOM + 18} text-anchor="middle" aria-hidden="true">
              {point.label}
            </text>
          ) : null,
        )}
      </svg>
      {tip && shown !== null && (
        <div class="tip" style={{ left: `${Math.min(Math.max(x(shown), 110), width - 110)}px`, top: `${Math.max(0, y(tip.high ?? tip.value) - 10)}px` }} aria-hidden="true">
          {tip.tip.map((part) => (
            <div key={part}>{part}</div>
          ))}
        </div>
      )}
    </div>
  );
}
