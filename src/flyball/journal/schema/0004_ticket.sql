-- Which task of the backlog a run is for: `flyball task show T1` asks for its runs.
ALTER TABLE run ADD COLUMN ticket TEXT NOT NULL DEFAULT '';
CREATE INDEX run_ticket ON run (ticket, created_at);
