// What to do before there is anything to show.

import type { JSX } from "preact";
import type { Api } from "../api";
import { Empty } from "../load";

export function FirstSteps({ api }: { api: Api }): JSX.Element {
  const post = (path: string, body: object) =>
    `curl ${location.origin}${path} -H 'content-type: application/json' \\\n  -d '${JSON.stringify({ ...body, ...api.scope })}'`;
  return (
    <Empty title="Nothing has been compared yet">
      <p>Memory is judged by outcomes. Three calls close the loop; agents make the same ones.</p>
      <ol class="steps">
        <li>
          <b>Add a memory</b>
          <pre>{post("/v1/memories", { text: "The staging database is read-only on Mondays." })}</pre>
        </li>
        <li>
          <b>Search before a task</b>, and give the agent what comes back
          <pre>{post("/v1/memories/search", { query: "Migrate the staging database", task: "migrate-staging" })}</pre>
        </li>
        <li>
          <b>Report how it went</b>, from 0 to 1
          <pre>{post("/v1/outcomes", { retrieval_id: "RETRIEVAL_ID", performance: 1 })}</pre>
        </li>
      </ol>
      <p>
        The same task done once without memory is what the others are compared with: <code>GET /v1/probes/next</code> hands such executions
        out. No agent at hand? <code>upliftmem demo</code> shows the whole method on a small world. All calls: <a href="/docs">API</a>.
      </p>
    </Empty>
  );
}
