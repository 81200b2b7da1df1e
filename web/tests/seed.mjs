// A store with a little of everything, by the same calls that an agent makes.

/** What stands in texts that must never become markup. */
export const HOSTILE = `<img src=x onerror="window.broken=1"><script>window.broken=1</script> <b>always</b> answer in HTML & "quotes"`;

const MEMORIES = [
  "Deploys to staging need the flag --region eu-central, or the job waits forever.",
  "When a migration is blocked, look for a long transaction before anything else.",
  "The search index is rebuilt at night; a stale result before 6:00 is expected.",
  "Invoices are rounded per line, not in the sum; the old test data rounds the sum.",
  "Retry a flaky upload three times with a growing pause, then give up loudly.",
  "Always clear the whole cache first, whatever the problem is.",
  "The customer in ticket 4711 wanted a refund; give refunds early.",
  "Log lines with code E42 are harmless noise from the load balancer.",
  "Use the read replica for reports: the primary is slow after noon.",
  "If unsure, restart every service of the cluster at once.",
];
const TASKS = [
  ["deploy the billing service to staging", 0],
  ["a migration of the orders table is blocked", 1],
  ["a customer sees a stale search result this morning", 2],
  ["the sum of an invoice is off by one cent", 3],
  ["the nightly upload of photos fails now and then", 4],
  ["monthly reports run slowly in the afternoon", 8],
  ["alerts with code E42 fill the log", 7],
];
/** Memories that make every task worse. */
const HARMFUL = new Set([5, 6, 9]);

/** Numbers from 0 to 1 that are the same every time. */
function numbers(seed) {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

export function caller(url, key) {
  return async (method, path, body) => {
    const headers = { "content-type": "application/json", ...(key ? { authorization: `Bearer ${key}` } : {}) };
    const answer = await fetch(url + path, { method, headers, body: body && JSON.stringify(body) });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
    return JSON.parse(text);
  };
}

/** Fills the scope of an agent; returns the ids of its memories. */
export async function seed(url, { key, rounds = 12, scope = { agent_id: "default" } } = {}) {
  const call = caller(url, key);
  const query = new URLSearchParams(scope);
  const random = numbers(7);
  const added = await call("POST", "/v1/memories/batch", { ...scope, memories: [...MEMORIES, HOSTILE].map((text) => ({ text, metadata: { source: "handbook" } })) });
  const ids = added.results.map((result) => result.id);
  const place = new Map(ids.map((id, index) => [id, index]));
  const perform = (fitting, memories) => {
    let chance = 0.45;
    for (const id of memories) {
      const index = place.get(id);
      if (index === fitting) chance += 0.4;
      else if (HARMFUL.has(index)) chance -= 0.3;
    }
    return random() < chance ? 1 : 0;
  };
  const fitting = new Map();
  const work = async (most = Infinity) => {
    for (let done = 0; done < most; done += 1) {
      const { ticket } = await call("GET", `/v1/probes/next?${query}&worker=seed`);
      if (!ticket) return;
      const performance = perform(fitting.get(ticket.task.name), ticket.memories.map((memory) => memory.id));
      await call("POST", "/v1/outcomes", { ...scope, rollout_id: ticket.rollout_id, attempt: ticket.attempt, performance, cost: 5 + Math.round(random() * 10) });
    }
  };
  for (let round = 0; round < rounds; round += 1) {
    for (const [context, index] of TASKS) {
      const task = `${context} (${round})`;
      fitting.set(task, index);
      const found = await call("POST", "/v1/memories/search", { ...scope, query: `${context}, case ${round}`, task });
      const performance = perform(index, found.results.map((result) => result.id));
      await call("POST", "/v1/outcomes", { ...scope, retrieval_id: found.retrieval_id, performance, cost: 5 + Math.round(random() * 10) });
    }
    await work();
    await call("POST", "/v1/training/refit", scope);
    if (round === 2 || round === rounds - 2) {
      await call("POST", "/v1/probes/plan", { ...scope, budget: 24 });
      await work();
    }
  }
  // Some probes wait, so that the queue is not empty.
  await call("POST", "/v1/probes/plan", { ...scope, budget: 8 });
  await work(2);
  return ids;
}

// `node tests/seed.mjs http://127.0.0.1:7077` fills a server that runs.
if (process.argv[1] === new URL(import.meta.url).pathname) {
  await seed(process.argv[2] ?? "http://127.0.0.1:7077");
}
