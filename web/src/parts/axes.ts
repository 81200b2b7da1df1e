// Where marks go on an axis.

import { useEffect, useRef, useState } from "preact/hooks";

/** Round values that span a range, about `wanted` of them. */
export function ticks(low: number, high: number, wanted = 5): number[] {
  const span = high - low;
  if (!(span > 0)) return [low];
  const rough = span / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 2.5, 5, 10].find((factor) => factor * power >= rough) ?? 10);
  const marks: number[] = [];
  for (let mark = Math.ceil(low / step - 1e-9); mark * step <= high + step * 1e-9; mark += 1) {
    marks.push(Number((mark * step).toPrecision(12)));
  }
  return marks;
}

/** A range that holds all values, with some room around them. */
export function range(values: number[], always: number[] = []): [number, number] {
  const all = [...values, ...always].filter(Number.isFinite);
  if (all.length === 0) return [0, 1];
  let [low, high] = [Math.min(...all), Math.max(...all)];
  if (low === high) {
    const room = Math.abs(low) * 0.1 || 0.1;
    return [low - room, high + room];
  }
  const room = (high - low) * 0.06;
  return [low - room, high + room];
}

export const scale =
  ([low, high]: [number, number], [from, to]: [number, number]) =>
  (value: number): number =>
    from + ((value - low) / (high - low)) * (to - from);

/** The width that an element has, so that text in a chart keeps its size. */
export function useWidth<E extends Element>(initial: number) {
  const element = useRef<E>(null);
  const [width, setWidth] = useState(initial);
  useEffect(() => {
    if (!element.current) return;
    const observer = new ResizeObserver(([entry]) => entry && setWidth(Math.max(240, entry.contentRect.width)));
    observer.observe(element.current);
    return () => observer.disconnect();
  }, []);
  return [element, width] as const;
}
