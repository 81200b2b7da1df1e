-- The scopes of a tenant, without a look at those of others.
CREATE INDEX scopes_by_user ON scopes ((key::jsonb ->> 0), number) WHERE key::jsonb ->> 0 IS NOT NULL;
CREATE INDEX scopes_by_agent ON scopes ((key::jsonb ->> 1), number) WHERE key::jsonb ->> 1 IS NOT NULL;
CREATE INDEX scopes_by_run ON scopes ((key::jsonb ->> 2), number) WHERE key::jsonb ->> 2 IS NOT NULL;
CREATE INDEX scopes_by_app ON scopes ((key::jsonb ->> 3), number) WHERE key::jsonb ->> 3 IS NOT NULL;
