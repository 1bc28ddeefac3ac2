-- Events lie in the order in which they were written, so that a commit for many runs fills a few pages at the end
-- instead of changing some pages of every run. Their key, n * 2^32 + seq, is an index beside them.
CREATE TABLE arrived (
    id   INTEGER NOT NULL UNIQUE,
    at   INTEGER NOT NULL,
    kind TEXT NOT NULL,
    body BLOB NOT NULL,
    hash BLOB NOT NULL
);
INSERT INTO arrived SELECT id, at, kind, body, hash FROM event ORDER BY id;
DROP TABLE event;
ALTER TABLE arrived RENAME TO event;
CREATE INDEX event_finished ON event (at) WHERE kind = 'ActFinished';

-- A run's state changes with nearly every transition: one index serves all questions about it.
DROP INDEX run_state;
DROP INDEX run_repo_state;
DROP INDEX run_machine_state;
CREATE INDEX run_state ON run (state, machine, created_at);
