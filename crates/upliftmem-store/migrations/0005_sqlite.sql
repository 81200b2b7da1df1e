-- The scopes of a tenant, without a look at those of others.
CREATE INDEX scopes_by_user ON scopes ((key ->> 0), number) WHERE key ->> 0 IS NOT NULL;
CREATE INDEX scopes_by_agent ON scopes ((key ->> 1), number) WHERE key ->> 1 IS NOT NULL;
CREATE INDEX scopes_by_run ON scopes ((key ->> 2), number) WHERE key ->> 2 IS NOT NULL;
CREATE INDEX scopes_by_app ON scopes ((key ->> 3), number) WHERE key ->> 3 IS NOT NULL;
