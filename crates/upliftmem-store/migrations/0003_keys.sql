-- API keys: the one table that is read before a scope is known. The key itself is never stored, only its hash.

CREATE TABLE api_keys (
    id TEXT NOT NULL PRIMARY KEY,
    hash BYTEA NOT NULL UNIQUE,
    name TEXT NOT NULL,
    tenant TEXT NOT NULL,
    permission TEXT NOT NULL CHECK (permission IN ('read', 'write', 'admin')),
    created_at BIGINT NOT NULL,
    revoked_at BIGINT
);
