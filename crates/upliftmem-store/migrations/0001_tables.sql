-- Tables of both databases. ROW_NUMBER is replaced by what numbers rows in each.

CREATE TABLE scopes (
    number ROW_NUMBER,
    key TEXT NOT NULL UNIQUE,
    version BIGINT NOT NULL DEFAULT 0,
    journal BIGINT NOT NULL DEFAULT 0,
    generation BIGINT,
    target BIGINT,
    memories BIGINT NOT NULL DEFAULT 0,
    words BIGINT NOT NULL DEFAULT 0
);

CREATE TABLE memories (
    number ROW_NUMBER,
    scope BIGINT NOT NULL REFERENCES scopes (number),
    id BYTEA NOT NULL,
    text TEXT NOT NULL,
    hash BYTEA NOT NULL,
    kind TEXT NOT NULL,
    tokens BIGINT NOT NULL,
    source_task BYTEA,
    metadata TEXT NOT NULL,
    provenance TEXT NOT NULL,
    extra TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('active', 'quarantined', 'superseded', 'expired')),
    quarantine_reason TEXT,
    created_at BIGINT NOT NULL,
    expires_at BIGINT,
    superseded_by BYTEA,
    change BIGINT NOT NULL,
    words BIGINT NOT NULL
);
CREATE UNIQUE INDEX memories_by_id ON memories (scope, id);
CREATE UNIQUE INDEX memories_by_hash ON memories (scope, hash) WHERE status IN ('active', 'quarantined');
CREATE INDEX memories_by_change ON memories (scope, change);
CREATE INDEX memories_by_expiry ON memories (scope, expires_at) WHERE status = 'active' AND expires_at IS NOT NULL;

CREATE TABLE deletions (
    scope BIGINT NOT NULL REFERENCES scopes (number),
    change BIGINT NOT NULL,
    memory BIGINT NOT NULL,
    PRIMARY KEY (scope, change, memory)
);

CREATE TABLE lexicon (
    scope BIGINT NOT NULL REFERENCES scopes (number),
    word TEXT NOT NULL,
    memories BIGINT NOT NULL,
    PRIMARY KEY (scope, word)
);

CREATE TABLE generations (
    scope BIGINT NOT NULL REFERENCES scopes (number),
    number BIGINT NOT NULL,
    name TEXT NOT NULL,
    dimension BIGINT NOT NULL,
    digest TEXT NOT NULL,
    PRIMARY KEY (scope, number),
    UNIQUE (scope, name, dimension, digest)
);

CREATE TABLE embeddings (
    scope BIGINT NOT NULL REFERENCES scopes (number),
    memory BIGINT NOT NULL REFERENCES memories (number) ON DELETE CASCADE,
    generation BIGINT NOT NULL,
    dimension BIGINT NOT NULL,
    vector VECTOR NOT NULL,
    PRIMARY KEY (scope, memory, generation)
);

CREATE TABLE tasks (
    scope BIGINT NOT NULL REFERENCES scopes (number),
    id BYTEA NOT NULL,
    name TEXT NOT NULL,
    context TEXT NOT NULL,
    metadata TEXT NOT NULL,
    extra TEXT NOT NULL,
    PRIMARY KEY (scope, id)
);

CREATE TABLE tickets (
    scope BIGINT NOT NULL REFERENCES scopes (number),
    rollout BYTEA NOT NULL,
    task BYTEA NOT NULL,
    members TEXT NOT NULL,
    purpose TEXT NOT NULL,
    executor TEXT NOT NULL,
    seed BIGINT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('waiting', 'leased', 'completed', 'failed')),
    attempts BIGINT NOT NULL,
    attempts_max BIGINT NOT NULL,
    worker TEXT,
    lease_expires_at BIGINT,
    last_error TEXT,
    enqueued_at BIGINT NOT NULL,
    PRIMARY KEY (scope, rollout)
);
CREATE INDEX tickets_by_state ON tickets (scope, state, rollout);

CREATE TABLE reports (
    scope BIGINT NOT NULL,
    rollout BYTEA NOT NULL,
    performance DOUBLE PRECISION NOT NULL,
    cost DOUBLE PRECISION NOT NULL,
    trajectory TEXT NOT NULL,
    diagnostics TEXT NOT NULL,
    attempt BIGINT NOT NULL,
    completed_at BIGINT NOT NULL,
    PRIMARY KEY (scope, rollout),
    FOREIGN KEY (scope, rollout) REFERENCES tickets (scope, rollout)
);

CREATE TABLE journal (
    scope BIGINT NOT NULL REFERENCES scopes (number),
    sequence BIGINT NOT NULL,
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    task BYTEA,
    at BIGINT NOT NULL,
    entry TEXT NOT NULL,
    PRIMARY KEY (scope, sequence),
    UNIQUE (scope, kind, key)
);
CREATE INDEX journal_by_kind ON journal (scope, kind, sequence);
CREATE INDEX journal_by_task ON journal (scope, task, sequence) WHERE task IS NOT NULL;
