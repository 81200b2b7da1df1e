// Searches that were answered, the newest first.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { Api } from "../api";
import { plural, uplift } from "../format";
import { Empty, Failure, Ready, usePages } from "../load";
import { Badge, Heading, More, When } from "../parts/common";
import { address, go, Link } from "../router";
import type { Page, Retrieval } from "../types";

export function RetrievalsPage({ api }: { api: Api }): JSX.Element {
  const pages = usePages<Retrieval>((after, signal) => api.get<Page<Retrieval>>("/v1/retrievals", { order: "newest", limit: 50, after }, signal), [api.scope]);
  return (
    <>
      <Heading title="Retrievals" about="What was injected for each task, and why." />
      <Try api={api} />
      <Ready of={pages}>
        {(rows) =>
          rows.length === 0 ? (
            <Empty title="No search was answered in this scope">
              <p>
                Try one above, or let the agent ask <code>POST /v1/memories/search</code> before it starts a task.
              </p>
            </Empty>
          ) : (
            <>
              <div class="scroll">
                <table class="list">
                  <thead>
                    <tr>
                      <th scope="col">Task</th>
                      <th scope="col">Answer</th>
                      <th scope="col" class="amount">Predicted uplift</th>
                      <th scope="col" class="amount">Candidates</th>
                      <th scope="col">Scorer</th>
                      <th scope="col">When</th>
                    </tr>
                  </thead>
                  <tbody>
                    {rows.map((row) => (
                      <tr key={row.id}>
                        <td class="wide">
                          <Link to={`/retrievals/${row.id}`} class="memory-name">
                            {row.query}
                          </Link>
                        </td>
                        <td>{row.abstained ? <Badge tone="open">abstained</Badge> : <Badge tone="active">{plural(row.memories.length, "memory", "memories")}</Badge>}</td>
                        <td class="amount">{uplift(row.predicted_uplift)}</td>
                        <td class="amount">{row.candidates}</td>
                        <td>
                          <code>{row.scorer}</code>
                        </td>
                        <td class="nowrap">
                          <When at={row.at} />
                        </td>
                      </tr>
                    ))}
                  </tbody>
                </table>
              </div>
              <More more={pages.more} show={pages.showMore} />
            </>
          )
        }
      </Ready>
    </>
  );
}

/** A search as an agent would make it; it leads to its own explanation. */
function Try({ api }: { api: Api }): JSX.Element {
  const [query, setQuery] = useState("");
  const [error, setError] = useState<Error>();
  const [busy, setBusy] = useState(false);
  const search = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    try {
      const found = await api.postScoped<{ retrieval_id: string }>("/v1/memories/search", { query });
      go(address(`/retrievals/${found.retrieval_id}`));
    } catch (problem) {
      setError(problem instanceof Error ? problem : new Error(String(problem)));
      setBusy(false);
    }
  };
  return (
    <form class="toolbar" onSubmit={search}>
      <label class="grow">
        <span>Try a search (recorded like one of the agent's)</span>
        <input data-search required placeholder="What is the agent about to do?" value={query} onInput={(event) => setQuery(event.currentTarget.value)} />
      </label>
      <button type="submit" class="primary" disabled={busy}>
        Search
      </button>
      {error && <Failure error={error} />}
    </form>
  );
}
