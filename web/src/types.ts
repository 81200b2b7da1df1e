// What the server answers, as far as the pages read it. `/openapi.json` has all of it.

export interface Scope {
  user_id?: string;
  agent_id?: string;
  run_id?: string;
  app_id?: string;
}

export interface Page<T> {
  results: T[];
  next: string | null;
}

export interface Interval {
  low: number;
  high: number;
}

export interface Effect {
  pairs: number;
  mean: number;
  interval: Interval | null;
}

export interface HelpReport {
  verdict: string;
  retrievals: Effect | null;
  probes: Effect | null;
  harmed: number;
  abstained: number | null;
  control: Effect | null;
}

export interface UpliftPoint {
  at: string;
  effect: Effect;
}

export interface Ledger {
  lines: { purpose: string; executions: number; cost: number }[];
  executions: number;
  cost: number;
}

export interface Calibration {
  pairs: number;
  slope: number | null;
  optimism: number | null;
  bins: { predicted: number; observed: number; count: number }[];
}

export type MemoryStatus = "active" | "quarantined" | "superseded" | "expired";

export interface Memory extends Scope {
  id: string;
  memory: string;
  kind: string;
  status: MemoryStatus;
  tokens: number;
  metadata: Record<string, unknown>;
  provenance: Record<string, unknown>;
  quarantine_reason?: string;
  superseded_by?: string;
  created_at: string;
  expires_at?: string;
}

export interface MemoryVersion {
  id: string;
  memory: string;
  created_at: string;
  status: string;
}

export interface MemoryEffect {
  id: string;
  memory: string | null;
  status: MemoryStatus | null;
  executions: number;
  effect: number;
  interval: Interval | null;
}

export interface Retrieval {
  id: string;
  task_id: string | null;
  query: string;
  memories: string[];
  abstained: boolean;
  predicted_uplift: number;
  scorer: string;
  candidates: number;
  at: string;
}

export interface BeamStep {
  set: string[];
  value: number;
  parent: string[];
  added: string;
  gain: number;
}

export interface Explanation extends Retrieval {
  gains: number[] | null;
  steps: { scored: number; kept: BeamStep[]; runners_up: BeamStep[] }[] | null;
  timings: Record<string, number> | null;
  texts: Record<string, string>;
  outcome: { performance: number; cost: number; at: string; uplift: number | null } | null;
  trace: { end?: string; scored?: number };
}

export interface Ticket {
  rollout_id: string;
  task_id: string;
  memories: string[];
  purpose: string;
  executor: string;
  state: "waiting" | "leased" | "completed" | "failed";
  attempts: number;
  attempts_max: number;
  worker: string | null;
  lease_expires_at: string | null;
  last_error: string | null;
  enqueued_at: string;
}

export interface Batch {
  id: string;
  strategy: string;
  scorer: string;
  at: string;
  probes: { rollout_id: string; task_id: string; memories: string[]; marginal_value: number }[];
  decision: {
    pool?: number;
    comparisons?: number;
    batch_value?: number;
    residual_share?: number;
    picks?: { incumbent?: string[] }[];
  };
}

export interface Plan {
  batch_id: string | null;
  probes: number;
  references: number;
  batch_value: number;
  tasks: number;
}

export interface Task {
  id: string;
  name: string;
  context: string;
}

export interface ActiveVersion {
  version: number;
  labels: number;
  pinned: boolean;
}

export interface ScorerVersion {
  name: string;
  version: number;
  digest: string;
  metrics: Record<string, unknown>;
  at: string;
  servable: boolean;
  sequence: number;
}

export interface Training {
  active: ActiveVersion;
  learning: boolean;
  refits: number;
}

export interface ApiKey {
  id: string;
  name: string;
  permission: string;
  tenant: Scope;
  created_at: string;
  revoked_at: string | null;
}

export interface Settings {
  version: string;
  keys: boolean;
  caller: { id: string; permission: "read" | "write" | "admin"; tenant: Scope };
  default_scope: Scope | null;
  retrieval: Record<string, unknown>;
  acquisition: Record<string, unknown>;
  cost_max: number;
  agent: string;
  limits: Record<string, unknown>;
}
