// Texts behind ids, asked for once.

import { useEffect, useState } from "preact/hooks";
import type { Api } from "./api";
import type { Memory, Page, Task } from "./types";

/** Ids of one request; the server gives no more than a page. */
const AT_ONCE = 100;

type Texts = Record<string, string>;

const known = new Map<string, Texts>();

function useTexts(api: Api, kind: string, ids: string[], load: (ids: string) => Promise<Texts>): Texts {
  const [, draw] = useState(0);
  const name = `${kind} ${JSON.stringify(api.scope)}`;
  const texts = known.get(name) ?? {};
  known.set(name, texts);
  const missing = [...new Set(ids)].filter((id) => !(id in texts)).slice(0, AT_ONCE);
  const wanted = missing.join(",");
  useEffect(() => {
    if (wanted === "") return;
    let current = true;
    load(wanted).then(
      (found) => {
        Object.assign(texts, found);
        if (current) draw((before) => before + 1);
      },
      // The ids stay; they name the thing as well.
      () => undefined,
    );
    return () => {
      current = false;
    };
  }, [name, wanted]);
  return texts;
}

export const useMemoryTexts = (api: Api, ids: string[]): Texts =>
  useTexts(api, "memories", ids, async (wanted) => {
    const page = await api.get<Page<Memory>>("/v1/memories", { ids: wanted, limit: AT_ONCE });
    return Object.fromEntries(page.results.map((memory) => [memory.id, memory.memory]));
  });

export const useTaskTexts = (api: Api, ids: string[]): Texts =>
  useTexts(api, "tasks", ids, async (wanted) => {
    const page = await api.get<Page<Task>>("/v1/tasks", { ids: wanted, limit: AT_ONCE });
    return Object.fromEntries(page.results.map((task) => [task.id, task.context]));
  });
