// A value that components follow.

import { useEffect, useState } from "preact/hooks";

export interface Store<T> {
  get(): T;
  set(value: T): void;
  follow(listener: () => void): () => void;
}

export function store<T>(initial: T): Store<T> {
  let value = initial;
  const listeners = new Set<() => void>();
  return {
    get: () => value,
    set(next) {
      if (Object.is(next, value)) return;
      value = next;
      for (const listener of [...listeners]) listener();
    },
    follow(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

export function useStore<T>(from: Store<T>): T {
  const [value, setValue] = useState(() => from.get());
  useEffect(() => {
    // It may have changed between the first drawing and now.
    setValue(() => from.get());
    return from.follow(() => setValue(() => from.get()));
  }, [from]);
  return value;
}
