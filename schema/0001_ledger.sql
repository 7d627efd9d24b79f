-- One database holds one leg of one epoch. The rules that make it evidence are held by the database itself, so that no program,
-- this one included, can bend them by mistake: nothing is changed, nothing is removed, no number is skipped.

CREATE TABLE leg (
    id       INTEGER PRIMARY KEY CHECK (id = 1),
    run_id   TEXT NOT NULL,
    attempt  TEXT NOT NULL,
    platform TEXT NOT NULL,
    target   TEXT NOT NULL,
    shard    TEXT,
    epoch    TEXT NOT NULL,
    created  TEXT NOT NULL
) STRICT;

CREATE TRIGGER leg_is_not_changed BEFORE UPDATE ON leg
BEGIN SELECT RAISE(ABORT, 'a leg keeps its identity'); END;

CREATE TRIGGER leg_is_not_removed BEFORE DELETE ON leg
BEGIN SELECT RAISE(ABORT, 'a leg keeps its identity'); END;

-- `line` is the exact JSON text of the event: its SHA-256 is what the next event carries as `prev`.
-- `kind` repeats the line's kind, so that a reader can leave out what it does not need; `ledger verify` compares the two.
CREATE TABLE event (
    seq  INTEGER PRIMARY KEY CHECK (seq > 0),
    kind TEXT NOT NULL,
    line TEXT NOT NULL
) STRICT;

CREATE TRIGGER event_follows_the_last BEFORE INSERT ON event
WHEN NEW.seq IS NOT (SELECT coalesce(max(seq), 0) + 1 FROM event)
BEGIN SELECT RAISE(ABORT, 'events are numbered without gaps'); END;

CREATE TRIGGER event_is_not_changed BEFORE UPDATE ON event
BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;

CREATE TRIGGER event_is_not_removed BEFORE DELETE ON event
BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;
