-- When a memory was last changed beside its text or its status; null if it never was.
ALTER TABLE memories ADD COLUMN updated_at BIGINT;

-- Answers to requests that may come again, kept for a while. `status` is null while the request is worked on.
CREATE TABLE answers (
    key BYTEA NOT NULL PRIMARY KEY,
    request BYTEA NOT NULL,
    status BIGINT,
    body TEXT,
    at BIGINT NOT NULL
);
CREATE INDEX answers_by_age ON answers (at);

-- Who leads what. Whoever takes over raises the token, and what the one before still writes is refused.
CREATE TABLE leaders (
    scope BIGINT NOT NULL REFERENCES scopes (number),
    name TEXT NOT NULL,
    token BIGINT NOT NULL,
    PRIMARY KEY (scope, name)
);

-- Leases that are over are found without a look at those that are not.
CREATE INDEX tickets_by_expiry ON tickets (scope, lease_expires_at) WHERE state = 'leased';
-- Tickets that can be handed out, and the scopes that have any.
CREATE INDEX tickets_waiting ON tickets (scope, rollout) WHERE state = 'waiting';
