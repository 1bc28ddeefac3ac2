-- One file holds every run of a user. Six tables:
--
--   registry   that runs began, ended and were pruned; a hash chain of its own
--   run        one row a run: its head, and what queries ask for
--   event      what happened; never updated, dropped only with its whole run
--   lease      who drives a run, under which number
--   letter     what others want a driver to know
--   snapshot   the latest fold of a run, to save time
--
-- A run's number n is the registry's line at which it began. An event's key is n * 2^32 + seq: one run's events
-- lie side by side, in order, without an index.

CREATE TABLE registry (
    n    INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    run  TEXT NOT NULL,
    head BLOB NOT NULL,
    at   INTEGER NOT NULL,
    hash BLOB NOT NULL
);
CREATE INDEX registry_run ON registry (run);

CREATE TABLE run (
    n            INTEGER PRIMARY KEY,
    seq          INTEGER NOT NULL,
    head         BLOB NOT NULL,
    ended        INTEGER NOT NULL,
    run          TEXT NOT NULL UNIQUE,
    root         TEXT NOT NULL,
    parent       TEXT NOT NULL,
    repo         TEXT NOT NULL,
    machine      TEXT NOT NULL,
    task         TEXT NOT NULL,
    state        TEXT NOT NULL,
    status       TEXT NOT NULL,
    code         TEXT NOT NULL,
    "end"        TEXT NOT NULL,
    question     TEXT NOT NULL,
    agent        TEXT NOT NULL,
    actor        TEXT NOT NULL,
    turns        INTEGER NOT NULL,
    cost_uusd    INTEGER NOT NULL,
    tokens       INTEGER NOT NULL,
    failures     INTEGER NOT NULL,
    cto_attempts INTEGER NOT NULL,
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    entered_at   INTEGER NOT NULL,
    alert_at     INTEGER NOT NULL
);

-- Most indexes end in created_at, so that "newest first" needs no sorting.
CREATE INDEX run_created ON run (created_at);
CREATE INDEX run_repo ON run (repo, created_at);
CREATE INDEX run_repo_status ON run (repo, status, created_at);
CREATE INDEX run_status ON run (status, created_at);
CREATE INDEX run_state ON run (state, created_at);
CREATE INDEX run_repo_state ON run (repo, state, created_at);
CREATE INDEX run_machine ON run (machine, created_at);
CREATE INDEX run_machine_state ON run (machine, state, created_at);
CREATE INDEX run_root ON run (root, created_at);
CREATE INDEX run_parent ON run (parent, created_at);
CREATE INDEX run_question ON run (created_at) WHERE question <> '';
CREATE INDEX run_alert ON run (alert_at) WHERE alert_at > 0;
CREATE INDEX run_failures ON run (failures) WHERE failures > 0;

CREATE TABLE event (
    id   INTEGER PRIMARY KEY,
    at   INTEGER NOT NULL,
    kind TEXT NOT NULL,
    body BLOB NOT NULL,
    hash BLOB NOT NULL
);

CREATE TABLE lease (
    run    TEXT PRIMARY KEY,
    driver TEXT NOT NULL,
    fence  INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE letter (
    id    INTEGER PRIMARY KEY AUTOINCREMENT,
    run   TEXT NOT NULL,
    at    INTEGER NOT NULL,
    body  BLOB NOT NULL,
    taken INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX letter_run ON letter (run);
CREATE INDEX letter_waiting ON letter (run, id) WHERE taken = 0;

CREATE TABLE snapshot (
    n     INTEGER PRIMARY KEY,
    seq   INTEGER NOT NULL,
    rules TEXT NOT NULL,
    body  BLOB NOT NULL,
    hash  BLOB NOT NULL
);
