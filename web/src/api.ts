// Requests to the server that served this page, in the scope that is looked at.

import { store } from "./store";
import type { Scope } from "./types";

export const SCOPE_PARTS = ["user_id", "agent_id", "run_id", "app_id"] as const;

/** The key that requests carry; kept until the tab is closed. */
const KEY = "upliftmem-key";
export const apiKey = store<string | null>(sessionStorage.getItem(KEY));

/** Whether the server asked for a key, or did not know the one it got. */
export const refused = store<string | null>(null);

export function setApiKey(key: string | null): void {
  if (key === null) sessionStorage.removeItem(KEY);
  else sessionStorage.setItem(KEY, key);
  apiKey.set(key);
  refused.set(key === null ? "Signed out." : null);
}

/** A failed request, in the server's words. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
  ) {
    super(message);
  }
}

type Query = Record<string, string | number | undefined>;

async function send<T>(method: string, path: string, query: Query, body?: unknown, signal?: AbortSignal): Promise<T> {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== "") parameters.set(name, String(value));
  }
  const headers: Record<string, string> = {};
  const key = apiKey.get();
  if (key !== null) headers.authorization = `Bearer ${key}`;
  const options: RequestInit = { method, headers };
  if (signal) options.signal = signal;
  if (body !== undefined) {
    headers["content-type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  const search = parameters.size > 0 ? `?${parameters}` : "";
  let response: Response;
  try {
    response = await fetch(path + search, options);
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError(0, "unreachable", "The server does not answer. Is `upliftmem serve` still running?");
  }
  const text = await response.text();
  let answer: unknown;
  try {
    answer = text === "" ? null : JSON.parse(text);
  } catch {
    throw new ApiError(response.status, "unreadable", `The server answered ${response.status} with something that is not JSON.`);
  }
  if (!response.ok) {
    const { code, message } = (answer as { error?: { code?: string; message?: string } } | null)?.error ?? {};
    // Whoever signed out is told so, and not by requests that were still under way.
    if (response.status === 401 && refused.get() === null) refused.set(key === null ? "This server asks for a key." : (message ?? "The key was refused."));
    throw new ApiError(response.status, code ?? "unknown", message ?? `The server answered ${response.status}.`);
  }
  return answer as T;
}

/** Requests of one scope. */
export class Api {
  constructor(readonly scope: Scope) {}

  get<T>(path: string, query: Query = {}, signal?: AbortSignal): Promise<T> {
    return send<T>("GET", path, { ...this.scope, ...query }, undefined, signal);
  }

  /** For routes whose scope is named in the query string. */
  post<T>(path: string, body: object = {}): Promise<T> {
    return send<T>("POST", path, { ...this.scope }, body);
  }

  /** For routes whose scope is part of the body. */
  postScoped<T>(path: string, body: object = {}): Promise<T> {
    return send<T>("POST", path, {}, { ...this.scope, ...body });
  }

  patch<T>(path: string, body: object): Promise<T> {
    return send<T>("PATCH", path, { ...this.scope }, body);
  }
}

/** Requests that are about no scope. */
export const server = {
  get: <T>(path: string, query: Query = {}, signal?: AbortSignal) => send<T>("GET", path, query, undefined, signal),
  post: <T>(path: string, body: object) => send<T>("POST", path, {}, body),
  remove: <T>(path: string) => send<T>("DELETE", path, {}),
};

/** A path with parts that others chose. */
export function at(strings: TemplateStringsArray, ...parts: string[]): string {
  return strings.reduce((path, text, index) => path + encodeURIComponent(parts[index - 1] ?? "") + text);
}
