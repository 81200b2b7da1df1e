// Predicted against observed: on the diagonal, predictions come true.

import type { JSX } from "preact";
import { plural, uplift } from "../format";
import type { Calibration } from "../types";
import { range, scale, ticks, useWidth } from "./axes";

const LEFT = 78;
const RIGHT = 30;
const BOTTOM = 48;
const TOP = 12;

export function CalibrationPlot({ bins }: { bins: Calibration["bins"] }): JSX.Element {
  const [box, available] = useWidth<HTMLDivElement>(420);
  const size = Math.min(available, 460);
  const domain = range(
    bins.flatMap((bin) => [bin.predicted, bin.observed]),
    [0],
  );
  const x = scale(domain, [LEFT, size - RIGHT]);
  const y = scale(domain, [size - BOTTOM, TOP]);
  const marks = ticks(...domain);
  const most = Math.max(...bins.map((bin) => bin.count), 1);
  return (
    <div class="chart square" ref={box}>
      <svg width={size} height={size} role="group" aria-label="Predicted against observed uplift">
        {marks.map((mark) => (
          <g key={mark} class={mark === 0 ? "zero" : "grid"} aria-hidden="true">
            <line x1={LEFT} x2={size - RIGHT} y1={y(mark)} y2={y(mark)} />
            <line x1={x(mark)} x2={x(mark)} y1={TOP} y2={size - BOTTOM} />
            <text x={LEFT - 8} y={y(mark)} dy="0.32em" text-anchor="end">
              {uplift(mark)}
            </text>
            <text x={x(mark)} y={size - BOTTOM + 18} text-anchor="middle">
              {uplift(mark)}
            </text>
          </g>
        ))}
        <line class="diagonal" x1={x(domain[0])} y1={y(domain[0])} x2={x(domain[1])} y2={y(domain[1])} aria-hidden="true" />
        <text class="unit" transform={`translate(12 ${(TOP + size - BOTTOM) / 2}) rotate(-90)`} text-anchor="middle" aria-hidden="true">
          observed uplift
        </text>
        <text class="unit" x={(LEFT + size - RIGHT) / 2} y={size - 6} text-anchor="middle" aria-hidden="true">
          predicted uplift
        </text>
        {bins.map((bin, index) => {
          const words = `predicted ${uplift(bin.predicted)}, observed ${uplift(bin.observed)}, ${plural(bin.count, "retrieval")}`;
          return (
            <circle key={index} class="bin" tabIndex={0} role="img" aria-label={words} cx={x(bin.predicted)} cy={y(bin.observed)} r={4 + 7 * Math.sqrt(bin.count / most)}>
              <title>{words}</title>
            </circle>
          );
        })}
      </svg>
    </div>
  );
}
