-- One row per client request. The columns are what requests are found by; the rest is in doc.
-- A request id begins with the time (UUID version 7), so its index is also the order of time.
CREATE TABLE exchanges (
    seq        INTEGER PRIMARY KEY,
    request_id BLOB    NOT NULL UNIQUE,    -- 16 bytes
    time       INTEGER NOT NULL,          -- ms since 1970: the request's head had been read
    tenant     TEXT    NOT NULL,
    task       TEXT,
    task_hash  INTEGER,                  -- of task: a small index for a thing of many values
    route      TEXT,
    target     TEXT,
    outcome    TEXT    NOT NULL,
    doc        TEXT    NOT NULL           -- the exchange as the admin plane shows it, JSON
) STRICT;

CREATE INDEX exchanges_by_task ON exchanges (task_hash) WHERE task_hash IS NOT NULL;

-- One row per money movement of an attempt. Never changed, never removed.
CREATE TABLE ledger (
    request_id      BLOB    NOT NULL,     -- 16 bytes
    attempt         INTEGER NOT NULL,     -- from 1
    kind            TEXT    NOT NULL,     -- adjust, expire, release, reserve or settle
    time            INTEGER NOT NULL,     -- ms since 1970: when it was entered
    tenant          TEXT    NOT NULL,
    key             TEXT,
    user            TEXT,
    task            TEXT,
    tags            TEXT,                 -- JSON object; NULL when there are none
    harness         TEXT,
    api             TEXT    NOT NULL,     -- the form of API: chat, embeddings, ...
    route           TEXT,
    target          TEXT    NOT NULL,     -- provider/model
    last            INTEGER NOT NULL,     -- 1 on a request's last attempt: so requests can be counted
    budgets         TEXT,                 -- JSON array of budget ids; NULL when there are none
    input           INTEGER,              -- NULL when no usage was reported or estimated
    cache_read      INTEGER,
    cache_write_5m  INTEGER,
    cache_write_1h  INTEGER,
    output          INTEGER,
    reasoning       INTEGER,
    audio_input     INTEGER,
    audio_output    INTEGER,
    images          INTEGER,
    cost_pico       INTEGER NOT NULL,     -- picodollars
    price_version   TEXT,
    estimated       INTEGER NOT NULL,
    PRIMARY KEY (request_id, attempt, kind)
) STRICT, WITHOUT ROWID;

CREATE INDEX ledger_by_time ON ledger (time);

CREATE TRIGGER ledger_is_never_changed BEFORE UPDATE ON ledger
BEGIN
    SELECT RAISE(ABORT, 'the ledger is append-only');
END;

CREATE TRIGGER ledger_is_never_shortened BEFORE DELETE ON ledger
BEGIN
    SELECT RAISE(ABORT, 'the ledger is append-only');
END;
