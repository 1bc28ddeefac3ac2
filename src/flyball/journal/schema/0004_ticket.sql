-- Which task of the backlog a run is for: `flyball task show T1` asks for its runs. The first event says it.
ALTER TABLE run ADD COLUMN ticket TEXT NOT NULL DEFAULT '';
CREATE INDEX run_ticket ON run (ticket, created_at);
UPDATE run SET ticket = coalesce((
    SELECT json_extract(CAST(body AS TEXT), '$.options.ticket') FROM event
    WHERE event.id = (run.n << 32) + 1 AND json_valid(CAST(body AS TEXT))
), '');
