-- A second wall beside the scope in every statement: a role that does not own the tables sees the rows of the scope that its
-- transaction has entered, and none before it has entered one. `*` is for what must look across scopes: which scope has a
-- memory, and where tickets wait.
CREATE POLICY one_scope ON memories USING (current_setting('upliftmem.scope', true) IN (scope::text, '*'));
CREATE POLICY one_scope ON deletions USING (current_setting('upliftmem.scope', true) IN (scope::text, '*'));
CREATE POLICY one_scope ON lexicon USING (current_setting('upliftmem.scope', true) IN (scope::text, '*'));
CREATE POLICY one_scope ON generations USING (current_setting('upliftmem.scope', true) IN (scope::text, '*'));
CREATE POLICY one_scope ON embeddings USING (current_setting('upliftmem.scope', true) IN (scope::text, '*'));
CREATE POLICY one_scope ON tasks USING (current_setting('upliftmem.scope', true) IN (scope::text, '*'));
CREATE POLICY one_scope ON tickets USING (current_setting('upliftmem.scope', true) IN (scope::text, '*'));
CREATE POLICY one_scope ON reports USING (current_setting('upliftmem.scope', true) IN (scope::text, '*'));
CREATE POLICY one_scope ON journal USING (current_setting('upliftmem.scope', true) IN (scope::text, '*'));
CREATE POLICY one_scope ON leaders USING (current_setting('upliftmem.scope', true) IN (scope::text, '*'));
ALTER TABLE memories ENABLE ROW LEVEL SECURITY;
ALTER TABLE deletions ENABLE ROW LEVEL SECURITY;
ALTER TABLE lexicon ENABLE ROW LEVEL SECURITY;
ALTER TABLE generations ENABLE ROW LEVEL SECURITY;
ALTER TABLE embeddings ENABLE ROW LEVEL SECURITY;
ALTER TABLE tasks ENABLE ROW LEVEL SECURITY;
ALTER TABLE tickets ENABLE ROW LEVEL SECURITY;
ALTER TABLE reports ENABLE ROW LEVEL SECURITY;
ALTER TABLE journal ENABLE ROW LEVEL SECURITY;
ALTER TABLE leaders ENABLE ROW LEVEL SECURITY;
