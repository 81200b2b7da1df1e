-- What a tenant may use, and what it has used. A tenant is spelled like the key of a scope: its parts in order, null where any
-- part will do. Whoever writes counts in the same transaction.
CREATE TABLE quotas (
    tenant TEXT NOT NULL PRIMARY KEY,
    memories_max BIGINT,
    executions_max BIGINT,
    requests_per_second DOUBLE PRECISION,
    memories BIGINT NOT NULL DEFAULT 0,
    executions BIGINT NOT NULL DEFAULT 0
);

-- A memory by its id alone, for callers that name no scope.
CREATE INDEX memories_anywhere ON memories (id);
