// Pages have addresses of their own; the scope that is looked at is part of every address.

import type { ComponentChildren, JSX } from "preact";
import { SCOPE_PARTS } from "./api";
import { store, useStore } from "./store";
import type { Scope } from "./types";

interface Place {
  path: string;
  query: URLSearchParams;
}

const here = (): Place => ({ path: location.pathname, query: new URLSearchParams(location.search) });

export const place = store(here());
addEventListener("popstate", () => place.set(here()));

export const usePlace = (): Place => useStore(place);

export function scopeOf(query: URLSearchParams): Scope {
  const scope: Scope = {};
  for (const part of SCOPE_PARTS) {
    const value = query.get(part);
    if (value) scope[part] = value;
  }
  return scope;
}

/** An address within the scope that is looked at. */
export function address(path: string, query: Record<string, string | undefined> = {}, scope?: Scope): string {
  const parameters = new URLSearchParams();
  const parts = scope ?? scopeOf(place.get().query);
  for (const part of SCOPE_PARTS) {
    const value = parts[part];
    if (value) parameters.set(part, value);
  }
  for (const [name, value] of Object.entries(query)) {
    if (value) parameters.set(name, value);
  }
  return parameters.size > 0 ? `${path}?${parameters}` : path;
}

export function go(to: string, replace = false): void {
  if (replace) history.replaceState(null, "", to);
  else history.pushState(null, "", to);
  const before = place.get().path;
  place.set(here());
  if (!replace && before !== place.get().path) {
    scrollTo(0, 0);
    // Whoever reads with a screen reader or keys starts at the new page, not at the link that led there.
    requestAnimationFrame(() => document.getElementById("main")?.focus({ preventScroll: true }));
  }
}

interface LinkProps {
  to: string;
  query?: Record<string, string | undefined>;
  class?: string;
  current?: boolean;
  label?: string;
  children: ComponentChildren;
}

export function Link({ to, query, class: name, current, label, children }: LinkProps): JSX.Element {
  usePlace();
  const href = address(to, query);
  const click = (event: MouseEvent) => {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    go(href);
  };
  return (
    <a href={href} class={name} onClick={click} aria-current={current ? "page" : undefined} aria-label={label}>
      {children}
    </a>
  );
}
