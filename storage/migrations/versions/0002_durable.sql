-- Fails where a run is not held under this claim, and keeps it from being taken over until the
-- calling transaction ends. Raises inside the database: a pipeline ends with its first error.
-- KEY SHARE stands beside the journal's updates of the row, and against a takeover's FOR UPDATE.
CREATE FUNCTION graphwright_hold_run(run TEXT, owner TEXT, claim INTEGER) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM runs WHERE id = run AND owner_id = owner AND attempt = claim FOR KEY SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'run % is not held under claim %', run, claim USING ERRCODE = 'GW001';
    END IF;
END
$$;

CREATE TABLE encryption_keys (
    id TEXT NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_encryption_keys PRIMARY KEY (id)
);

CREATE TABLE tool_journal (
    run_id TEXT NOT NULL,
    call_id TEXT NOT NULL,
    tool TEXT NOT NULL,
    starts INTEGER NOT NULL,
    mark TEXT NOT NULL,
    started_at TIMESTAMP WITH TIME ZONE NOT NULL,
    ended_at TIMESTAMP WITH TIME ZONE,
    type TEXT,
    blob BYTEA,
    CONSTRAINT pk_tool_journal PRIMARY KEY (run_id, call_id),
    CONSTRAINT fk_tool_journal_run_id FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE CASCADE
);
