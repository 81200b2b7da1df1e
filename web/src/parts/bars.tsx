// Amounts beside each other.

import type { JSX } from "preact";

export interface Bar {
  label: string;
  value: number;
  words: string;
  tone?: "good" | "bad" | "plain";
}

/** Bars from zero, to the right or, below zero, to the left. */
export function Bars({ title, bars }: { title: string; bars: Bar[] }): JSX.Element {
  const low = Math.min(0, ...bars.map((bar) => bar.value));
  const high = Math.max(0, ...bars.map((bar) => bar.value));
  const span = high - low || 1;
  return (
    <table class="bars">
      <caption class="visually-hidden">{title}</caption>
      <tbody>
        {bars.map((bar) => (
          <tr key={bar.label}>
            <th scope="row">{bar.label}</th>
            <td class="track" aria-hidden="true">
              <i
                class={bar.tone ?? "plain"}
                style={{ left: `${((Math.min(0, bar.value) - low) / span) * 100}%`, width: `${Math.max((Math.abs(bar.value) / span) * 100, bar.value === 0 ? 0 : 0.6)}%` }}
              />
            </td>
            <td class="amount">{bar.words}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
