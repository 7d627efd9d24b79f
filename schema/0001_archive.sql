-- An archive holds many legs, gathered by `ledger import`. What was gathered is kept as it came; what is derived from it stands apart
-- and can be made again from the rest (`ledger verify` does, and compares).

-- One epoch of one leg. `epoch` and `shard` are empty where there are none.
CREATE TABLE epoch (
    id       INTEGER PRIMARY KEY CHECK (id < 2147483648),
    run_id   TEXT NOT NULL,
    attempt  TEXT NOT NULL,
    platform TEXT NOT NULL,
    target   TEXT NOT NULL,
    shard    TEXT NOT NULL,
    epoch    TEXT NOT NULL,
    UNIQUE (run_id, attempt, platform, target, shard, epoch)
) STRICT;

-- Events of ledgers and sinks: the exact lines. `place` is the epoch's id times 2^32 plus the number of the event, so that the events
-- of one epoch lie together.
CREATE TABLE event (
    place INTEGER PRIMARY KEY,
    line  TEXT NOT NULL
) STRICT;

CREATE TRIGGER event_is_not_changed BEFORE UPDATE ON event
BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;

-- What came without events: ci-data, JUnit, timing files, markers. One JSON row per epoch, the one that reaches furthest.
CREATE TABLE row (
    epoch INTEGER PRIMARY KEY REFERENCES epoch (id),
    json  TEXT NOT NULL
) STRICT;

-- Derived: the row that the events of an epoch fold to, up to and with event `upto`.
CREATE TABLE summary (
    epoch INTEGER PRIMARY KEY REFERENCES epoch (id),
    upto  INTEGER NOT NULL,
    json  TEXT NOT NULL
) STRICT;
