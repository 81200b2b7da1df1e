// Loading, failing and being empty, the same on every page.

import type { ComponentChildren, JSX } from "preact";
import { useCallback, useEffect, useState } from "preact/hooks";
import { ApiError, refused } from "./api";
import type { Page } from "./types";

export interface Loaded<T> {
  data: T | undefined;
  error: Error | undefined;
  loading: boolean;
  reload(): void;
}

/** Loads again whenever one of `inputs` changes; an answer that came too late is dropped. */
export function useLoad<T>(load: (signal: AbortSignal) => Promise<T>, inputs: unknown[]): Loaded<T> {
  const [state, setState] = useState<{ data?: T; error?: Error; loading: boolean }>({ loading: true });
  const [turn, setTurn] = useState(0);
  const key = JSON.stringify(inputs);
  useEffect(() => {
    const stop = new AbortController();
    setState((before) => ({ ...before, loading: true }));
    load(stop.signal).then(
      (data) => stop.signal.aborted || setState({ data, loading: false }),
      (error: unknown) => {
        if (stop.signal.aborted) return;
        setState({ error: error instanceof Error ? error : new Error(String(error)), loading: false });
      },
    );
    return () => stop.abort();
    // `load` is new at every drawing; what it depends on is in `key`.
  }, [key, turn]);
  const reload = useCallback(() => setTurn((before) => before + 1), []);
  return { data: state.data, error: state.error, loading: state.loading, reload };
}

export function Failure({ error, retry }: { error: Error; retry?: () => void }): JSX.Element {
  const code = error instanceof ApiError ? error.code : undefined;
  return (
    <div class="notice bad" role="alert">
      <p>
        {error.message} {code && <code>{code}</code>}
      </p>
      {retry && (
        <button type="button" onClick={retry}>
          Try again
        </button>
      )}
    </div>
  );
}

interface ReadyProps<T> {
  of: Loaded<T>;
  children: (data: T) => ComponentChildren;
}

/** Shows what was loaded; while it is loaded again, what there was. */
export function Ready<T>({ of, children }: ReadyProps<T>): JSX.Element {
  if (of.error) {
    // The page behind the form for a key need not say the same again.
    if (of.error instanceof ApiError && of.error.status === 401 && refused.get() !== null) return <></>;
    return <Failure error={of.error} retry={of.reload} />;
  }
  if (of.data === undefined) {
    return (
      <div class="loading" role="status">
        <span class="visually-hidden">Loading</span>
        <i />
        <i />
        <i />
      </div>
    );
  }
  return (
    <div class="ready" aria-busy={of.loading}>
      {children(of.data)}
    </div>
  );
}

interface EmptyProps {
  title: string;
  children: ComponentChildren;
}

/** Nothing here yet, and what to do first. */
export function Empty({ title, children }: EmptyProps): JSX.Element {
  return (
    <div class="empty">
      <h3>{title}</h3>
      {children}
    </div>
  );
}

export interface Pages<T> extends Loaded<T[]> {
  more: boolean;
  showMore(): void;
}

/** Rows of a listing, a page more whenever it is asked for. */
export function usePages<T>(load: (after: string | undefined, signal?: AbortSignal) => Promise<Page<T>>, inputs: unknown[]): Pages<T> {
  const first = useLoad((signal) => load(undefined, signal), inputs);
  const [rest, setRest] = useState<{ of: Page<T>; rows: T[]; next: string | null; error?: Error }>();
  const later = rest && rest.of === first.data ? rest : undefined;
  const next = later ? later.next : (first.data?.next ?? null);
  const showMore = () => {
    const of = first.data;
    if (next === null || !of) return;
    const rows = later?.rows ?? [];
    load(next).then(
      (page) => setRest({ of, rows: [...rows, ...page.results], next: page.next }),
      (error: Error) => setRest({ of, rows, next, error }),
    );
  };
  return {
    data: first.data && [...first.data.results, ...(later?.rows ?? [])],
    error: first.error ?? later?.error,
    loading: first.loading,
    reload: first.reload,
    more: next !== null,
    showMore,
  };
}
