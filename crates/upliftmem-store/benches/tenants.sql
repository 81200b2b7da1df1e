-- A hundred thousand tenants in one database: are a tenant's rows found without a look at those of others?
--
--   UPLIFTMEM_STORE_LOCATION=postgresql://.../tenants upliftmem doctor     -- makes the tables
--   psql postgresql://.../tenants -f crates/upliftmem-store/benches/tenants.sql
--
-- Twenty memories a tenant (two million), with words and vectors of 32 numbers but without the graph over vectors, which tenants of
-- this size never use; one key and one quota each; a hundred thousand tickets that wait in a hundred scopes. Then every look-up
-- that a request or a worker does, as the program says it, with its plan.
\set ON_ERROR_STOP on
\timing on
\set tenants 100000
\set memories 20

INSERT INTO scopes (key, version, generation, memories, words)
SELECT json_build_array('u' || n, NULL, NULL, 'app' || n % 100)::text, 1, 1, :memories, 8 * :memories
FROM generate_series(1, :tenants) n;

INSERT INTO memories (scope, id, text, hash, kind, tokens, metadata, provenance, extra, status, created_at, change, words, lexemes)
SELECT s.number, decode(lpad(to_hex(s.number), 16, '0') || lpad(to_hex(m), 16, '0'), 'hex'), 'note ' || m || ' of ' || s.number,
       sha256((s.number || ' ' || m)::bytea), 'note', 8, '{}', '{}', '{}', 'active', 1, 1, 8,
       (SELECT string_agg(format('''%s_w%s'':%s', s.number, (m * 7 + w * 13) % 50, w), ' ') FROM generate_series(1, 8) w)::tsvector
FROM scopes s, generate_series(1, :memories) m;

INSERT INTO generations (scope, number, name, dimension, digest) SELECT number, 1, 'bench', 32, 'd' FROM scopes;

INSERT INTO embeddings (scope, memory, generation, dimension, vector)
SELECT scope, number, 1, 32, (SELECT array_agg(sin(number * 0.37 + d * 1.7))::real[] FROM generate_series(1, 32) d)::vector
FROM memories;

INSERT INTO lexicon (scope, word, memories) SELECT s.number, 'w' || w, 3 FROM scopes s, generate_series(0, 49, 5) w;

INSERT INTO api_keys (id, hash, name, tenant, permission, created_at)
SELECT 'key_' || number, sha256(number::text::bytea), 'k', json_build_object('user_id', 'u' || number), 'write', 1 FROM scopes;

INSERT INTO quotas (tenant, memories_max, memories)
SELECT json_build_array('u' || n, NULL, NULL, NULL)::text, 1000, :memories FROM generate_series(1, :tenants) n;

INSERT INTO tickets (scope, rollout, task, members, purpose, executor, seed, state, attempts, attempts_max, enqueued_at)
SELECT n % 100 * 1000 + 1, decode(lpad(to_hex(n), 32, '0'), 'hex'), '\x00', '[]', 'probe', 'agent', 0, 'waiting', 0, 2, 1
FROM generate_series(1, 100000) n;

ANALYZE;

\echo sizes in MiB
SELECT relname, pg_table_size(oid) >> 20 AS rows, pg_indexes_size(oid) >> 20 AS indexes FROM pg_class
WHERE relname IN ('scopes', 'memories', 'embeddings', 'lexicon', 'api_keys', 'quotas', 'tickets') ORDER BY 1;

-- Each twice: the first may read from disk.
\set find 'EXPLAIN (ANALYZE, COSTS OFF, BUFFERS OFF) SELECT number, version FROM scopes WHERE key = ''["u70000", null, null, "app0"]'''
\echo == the scope of a request
:find;
:find;
\set key 'EXPLAIN (ANALYZE, COSTS OFF) SELECT id FROM api_keys WHERE hash = sha256(''70000''::bytea) AND revoked_at IS NULL'
\echo == the key of a request
:key;
:key;
\set quota 'EXPLAIN (ANALYZE, COSTS OFF) SELECT tenant FROM quotas WHERE tenant IN (''["u70000", null, null, null]'', ''[null, null, null, null]'', ''[null, null, null, "app0"]'', ''["u70000", null, null, "app0"]'') ORDER BY tenant'
\echo == the quotas of a write
:quota;
:quota;
\set vectors 'EXPLAIN (ANALYZE, COSTS OFF) SELECT m.id FROM embeddings e JOIN memories m ON m.number = e.memory WHERE e.scope = 70000 AND e.generation = 1 AND m.scope = 70000 AND m.status = ''active'' ORDER BY (e.vector <#> (SELECT vector FROM embeddings WHERE scope = 5 LIMIT 1)) + 0, m.id LIMIT 100'
\echo == recall by vectors, all of the scope
:vectors;
:vectors;
\set words 'EXPLAIN (ANALYZE, COSTS OFF) SELECT id FROM memories WHERE scope = 70000 AND lexemes @@ ''70000_w7 | 70000_w20''::tsquery'
\echo == recall by words
:words;
:words;
\set page 'EXPLAIN (ANALYZE, COSTS OFF) SELECT id FROM memories WHERE scope = 70000 ORDER BY id LIMIT 100'
\echo == a page of memories
:page;
:page;
\set anywhere 'EXPLAIN (ANALYZE, COSTS OFF) SELECT s.key FROM scopes s JOIN memories m ON m.scope = s.number WHERE m.id = (SELECT id FROM memories WHERE scope = 70000 LIMIT 1)'
\echo == the scope of a memory by its id alone
:anywhere;
:anywhere;
\set scopes 'EXPLAIN (ANALYZE, COSTS OFF) SELECT s.number, s.key FROM scopes s WHERE s.number > 0 AND (s.key::jsonb ->> 0) = ''u70000'' ORDER BY s.number LIMIT 101'
\echo == the scopes of a tenant
:scopes;
:scopes;
\set waiting 'EXPLAIN (ANALYZE, COSTS OFF) WITH RECURSIVE waiting (scope) AS (SELECT min(scope) FROM tickets WHERE state = ''waiting'' UNION ALL SELECT (SELECT min(t.scope) FROM tickets t WHERE t.state = ''waiting'' AND t.scope > waiting.scope) FROM waiting WHERE waiting.scope IS NOT NULL) SELECT s.key FROM scopes s JOIN (SELECT scope FROM waiting WHERE scope IS NOT NULL UNION SELECT scope FROM tickets WHERE state = ''leased'' AND lease_expires_at <= 1) t ON t.scope = s.number ORDER BY s.number LIMIT 64'
\echo == where tickets wait, for a worker
:waiting;
:waiting;
