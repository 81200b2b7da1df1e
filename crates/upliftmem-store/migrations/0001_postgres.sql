-- Words by memory: lexemes spelled `scope_word`, so that an index entry is one scope's.
ALTER TABLE memories ADD COLUMN lexemes TSVECTOR;
CREATE INDEX memories_by_word ON memories USING gin (lexemes) WITH (fastupdate = off);

-- What was executed and what was learned is never changed.
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION '% is append-only', TG_TABLE_NAME; END $$;
CREATE TRIGGER reports_are_kept BEFORE UPDATE OR DELETE ON reports
FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER journal_is_kept BEFORE UPDATE OR DELETE ON journal
FOR EACH ROW EXECUTE FUNCTION refuse_change();
