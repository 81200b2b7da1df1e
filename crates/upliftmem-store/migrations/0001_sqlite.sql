-- Words by memory: posting lists of words spelled `scope_word`, so that a list is one scope's.
CREATE VIRTUAL TABLE memory_words USING fts5(
    words, content = '', contentless_delete = 1, tokenize = "ascii tokenchars '_'"
);
CREATE VIRTUAL TABLE memory_postings USING fts5vocab('memory_words', 'instance');

-- What was executed and what was learned is never changed.
CREATE TRIGGER reports_are_kept BEFORE UPDATE ON reports
BEGIN SELECT RAISE(ABORT, 'reports are append-only'); END;
CREATE TRIGGER reports_stay BEFORE DELETE ON reports
BEGIN SELECT RAISE(ABORT, 'reports are append-only'); END;
CREATE TRIGGER journal_is_kept BEFORE UPDATE ON journal
BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;
CREATE TRIGGER journal_stays BEFORE DELETE ON journal
BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;
