-- The durable state of one user: everything the workflow server knows, in one file.
--
-- How a run flows through the tables
--
-- A client asks for a run. One transaction stores what the run needs for its whole life: its
-- definition (`workflow_definitions`), the row itself (`runs`), where its code came from
-- (`run_sources`), whether it belongs to a conversation (`run_bindings`), its place with the
-- scheduler (`run_queue`) and the answer to the client (`host_commands`), so that a repeated
-- request finds the first answer instead of starting a second run. Bytes of any size (input,
-- outputs, errors, snapshots) live once in `blobs` under their SHA-256; other rows hold the key.
--
-- Every run is a *resource* (`resources`) with one revision counter. Whoever changes it holds its
-- *lease* (`leases`): an owner, the digest of a random token, an expiry and a generation that
-- only grows. Each accepted change raises the revision by one and leaves exactly one immutable
-- row in `events`, in the same transaction. The server itself is such an owner: its epoch stands
-- in `workflow_host_state`.
--
-- The scheduler admits the run: run and queue move together, a runner child is recorded
-- (`run_workers`) and each of its messages is answered once and for all (`worker_messages`). The
-- runner proposes, node by node: an attempt starts (`node_attempts`), its clock ticks while a
-- person's or a model's time counts (`attempt_active_intervals`), it reports progress
-- (`workflow_updates`), it ends, and becomes the next step (`run_steps`).
--
-- What reaches outside the database is an *effect* (`effects`): written in the transaction that
-- needs it, then tried under numbered attempts (`effect_attempts`). An attempt whose outcome a
-- crash has hidden is `ambiguous`, and stays so until evidence arrives.
--
-- A run that needs an answer writes a request (`interactive_requests`), waits without a process
-- and continues when a submission (`interactive_submissions`) is accepted. A protected question
-- to a person is a decision (`human_decisions`): many candidates (`human_decision_submissions`),
-- one winner, picked by the primary key of `human_decision_resolutions`. Channels carry questions
-- out and answers in (`channels`, `channel_cursors`, `channel_messages`).
--
-- What a conversation sees is ordered (`workflow_messages`, `workflow_turns`); what happened in
-- it is captured word for word (`session_segments`, `session_entries`, `session_events`,
-- `attempt_entries`). Settings of a mounted workflow change by numbered patches
-- (`workflow_settings`, `workflow_setting_changes`); prompts for afterwards wait in
-- `workflow_follow_ups`. Managed resources are reconciled towards their spec
-- (`controller_resources` and its finalizers, queue and child workflows). Viewers follow by
-- revision and patch (`viewer_runs`, `viewer_deltas`, `viewer_session_checkpoints`,
-- `run_view_content`).
--
-- The run ends in one transaction: terminal status, output, closed attempts, settled queue,
-- released lease. Much later, retention deletes the whole tree of runs.
--
-- How to read the columns
--
--   *_at           UTC instant, milliseconds since 1970-01-01
--   *_hash         SHA-256 that is the key of a row in `blobs`: bytes that are stored
--   *_digest, *_fingerprint, token_hash
--                  SHA-256 that is only compared; CHECK (length = 32) refuses hex text and cuts
--   CHECK (x > 0), CHECK (x >= 0)
--                  a counter that starts at one, at zero; refuses arithmetic gone wrong
--   CHECK (x IN ('a', 'b'))
--                  a closed set, equal to an enum of `pi_workflows.protocol.states`; refuses a
--                  word no reader knows
--   CHECK (x IN (0, 1))
--                  a truth value
--   ON DELETE CASCADE
--                  a part: it goes when its whole goes
--   no action      a mention: the mentioned row may not go first
--
-- The text of this file is the schema's identity: its SHA-256 stands in `schema_meta`. There are
-- no triggers and no views: what a transaction does stands in the command that runs it. Tables of
-- small rows that are found by a composite key are WITHOUT ROWID: one tree instead of two.


-- Part 1: identity and content.

-- Which schema this file holds. A file without this row is not ours.
CREATE TABLE schema_meta (
    -- One row: a file has one identity.
    id             INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    -- A database of another program is never taken for ours.
    schema_name    TEXT    NOT NULL CHECK (schema_name = 'pi-workflows-state'),
    -- A file of another schema version cannot be written through this DDL.
    schema_version INTEGER NOT NULL CHECK (schema_version = 1),
    schema_digest  BLOB    NOT NULL CHECK (length(schema_digest) = 32),
    app_version    TEXT    NOT NULL,
    created_at     INTEGER NOT NULL,
    updated_at     INTEGER NOT NULL
) STRICT;

-- A folder that runs belong to.
CREATE TABLE projects (
    project_id     TEXT    NOT NULL PRIMARY KEY,
    -- One project per folder: two ids would split its runs.
    canonical_path TEXT    NOT NULL UNIQUE,
    created_at     INTEGER NOT NULL
) STRICT;

-- Bytes, once, under their own digest.
CREATE TABLE blobs (
    blob_hash   BLOB    NOT NULL PRIMARY KEY CHECK (length(blob_hash) = 32),
    media_type  TEXT    NOT NULL,
    byte_length INTEGER NOT NULL CHECK (byte_length >= 0),
    content     BLOB    NOT NULL,
    created_at  INTEGER NOT NULL,
    -- A reader that sizes a buffer by byte_length can trust it.
    CONSTRAINT blobs_length_is_true CHECK (byte_length = length(content))
) STRICT;

-- Content that a view of one run advertises; deleted with the run, shared with nothing.
CREATE TABLE run_view_content (
    run_id       TEXT    NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE,
    content_hash BLOB    NOT NULL CHECK (length(content_hash) = 32),
    media_type   TEXT    NOT NULL CHECK (media_type IN ('application/json', 'text/plain')),
    byte_length  INTEGER NOT NULL CHECK (byte_length >= 0),
    content      BLOB    NOT NULL,
    created_at   INTEGER NOT NULL,
    -- The same content of a run is stored once per type.
    PRIMARY KEY (run_id, content_hash, media_type),
    -- A reader that sizes a buffer by byte_length can trust it.
    CONSTRAINT run_view_content_length_is_true CHECK (byte_length = length(content))
) STRICT;


-- Part 2: resources, ownership, audit.

-- Whatever has a revision. The counter is here, the meaning in the aggregate's own table.
CREATE TABLE resources (
    resource_id   TEXT    NOT NULL PRIMARY KEY,
    resource_type TEXT    NOT NULL CHECK (resource_type IN (
        'run', 'session', 'decision', 'controller', 'effect', 'channel', 'settings', 'follow_up',
        'workflow_message', 'maintenance'
    )),
    aggregate_key TEXT    NOT NULL,
    revision      INTEGER NOT NULL CHECK (revision >= 0),
    created_at    INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL,
    -- One counter per aggregate: two would let two writers both be current.
    UNIQUE (resource_type, aggregate_key)
) STRICT;

-- Who may change a resource, and until when. The generation fences everyone before.
CREATE TABLE leases (
    resource_id  TEXT    NOT NULL PRIMARY KEY
        REFERENCES resources (resource_id) ON DELETE CASCADE,
    generation   INTEGER NOT NULL CHECK (generation >= 0),
    owner_type   TEXT    CHECK (
        owner_type IN ('session', 'host', 'controller', 'channel', 'system')
    ),
    owner_id     TEXT,
    token_hash   BLOB    CHECK (length(token_hash) = 32),
    acquired_at  INTEGER,
    heartbeat_at INTEGER,
    expires_at   INTEGER,
    -- A lease is free or held; half a claim would authorise without expiry or without token.
    CONSTRAINT leases_free_or_held CHECK (
        (owner_type IS NULL) = (owner_id IS NULL)
        AND (owner_type IS NULL) = (token_hash IS NULL)
        AND (owner_type IS NULL) = (acquired_at IS NULL)
        AND (owner_type IS NULL) = (heartbeat_at IS NULL)
        AND (owner_type IS NULL) = (expires_at IS NULL)
    )
) STRICT, WITHOUT ROWID;

CREATE INDEX leases_expiry ON leases (expires_at);
CREATE INDEX leases_owner ON leases (owner_type, owner_id);

-- What was accepted, in order; written once, changed never, deleted only by retention.
CREATE TABLE events (
    -- AUTOINCREMENT: a number is not given out again after retention deleted its row.
    event_seq         INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    -- One event has one name in logs and views.
    event_id          TEXT    NOT NULL UNIQUE,
    resource_id       TEXT    NOT NULL REFERENCES resources (resource_id),
    resource_revision INTEGER NOT NULL CHECK (resource_revision > 0),
    event_type        TEXT    NOT NULL,
    actor_type        TEXT    NOT NULL CHECK (actor_type IN (
        'session', 'host', 'controller', 'channel', 'human', 'policy', 'control', 'system'
    )),
    actor_id          TEXT,
    lease_generation  INTEGER CHECK (lease_generation > 0),
    payload_hash      BLOB    REFERENCES blobs (blob_hash),
    recorded_at       INTEGER NOT NULL,
    -- One event per revision: two writers at the same revision cannot both commit.
    UNIQUE (resource_id, resource_revision)
) STRICT;


-- Part 3: the server and its clients.

-- The server's own claim on this file; `epoch` is its generation and never falls.
CREATE TABLE workflow_host_state (
    -- One row: one server at a time.
    id                     INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    epoch                  INTEGER NOT NULL CHECK (epoch >= 0),
    host_id                TEXT,
    token_hash             BLOB    CHECK (length(token_hash) = 32),
    pid                    INTEGER CHECK (pid > 0),
    process_start_identity TEXT,
    started_at             INTEGER,
    heartbeat_at           INTEGER,
    expires_at             INTEGER,
    -- The claim is free or held; half a claim could not be proven dead.
    CONSTRAINT workflow_host_state_free_or_held CHECK (
        (host_id IS NULL) = (token_hash IS NULL)
        AND (host_id IS NULL) = (pid IS NULL)
        AND (host_id IS NULL) = (process_start_identity IS NULL)
        AND (host_id IS NULL) = (started_at IS NULL)
        AND (host_id IS NULL) = (heartbeat_at IS NULL)
        AND (host_id IS NULL) = (expires_at IS NULL)
    )
) STRICT;

-- The answer to each durable client request, refusals included; a lost reply is found here.
CREATE TABLE host_commands (
    request_id          TEXT    NOT NULL PRIMARY KEY,
    client_id           TEXT    NOT NULL,
    -- Reads leave no receipt, so only operations that can change something are named.
    operation           TEXT    NOT NULL CHECK (operation IN (
        'run.start', 'run.pause', 'run.resume', 'run.cancel', 'run.restart', 'run.changeSettings',
        'checkpoint.answer', 'decision.answer',
        'interaction.submit', 'interaction.assistant', 'interaction.update',
        'sessionView.clearTerminal', 'followUp.queue', 'followUp.remove', 'session.record',
        'channel.reload', 'channel.recover', 'effect.resolve',
        'resourceManager.apply', 'resourceManager.reconcile', 'resourceManager.delete',
        'server.stop', 'state.backup', 'state.prune', 'lease.revoke'
    )),
    idempotency_key     TEXT    NOT NULL,
    request_fingerprint BLOB    NOT NULL CHECK (length(request_fingerprint) = 32),
    -- SET NULL: the receipt outlives the run, so a late repeat still adopts.
    run_id              TEXT    REFERENCES runs (run_id) ON DELETE SET NULL,
    accepted_revision   INTEGER CHECK (accepted_revision >= 0),
    outcome             TEXT    NOT NULL CHECK (outcome IN (
        'accepted', 'adopted', 'rejected', 'conflict', 'notFound', 'claimLost', 'unavailable'
    )),
    receipt_hash        BLOB    REFERENCES blobs (blob_hash),
    error_hash          BLOB    REFERENCES blobs (blob_hash),
    host_epoch          INTEGER NOT NULL CHECK (host_epoch > 0),
    created_at          INTEGER NOT NULL,
    completed_at        INTEGER NOT NULL,
    -- A retry with a new request id is still the same command, not a second one.
    UNIQUE (client_id, idempotency_key)
) STRICT;

CREATE INDEX host_commands_run ON host_commands (run_id) WHERE run_id IS NOT NULL;


-- Part 4: runner children.

-- One row per runner child, written before the child exists; exactly one outcome each.
CREATE TABLE run_workers (
    worker_epoch           TEXT    NOT NULL PRIMARY KEY,
    run_id                 TEXT    NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE,
    generation             INTEGER NOT NULL CHECK (generation > 0),
    host_epoch             INTEGER NOT NULL CHECK (host_epoch > 0),
    launch_envelope_hash   BLOB    NOT NULL REFERENCES blobs (blob_hash),
    pid                    INTEGER,
    process_start_identity TEXT,
    status                 TEXT    NOT NULL CHECK (status IN (
        'starting', 'ready', 'running', 'exited', 'cancelled', 'timedOut', 'crashed', 'claimLost',
        'orphaned'
    )),
    started_at             INTEGER NOT NULL,
    ready_at               INTEGER,
    finished_at            INTEGER,
    exit_code              INTEGER,
    signal                 TEXT,
    diagnostic_hash        BLOB    REFERENCES blobs (blob_hash),
    -- A pid without its start identity could name a stranger's process.
    CONSTRAINT run_workers_process_is_exact CHECK (
        (pid IS NULL) = (process_start_identity IS NULL)
    )
) STRICT;

-- Two live children of one run would execute it twice.
CREATE UNIQUE INDEX run_workers_one_live ON run_workers (run_id)
    WHERE status IN ('starting', 'ready', 'running');
CREATE INDEX run_workers_run ON run_workers (run_id);

-- The answer to each runner message; a repeated message is answered from here.
CREATE TABLE worker_messages (
    worker_epoch        TEXT    NOT NULL REFERENCES run_workers (worker_epoch) ON DELETE CASCADE,
    message_id          TEXT    NOT NULL,
    request_fingerprint BLOB    NOT NULL CHECK (length(request_fingerprint) = 32),
    outcome             TEXT    NOT NULL CHECK (
        outcome IN ('accepted', 'adopted', 'rejected', 'claimLost')
    ),
    accepted_revision   INTEGER CHECK (accepted_revision >= 0),
    result_hash         BLOB    REFERENCES blobs (blob_hash),
    error_hash          BLOB    REFERENCES blobs (blob_hash),
    completed_at        INTEGER NOT NULL,
    -- A message is applied at most once.
    PRIMARY KEY (worker_epoch, message_id)
) STRICT, WITHOUT ROWID;


-- Part 5: requests to a conversation.

-- What a waiting attempt asks for.
CREATE TABLE interactive_requests (
    request_id             TEXT    NOT NULL PRIMARY KEY,
    run_id                 TEXT    NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE,
    -- An attempt asks once; asking anew is a new attempt.
    attempt_id             TEXT    NOT NULL UNIQUE
        REFERENCES node_attempts (attempt_id) ON DELETE CASCADE,
    target_session_id      TEXT    NOT NULL,
    kind                   TEXT    NOT NULL CHECK (
        kind IN ('agent', 'assistant', 'checkpoint', 'decision')
    ),
    contract_hash          BLOB    NOT NULL REFERENCES blobs (blob_hash),
    revision               INTEGER NOT NULL CHECK (revision > 0),
    status                 TEXT    NOT NULL CHECK (status IN ('pending', 'settled', 'cancelled')),
    -- No foreign key: submissions point here, and verification checks this way back.
    accepted_submission_id TEXT,
    created_at             INTEGER NOT NULL,
    updated_at             INTEGER NOT NULL,
    settled_at             INTEGER,
    consumed_at            INTEGER,
    -- A settled request always names the answer that settled it.
    CONSTRAINT interactive_requests_settled_by_answer CHECK (
        (status = 'settled') = (accepted_submission_id IS NOT NULL AND settled_at IS NOT NULL)
    ),
    -- Only an answer can be consumed.
    CONSTRAINT interactive_requests_consumed_after_settled CHECK (
        consumed_at IS NULL OR status = 'settled'
    )
) STRICT;

-- A run waits for one answer at a time; two would race for its next step.
CREATE UNIQUE INDEX interactive_requests_one_pending ON interactive_requests (run_id)
    WHERE status = 'pending';
CREATE INDEX interactive_requests_run ON interactive_requests (run_id);

-- An answer on its way: stored first, validated by a runner, then accepted or rejected.
CREATE TABLE interactive_submissions (
    submission_id    TEXT    NOT NULL PRIMARY KEY,
    request_id       TEXT    NOT NULL
        REFERENCES interactive_requests (request_id) ON DELETE CASCADE,
    idempotency_key  TEXT    NOT NULL,
    request_revision INTEGER NOT NULL CHECK (request_revision > 0),
    payload_hash     BLOB    NOT NULL REFERENCES blobs (blob_hash),
    outcome          TEXT    NOT NULL CHECK (
        outcome IN ('validating', 'accepted', 'rejected', 'adopted')
    ),
    receipt_hash     BLOB    REFERENCES blobs (blob_hash),
    submitted_at     INTEGER NOT NULL,
    -- A resent answer finds the first one.
    UNIQUE (request_id, idempotency_key)
) STRICT;

-- Two answers under validation could both be accepted.
CREATE UNIQUE INDEX interactive_submissions_one_validating
    ON interactive_submissions (request_id) WHERE outcome = 'validating';


-- Part 6: runs.

-- A compiled graph, stored once, whatever number of runs use it.
CREATE TABLE workflow_definitions (
    definition_digest BLOB    NOT NULL PRIMARY KEY CHECK (length(definition_digest) = 32),
    workflow_name     TEXT    NOT NULL,
    definition_hash   BLOB    NOT NULL REFERENCES blobs (blob_hash),
    created_at        INTEGER NOT NULL
) STRICT;

-- One execution of a workflow. `status` moves as `store.machines.run` says, never otherwise.
CREATE TABLE runs (
    run_id                     TEXT    NOT NULL PRIMARY KEY,
    -- One counter per run.
    resource_id                TEXT    NOT NULL UNIQUE
        REFERENCES resources (resource_id) ON DELETE CASCADE,
    project_id                 TEXT    REFERENCES projects (project_id),
    parent_run_id              TEXT    REFERENCES runs (run_id),
    -- A root names itself, so a tree is one index range.
    root_run_id                TEXT    NOT NULL REFERENCES runs (run_id),
    lineage_kind               TEXT    CHECK (lineage_kind IN ('restart')),
    restart_number             INTEGER NOT NULL CHECK (restart_number >= 0),
    parent_run_revision        INTEGER CHECK (parent_run_revision >= 0),
    recovery_root_run_id       TEXT    REFERENCES runs (run_id),
    -- One automatic launch per terminal message.
    recovery_source_message_id TEXT    UNIQUE
        REFERENCES workflow_messages (workflow_message_id),
    definition_digest          BLOB    NOT NULL CHECK (length(definition_digest) = 32)
        REFERENCES workflow_definitions (definition_digest),
    workflow_ref               TEXT    NOT NULL,
    launch_options_hash        BLOB    NOT NULL REFERENCES blobs (blob_hash),
    title                      TEXT,
    status                     TEXT    NOT NULL CHECK (status IN (
        'queued', 'running', 'waiting', 'completed', 'failed', 'timed_out', 'cancelled'
    )),
    paused                     INTEGER NOT NULL CHECK (paused IN (0, 1)),
    status_detail              TEXT,
    input_hash                 BLOB    NOT NULL REFERENCES blobs (blob_hash),
    final_output_hash          BLOB    REFERENCES blobs (blob_hash),
    error_hash                 BLOB    REFERENCES blobs (blob_hash),
    presentation_prompt_hash   BLOB    REFERENCES blobs (blob_hash),
    created_at                 INTEGER NOT NULL,
    updated_at                 INTEGER NOT NULL,
    finished_at                INTEGER,
    -- An ended run has its end time, a waiting one has none.
    CONSTRAINT runs_terminal_is_finished CHECK (
        (status IN ('completed', 'failed', 'timed_out', 'cancelled')) = (finished_at IS NOT NULL)
    ),
    -- A restart names its parent, the kind of link and the parent's exact revision.
    CONSTRAINT runs_lineage_is_whole CHECK (
        (parent_run_id IS NULL) = (lineage_kind IS NULL)
        AND (parent_run_id IS NULL) = (parent_run_revision IS NULL)
    ),
    -- A run that restarts nothing is number zero.
    CONSTRAINT runs_root_is_number_zero CHECK (parent_run_id IS NOT NULL OR restart_number = 0),
    -- An automatic launch is counted against its chain; half a link would escape the limit.
    CONSTRAINT runs_recovery_is_whole CHECK (
        (recovery_root_run_id IS NULL) = (recovery_source_message_id IS NULL)
    ),
    -- An ended run cannot be paused: it would ask to be resumed.
    CONSTRAINT runs_terminal_is_not_paused CHECK (
        status NOT IN ('completed', 'failed', 'timed_out', 'cancelled') OR paused = 0
    )
) STRICT;

-- A run is restarted once; a second request adopts the first child.
CREATE UNIQUE INDEX runs_one_restart ON runs (parent_run_id) WHERE lineage_kind = 'restart';
CREATE INDEX runs_project ON runs (project_id, created_at);
CREATE INDEX runs_status ON runs (status, updated_at);
-- A page of the runs in one status, newest first, without sorting all of them.
CREATE INDEX runs_status_created ON runs (status, created_at, run_id);
CREATE INDEX runs_parent ON runs (parent_run_id);
CREATE INDEX runs_root ON runs (root_run_id);
CREATE INDEX runs_created ON runs (created_at, run_id);
CREATE INDEX runs_definition ON runs (definition_digest);
CREATE INDEX runs_recovery_root ON runs (recovery_root_run_id)
    WHERE recovery_root_run_id IS NOT NULL;

-- The exact code of a run, one row per mounted workflow; verified before any of it is imported.
CREATE TABLE run_sources (
    run_id          TEXT NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE,
    -- Empty for the root, else the mounts from the root down, joined by `/`.
    mount_path      TEXT NOT NULL,
    source_type     TEXT NOT NULL CHECK (source_type IN ('builtin', 'file')),
    source_ref      TEXT NOT NULL,
    source_revision TEXT NOT NULL,
    -- A mount has one source.
    PRIMARY KEY (run_id, mount_path)
) STRICT, WITHOUT ROWID;

-- The finished attempts of a run in order, from 0 without gaps.
CREATE TABLE run_steps (
    run_id         TEXT    NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE,
    step_index     INTEGER NOT NULL CHECK (step_index >= 0),
    attempt_id     TEXT    NOT NULL REFERENCES node_attempts (attempt_id),
    -- Steps so far of nodes that authors declared, this one among them: what bounds of steps
    -- count, since going into a mount and out of it is free.
    authored_count INTEGER NOT NULL CHECK (authored_count >= 0),
    -- Two writers cannot both append step n.
    PRIMARY KEY (run_id, step_index),
    -- An attempt is recorded once; a repeated finish cannot add a second step.
    UNIQUE (run_id, attempt_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX run_steps_attempt ON run_steps (attempt_id);

-- Which conversation a run belongs to; written with the run, never changed.
CREATE TABLE run_bindings (
    run_id            TEXT    NOT NULL PRIMARY KEY REFERENCES runs (run_id) ON DELETE CASCADE,
    origin_session_id TEXT,
    execution_mode    TEXT    NOT NULL CHECK (execution_mode IN ('interactive', 'headless')),
    created_at        INTEGER NOT NULL,
    -- A headless run has nobody to ask, an interactive one has exactly one conversation.
    CONSTRAINT run_bindings_headless_has_no_session CHECK (
        (execution_mode = 'headless') = (origin_session_id IS NULL)
    )
) STRICT;

-- Where a run stands with the scheduler.
CREATE TABLE run_queue (
    run_id             TEXT    NOT NULL PRIMARY KEY REFERENCES runs (run_id) ON DELETE CASCADE,
    status             TEXT    NOT NULL CHECK (status IN (
        'queued', 'starting', 'running', 'parked', 'done', 'failed', 'cancelled'
    )),
    available_at       INTEGER NOT NULL,
    -- Null exactly when the run is headless.
    origin_session_id  TEXT,
    consecutive_errors INTEGER NOT NULL CHECK (consecutive_errors >= 0),
    error_code         TEXT,
    error_hash         BLOB    REFERENCES blobs (blob_hash),
    created_at         INTEGER NOT NULL,
    updated_at         INTEGER NOT NULL,
    started_at         INTEGER,
    finished_at        INTEGER,
    -- A settled row has its end time, a live one has none.
    CONSTRAINT run_queue_settled_is_finished CHECK (
        (status IN ('done', 'failed', 'cancelled')) = (finished_at IS NOT NULL)
    )
) STRICT;

-- A conversation has one live run, waiting and paused ones included. Headless rows (null) are
-- free of it: nulls are distinct.
CREATE UNIQUE INDEX run_queue_one_live_per_session ON run_queue (origin_session_id)
    WHERE status NOT IN ('done', 'failed', 'cancelled');
CREATE INDEX run_queue_due ON run_queue (status, available_at);
-- The queue in its order without those that only a person lets go on, however many they are.
CREATE INDEX run_queue_admissible ON run_queue (available_at, created_at, run_id)
    WHERE status IN ('queued', 'parked')
      AND coalesce(error_code, '') NOT IN
          ('workflowSourceChanged', 'runnerNoProgress', 'effectAmbiguous',
           'settingsChainBroken');

-- One try of one node. `visit` counts entries into the node, `attempt_number` every try.
CREATE TABLE node_attempts (
    attempt_id             TEXT    NOT NULL PRIMARY KEY,
    run_id                 TEXT    NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE,
    -- The full compiled path: equal local names in two mounts stay apart.
    node_id                TEXT    NOT NULL,
    visit                  INTEGER NOT NULL CHECK (visit > 0),
    attempt_number         INTEGER NOT NULL CHECK (attempt_number > 0),
    node_type              TEXT    NOT NULL,
    status                 TEXT    NOT NULL CHECK (status IN (
        'pending', 'running', 'waiting', 'interrupted', 'completed', 'failed', 'timed_out',
        'cancelled'
    )),
    prompt_hash            BLOB    REFERENCES blobs (blob_hash),
    output_hash            BLOB    REFERENCES blobs (blob_hash),
    receipt_hash           BLOB    REFERENCES blobs (blob_hash),
    error_hash             BLOB    REFERENCES blobs (blob_hash),
    settings_scope_id      TEXT    REFERENCES workflow_settings (scope_id),
    settings_change_number INTEGER CHECK (settings_change_number >= 0),
    settings_hash          BLOB    REFERENCES blobs (blob_hash),
    -- Null: not configured; 0: unlimited; else the budget in milliseconds.
    timeout_ms             INTEGER CHECK (timeout_ms >= 0),
    started_at             INTEGER,
    finished_at            INTEGER,
    created_at             INTEGER NOT NULL,
    updated_at             INTEGER NOT NULL,
    -- An attempt ran with all of a settings state or with none.
    CONSTRAINT node_attempts_settings_are_whole CHECK (
        (settings_scope_id IS NULL) = (settings_change_number IS NULL)
        AND (settings_scope_id IS NULL) = (settings_hash IS NULL)
    ),
    -- An ended attempt has its end time; an interrupted one may still be adopted.
    CONSTRAINT node_attempts_terminal_is_finished CHECK (
        (status IN ('completed', 'failed', 'timed_out', 'cancelled')) = (finished_at IS NOT NULL)
    ),
    -- Tries of a node are numbered without doubles.
    UNIQUE (run_id, node_id, attempt_number)
) STRICT;

-- A run executes one node at a time.
CREATE UNIQUE INDEX node_attempts_one_active ON node_attempts (run_id)
    WHERE status IN ('pending', 'running', 'waiting');
-- The try that is not final, interrupted included, without reading those that are.
CREATE INDEX node_attempts_unfinished ON node_attempts (run_id) WHERE finished_at IS NULL;
CREATE INDEX node_attempts_visit ON node_attempts (run_id, node_id, visit);
CREATE INDEX node_attempts_settings ON node_attempts (settings_scope_id)
    WHERE settings_scope_id IS NOT NULL;

-- Stretches of time that count against an attempt's budget, sampled while they last.
CREATE TABLE attempt_active_intervals (
    attempt_id      TEXT    NOT NULL REFERENCES node_attempts (attempt_id) ON DELETE CASCADE,
    interval_number INTEGER NOT NULL CHECK (interval_number > 0),
    started_at      INTEGER NOT NULL,
    observed_at     INTEGER NOT NULL,
    ended_at        INTEGER,
    elapsed_ms      INTEGER NOT NULL CHECK (elapsed_ms >= 0),
    -- Intervals of an attempt are numbered without doubles.
    PRIMARY KEY (attempt_id, interval_number)
) STRICT, WITHOUT ROWID;

-- Two open clocks would count the same time twice.
CREATE UNIQUE INDEX attempt_active_intervals_one_open ON attempt_active_intervals (attempt_id)
    WHERE ended_at IS NULL;

-- Progress an attempt reports; append-only, the greatest sequence per (type, key) is current.
CREATE TABLE workflow_updates (
    update_id    TEXT    NOT NULL PRIMARY KEY,
    -- The attempt's run, so that the current update of a pair is one look-up. No foreign key: the
    -- row goes with its attempt.
    run_id       TEXT    NOT NULL,
    attempt_id   TEXT    NOT NULL REFERENCES node_attempts (attempt_id) ON DELETE CASCADE,
    update_seq   INTEGER NOT NULL CHECK (update_seq > 0),
    run_revision INTEGER NOT NULL CHECK (run_revision > 0),
    update_type  TEXT    NOT NULL,
    update_key   TEXT    NOT NULL,
    data_hash    BLOB    NOT NULL REFERENCES blobs (blob_hash),
    -- Whether none of its type and key is newer.
    is_current   INTEGER NOT NULL CHECK (is_current IN (0, 1)),
    recorded_at  INTEGER NOT NULL,
    -- Updates of an attempt have one order.
    UNIQUE (attempt_id, update_seq)
) STRICT;

-- One current update per pair of type and key; counting the pairs reads no history.
CREATE UNIQUE INDEX workflow_updates_current ON workflow_updates (run_id, update_type, update_key)
    WHERE is_current = 1;


-- Part 7: settings and follow-ups.

-- Live settings of one invocation of one mounted workflow.
CREATE TABLE workflow_settings (
    scope_id      TEXT    NOT NULL PRIMARY KEY,
    -- One counter per scope; its revision is the change number.
    resource_id   TEXT    NOT NULL UNIQUE
        REFERENCES resources (resource_id) ON DELETE CASCADE,
    origin_run_id TEXT    NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE,
    active_run_id TEXT    NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE,
    mount_path    TEXT    NOT NULL,
    invocation    INTEGER NOT NULL CHECK (invocation > 0),
    initial_hash  BLOB    NOT NULL REFERENCES blobs (blob_hash),
    current_hash  BLOB    NOT NULL REFERENCES blobs (blob_hash),
    created_at    INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL,
    -- A scope never moves to another run.
    CONSTRAINT workflow_settings_stay_with_run CHECK (active_run_id = origin_run_id),
    -- An invocation has one scope.
    UNIQUE (origin_run_id, mount_path, invocation)
) STRICT;

CREATE INDEX workflow_settings_active_run ON workflow_settings (active_run_id);

-- Every accepted patch, chained by hash from the initial settings to the current ones.
CREATE TABLE workflow_setting_changes (
    change_id     TEXT    NOT NULL PRIMARY KEY,
    scope_id      TEXT    NOT NULL REFERENCES workflow_settings (scope_id) ON DELETE CASCADE,
    request_id    TEXT    NOT NULL,
    change_number INTEGER NOT NULL CHECK (change_number > 0),
    actor_type    TEXT    NOT NULL CHECK (actor_type IN (
        'session', 'host', 'controller', 'channel', 'human', 'policy', 'control', 'system'
    )),
    actor_id      TEXT,
    source_type   TEXT    NOT NULL,
    patch_hash    BLOB    NOT NULL REFERENCES blobs (blob_hash),
    before_hash   BLOB    NOT NULL REFERENCES blobs (blob_hash),
    after_hash    BLOB    NOT NULL REFERENCES blobs (blob_hash),
    accepted_at   INTEGER NOT NULL,
    -- A repeated request finds its change instead of applying it again.
    UNIQUE (scope_id, request_id),
    -- Two patches cannot both be change n.
    UNIQUE (scope_id, change_number)
) STRICT;

-- Prompts to be sent to the conversation after the run has completed.
CREATE TABLE workflow_follow_ups (
    follow_up_id      TEXT    NOT NULL PRIMARY KEY,
    -- One counter per follow-up.
    resource_id       TEXT    NOT NULL UNIQUE
        REFERENCES resources (resource_id) ON DELETE CASCADE,
    run_id            TEXT    NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE,
    request_id        TEXT    NOT NULL,
    order_number      INTEGER NOT NULL CHECK (order_number > 0),
    -- Null exactly when the run is headless: then nobody is sent anything.
    target_session_id TEXT,
    actor_type        TEXT    NOT NULL CHECK (actor_type IN (
        'session', 'host', 'controller', 'channel', 'human', 'policy', 'control', 'system'
    )),
    actor_id          TEXT,
    source_type       TEXT    NOT NULL,
    prompt_hash       BLOB    NOT NULL REFERENCES blobs (blob_hash),
    status            TEXT    NOT NULL CHECK (status IN ('queued', 'removed', 'cancelled')),
    reason_hash       BLOB    REFERENCES blobs (blob_hash),
    created_at        INTEGER NOT NULL,
    updated_at        INTEGER NOT NULL,
    -- A repeated request finds its follow-up.
    UNIQUE (run_id, request_id),
    -- Follow-ups of a run have one order.
    UNIQUE (run_id, order_number),
    -- A prompt never disappears without a reason.
    CONSTRAINT workflow_follow_ups_end_has_reason CHECK (
        (status IN ('removed', 'cancelled')) = (reason_hash IS NOT NULL)
    )
) STRICT;

-- What the end of a run has to cancel, without reading what was removed.
CREATE INDEX workflow_follow_ups_queued ON workflow_follow_ups (run_id, order_number)
    WHERE status = 'queued';


-- Part 8: session capture.

-- One captured stretch of a conversation.
CREATE TABLE session_segments (
    segment_id   TEXT    NOT NULL PRIMARY KEY,
    run_id       TEXT    NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE,
    attempt_id   TEXT    REFERENCES node_attempts (attempt_id),
    capture_key  TEXT,
    session_id   TEXT    NOT NULL,
    -- One counter per segment.
    resource_id  TEXT    NOT NULL UNIQUE REFERENCES resources (resource_id),
    binding_hash BLOB    REFERENCES blobs (blob_hash),
    status       TEXT    NOT NULL CHECK (status IN ('recording', 'complete', 'failed')),
    entry_count  INTEGER NOT NULL CHECK (entry_count >= 0),
    event_count  INTEGER NOT NULL CHECK (event_count >= 0),
    failure_hash BLOB    REFERENCES blobs (blob_hash),
    created_at   INTEGER NOT NULL,
    finished_at  INTEGER
) STRICT;

CREATE INDEX session_segments_run ON session_segments (run_id);
CREATE INDEX session_segments_attempt ON session_segments (attempt_id)
    WHERE attempt_id IS NOT NULL;

-- Settled entries of a conversation, word for word, each stored once.
CREATE TABLE session_entries (
    segment_id  TEXT    NOT NULL REFERENCES session_segments (segment_id) ON DELETE CASCADE,
    run_id      TEXT    NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE,
    entry_seq   INTEGER NOT NULL CHECK (entry_seq > 0),
    run_seq     INTEGER NOT NULL CHECK (run_seq > 0),
    entry_id    TEXT    NOT NULL,
    entry_hash  BLOB    NOT NULL REFERENCES blobs (blob_hash),
    recorded_at INTEGER NOT NULL,
    -- Entries of a segment are numbered without doubles.
    PRIMARY KEY (segment_id, entry_seq),
    -- An entry is captured once per segment.
    UNIQUE (segment_id, entry_id),
    -- Entries of a run have one order over all segments.
    UNIQUE (run_id, run_seq)
) STRICT, WITHOUT ROWID;

-- Which captured entries belong to an attempt, and as what.
CREATE TABLE attempt_entries (
    attempt_id TEXT NOT NULL REFERENCES node_attempts (attempt_id) ON DELETE CASCADE,
    role       TEXT NOT NULL CHECK (role IN ('prompt', 'response', 'first', 'last')),
    segment_id TEXT NOT NULL,
    entry_id   TEXT NOT NULL,
    -- An attempt has one entry of each role.
    PRIMARY KEY (attempt_id, role),
    -- A link always leads to a captured entry.
    FOREIGN KEY (segment_id, entry_id)
        REFERENCES session_entries (segment_id, entry_id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE INDEX attempt_entries_entry ON attempt_entries (segment_id, entry_id);

-- What happened in a conversation between its entries.
CREATE TABLE session_events (
    segment_id   TEXT    NOT NULL REFERENCES session_segments (segment_id) ON DELETE CASCADE,
    run_id       TEXT    NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE,
    event_seq    INTEGER NOT NULL CHECK (event_seq > 0),
    run_seq      INTEGER NOT NULL CHECK (run_seq > 0),
    event_type   TEXT    NOT NULL,
    node_id      TEXT,
    -- No foreign key: a label as it was reported, not a link that must resolve.
    attempt_id   TEXT,
    turn_id      TEXT,
    message_id   TEXT,
    tool_call_id TEXT,
    payload_hash BLOB    NOT NULL REFERENCES blobs (blob_hash),
    recorded_at  INTEGER NOT NULL,
    -- Events of a segment are numbered without doubles.
    PRIMARY KEY (segment_id, event_seq),
    -- Events of a run have one order over all segments.
    UNIQUE (run_id, run_seq)
) STRICT, WITHOUT ROWID;


-- Part 9: human decisions.

-- A protected question; its content never changes, a change is a new question.
CREATE TABLE human_decisions (
    decision_id           TEXT    NOT NULL PRIMARY KEY,
    -- One counter per decision.
    resource_id           TEXT    NOT NULL UNIQUE REFERENCES resources (resource_id),
    run_id                TEXT    NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE,
    attempt_id            TEXT    NOT NULL REFERENCES node_attempts (attempt_id),
    audience              TEXT    NOT NULL,
    title                 TEXT    NOT NULL,
    subject_hash          BLOB    NOT NULL REFERENCES blobs (blob_hash),
    presentation_hash     BLOB    NOT NULL REFERENCES blobs (blob_hash),
    choices_hash          BLOB    NOT NULL REFERENCES blobs (blob_hash),
    -- An answer that names a request digest names one decision.
    request_digest        BLOB    NOT NULL UNIQUE CHECK (length(request_digest) = 32),
    presentation_revision INTEGER NOT NULL CHECK (presentation_revision > 0),
    deadline_at           INTEGER,
    default_response_hash BLOB    REFERENCES blobs (blob_hash),
    request_hash          BLOB    NOT NULL REFERENCES blobs (blob_hash),
    created_at            INTEGER NOT NULL,
    -- A default without a deadline would never apply.
    CONSTRAINT human_decisions_default_needs_deadline CHECK (
        default_response_hash IS NULL OR deadline_at IS NOT NULL
    )
) STRICT;

CREATE INDEX human_decisions_run ON human_decisions (run_id);
CREATE INDEX human_decisions_deadline ON human_decisions (deadline_at);
CREATE INDEX human_decisions_attempt ON human_decisions (attempt_id);

-- The one winner of a decision.
CREATE TABLE human_decision_resolutions (
    -- The primary key picks the winner: of all candidates, the first insert.
    decision_id       TEXT    NOT NULL PRIMARY KEY
        REFERENCES human_decisions (decision_id) ON DELETE CASCADE,
    outcome           TEXT    NOT NULL CHECK (outcome IN ('accepted', 'cancelled')),
    provenance        TEXT    NOT NULL CHECK (
        provenance IN ('human', 'timeout_policy', 'explicit_cancel', 'expired_no_default')
    ),
    response_hash     BLOB    REFERENCES blobs (blob_hash),
    reason            TEXT,
    channel           TEXT,
    actor_id          TEXT,
    external_event_id TEXT,
    idempotency_key   TEXT,
    request_digest    BLOB    NOT NULL CHECK (length(request_digest) = 32),
    -- A receipt's digest names one resolution.
    resolution_digest BLOB    NOT NULL UNIQUE CHECK (length(resolution_digest) = 32),
    resolved_at       INTEGER NOT NULL,
    -- An acceptance carries a response, a cancellation carries a reason, never both.
    CONSTRAINT human_decision_resolutions_outcome_is_whole CHECK (
        (
            outcome = 'accepted'
            AND provenance IN ('human', 'timeout_policy')
            AND response_hash IS NOT NULL
            AND reason IS NULL
        )
        OR (
            outcome = 'cancelled'
            AND provenance IN ('explicit_cancel', 'expired_no_default')
            AND response_hash IS NULL
            AND reason IS NOT NULL
        )
    )
) STRICT;

-- Every verified candidate, winners and losers.
CREATE TABLE human_decision_submissions (
    submission_id     TEXT    NOT NULL PRIMARY KEY,
    decision_id       TEXT    NOT NULL
        REFERENCES human_decisions (decision_id) ON DELETE CASCADE,
    source            TEXT    NOT NULL CHECK (
        source IN ('human', 'policy', 'control', 'channel')
    ),
    -- The digest the sender saw; an old one makes the candidate stale.
    request_digest    BLOB    NOT NULL CHECK (length(request_digest) = 32),
    -- The source's own name (`cli`, `pi`, `policy`, `control`) when there is no channel.
    channel           TEXT    NOT NULL,
    actor_id          TEXT,
    external_event_id TEXT,
    idempotency_key   TEXT    NOT NULL,
    response_hash     BLOB    REFERENCES blobs (blob_hash),
    result            TEXT    NOT NULL CHECK (
        result IN ('won', 'adopted', 'already_resolved', 'stale', 'rejected')
    ),
    winner_digest     BLOB    CHECK (length(winner_digest) = 32),
    submitted_at      INTEGER NOT NULL,
    -- A candidate delivered twice by its channel counts once.
    UNIQUE (channel, idempotency_key)
) STRICT;

CREATE INDEX human_decision_submissions_decision ON human_decision_submissions (decision_id);


-- Part 10: managed resources.

-- A thing outside that is kept as its spec says.
CREATE TABLE controller_resources (
    controller_resource_id TEXT    NOT NULL PRIMARY KEY,
    -- One counter per managed resource.
    resource_id            TEXT    NOT NULL UNIQUE
        REFERENCES resources (resource_id) ON DELETE CASCADE,
    project_id             TEXT    NOT NULL REFERENCES projects (project_id),
    controller_name        TEXT    NOT NULL,
    resource_key           TEXT    NOT NULL,
    -- A uid is never used again, not even for the same key.
    resource_uid           TEXT    NOT NULL UNIQUE,
    spec_generation        INTEGER NOT NULL CHECK (spec_generation > 0),
    spec_hash              BLOB    NOT NULL REFERENCES blobs (blob_hash),
    status_hash            BLOB    NOT NULL REFERENCES blobs (blob_hash),
    deletion_requested_at  INTEGER,
    created_at             INTEGER NOT NULL,
    updated_at             INTEGER NOT NULL,
    -- A key names one managed resource of a project.
    UNIQUE (project_id, controller_name, resource_key)
) STRICT;

-- What must still be cleaned up before a managed resource may go, in order.
CREATE TABLE controller_finalizers (
    controller_resource_id TEXT    NOT NULL
        REFERENCES controller_resources (controller_resource_id) ON DELETE CASCADE,
    finalizer              TEXT    NOT NULL,
    position               INTEGER NOT NULL CHECK (position >= 0),
    -- A finalizer stands once.
    PRIMARY KEY (controller_resource_id, finalizer),
    -- Finalizers have one order.
    UNIQUE (controller_resource_id, position)
) STRICT, WITHOUT ROWID;

-- Managed resources that want a pass. `queue_version` grows with each hint, so that one that
-- comes during a pass survives it.
CREATE TABLE controller_queue (
    controller_resource_id TEXT    NOT NULL PRIMARY KEY
        REFERENCES controller_resources (controller_resource_id) ON DELETE CASCADE,
    available_at           INTEGER NOT NULL,
    queue_version          INTEGER NOT NULL CHECK (queue_version > 0),
    consecutive_errors     INTEGER NOT NULL CHECK (consecutive_errors >= 0),
    last_error_hash        BLOB    REFERENCES blobs (blob_hash),
    created_at             INTEGER NOT NULL,
    updated_at             INTEGER NOT NULL
) STRICT;

CREATE INDEX controller_queue_due ON controller_queue (available_at);

-- Child runs that a managed resource asked for.
CREATE TABLE controller_workflows (
    request_id             TEXT    NOT NULL PRIMARY KEY,
    controller_resource_id TEXT    NOT NULL
        REFERENCES controller_resources (controller_resource_id) ON DELETE CASCADE,
    request_key            TEXT    NOT NULL,
    workflow_name          TEXT    NOT NULL,
    input_fingerprint      BLOB    NOT NULL CHECK (length(input_fingerprint) = 32),
    -- No foreign key: reserved before the run exists, so that a crash cannot start two.
    reserved_run_id        TEXT,
    run_id                 TEXT    REFERENCES runs (run_id),
    status                 TEXT    NOT NULL CHECK (status IN (
        'pending', 'running', 'waiting', 'succeeded', 'failed', 'interrupted'
    )),
    attempt_count          INTEGER NOT NULL CHECK (attempt_count >= 0),
    error_hash             BLOB    REFERENCES blobs (blob_hash),
    created_at             INTEGER NOT NULL,
    updated_at             INTEGER NOT NULL,
    -- A request key names one child.
    UNIQUE (controller_resource_id, request_key)
) STRICT;

CREATE INDEX controller_workflows_run ON controller_workflows (run_id)
    WHERE run_id IS NOT NULL;


-- Part 11: effects.

-- Work outside the transaction that wrote it. `ambiguous` is not an end: `settled_at` stays null
-- until evidence arrives.
CREATE TABLE effects (
    effect_id          TEXT    NOT NULL PRIMARY KEY,
    -- One counter per effect.
    resource_id        TEXT    NOT NULL UNIQUE REFERENCES resources (resource_id),
    source_resource_id TEXT    NOT NULL REFERENCES resources (resource_id),
    source_revision    INTEGER NOT NULL CHECK (source_revision > 0),
    effect_type        TEXT    NOT NULL,
    idempotency_key    TEXT    NOT NULL,
    payload_hash       BLOB    NOT NULL REFERENCES blobs (blob_hash),
    owner_scope        TEXT    NOT NULL CHECK (
        owner_scope IN ('run', 'controller', 'channel', 'system')
    ),
    status             TEXT    NOT NULL CHECK (status IN (
        'pending', 'applying', 'applied', 'rejected', 'ambiguous', 'cancelled'
    )),
    attempt_count      INTEGER NOT NULL CHECK (attempt_count >= 0),
    next_attempt_at    INTEGER,
    result_hash        BLOB    REFERENCES blobs (blob_hash),
    external_ref       TEXT,
    error_hash         BLOB    REFERENCES blobs (blob_hash),
    created_at         INTEGER NOT NULL,
    updated_at         INTEGER NOT NULL,
    settled_at         INTEGER,
    -- Only what is known to have happened or not to have happened is settled.
    CONSTRAINT effects_settled_is_known CHECK (
        (status IN ('applied', 'rejected', 'cancelled')) = (settled_at IS NOT NULL)
    ),
    -- The same need of the same source is one effect: a crash retry adopts it.
    UNIQUE (source_resource_id, effect_type, idempotency_key)
) STRICT;

CREATE INDEX effects_unsettled ON effects (status, next_attempt_at) WHERE settled_at IS NULL;
-- What a run still has open, without reading all that it ever settled.
CREATE INDEX effects_unsettled_source ON effects (source_resource_id) WHERE settled_at IS NULL;

-- Each try of an effect, numbered before it acts, with an honest outcome.
CREATE TABLE effect_attempts (
    effect_id        TEXT    NOT NULL REFERENCES effects (effect_id) ON DELETE CASCADE,
    attempt_number   INTEGER NOT NULL CHECK (attempt_number > 0),
    owner_id         TEXT    NOT NULL,
    lease_generation INTEGER NOT NULL CHECK (lease_generation > 0),
    started_at       INTEGER NOT NULL,
    finished_at      INTEGER,
    outcome          TEXT    CHECK (
        outcome IN ('applied', 'rejected', 'ambiguous', 'interrupted')
    ),
    result_hash      BLOB    REFERENCES blobs (blob_hash),
    error_hash       BLOB    REFERENCES blobs (blob_hash),
    -- Two workers cannot both be try n.
    PRIMARY KEY (effect_id, attempt_number),
    -- A closed try says how it ended.
    CONSTRAINT effect_attempts_end_has_outcome CHECK (
        (finished_at IS NULL) = (outcome IS NULL)
    )
) STRICT, WITHOUT ROWID;


-- Part 12: messages and turns.

-- What a conversation is to be shown, in the order of acceptance.
CREATE TABLE workflow_messages (
    workflow_message_id TEXT    NOT NULL PRIMARY KEY,
    -- One counter per message.
    resource_id         TEXT    NOT NULL UNIQUE
        REFERENCES resources (resource_id) ON DELETE CASCADE,
    run_id              TEXT    NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE,
    target_session_id   TEXT    NOT NULL,
    kind                TEXT    NOT NULL CHECK (
        kind IN ('step', 'decision', 'notification', 'terminal', 'followUp')
    ),
    source_id           TEXT    NOT NULL,
    content_hash        BLOB    NOT NULL REFERENCES blobs (blob_hash),
    order_number        INTEGER NOT NULL CHECK (order_number > 0),
    status              TEXT    NOT NULL CHECK (status IN ('pending', 'sent', 'cancelled')),
    pi_session_entry_id TEXT,
    recovery_stop       TEXT    CHECK (
        recovery_stop IN ('cancelled', 'interrupted', 'timed_out')
    ),
    created_at          INTEGER NOT NULL,
    updated_at          INTEGER NOT NULL,
    -- Messages of a conversation have one order.
    UNIQUE (target_session_id, order_number),
    -- `sent` is evidence: it names the entry that was found.
    CONSTRAINT workflow_messages_sent_has_entry CHECK (
        (status = 'sent') = (pi_session_entry_id IS NOT NULL)
    ),
    -- Only a terminal message can have started a recovery.
    CONSTRAINT workflow_messages_recovery_is_terminal CHECK (
        recovery_stop IS NULL OR kind = 'terminal'
    )
) STRICT;

-- A request has one pending step message; a second would prompt the model twice.
CREATE UNIQUE INDEX workflow_messages_one_pending_step ON workflow_messages (source_id)
    WHERE kind = 'step' AND status = 'pending';
CREATE INDEX workflow_messages_run ON workflow_messages (run_id, kind, source_id);

-- A model's turn that a message started, as its session reported it.
CREATE TABLE workflow_turns (
    workflow_turn_id          TEXT    NOT NULL PRIMARY KEY,
    workflow_message_id       TEXT    NOT NULL
        REFERENCES workflow_messages (workflow_message_id) ON DELETE CASCADE,
    run_id                    TEXT    NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE,
    target_session_id         TEXT    NOT NULL,
    state                     TEXT    NOT NULL CHECK (state IN ('started', 'ended')),
    stop_reason               TEXT    CHECK (
        stop_reason IN ('completed', 'aborted', 'error', 'lost')
    ),
    response_session_entry_id TEXT,
    active_elapsed_ms         INTEGER NOT NULL CHECK (active_elapsed_ms >= 0),
    started_at                INTEGER NOT NULL,
    ended_at                  INTEGER,
    -- An open turn has no end, an ended one has its reason and time.
    CONSTRAINT workflow_turns_end_is_whole CHECK (
        (state = 'started') = (stop_reason IS NULL)
        AND (state = 'started') = (ended_at IS NULL)
    )
) STRICT;

-- A message has one open turn; a second would count its time twice.
CREATE UNIQUE INDEX workflow_turns_one_open ON workflow_turns (workflow_message_id)
    WHERE state = 'started';
CREATE INDEX workflow_turns_message ON workflow_turns (workflow_message_id);
CREATE INDEX workflow_turns_run ON workflow_turns (run_id);


-- Part 13: channels.

-- A way to reach people outside the conversation.
CREATE TABLE channels (
    channel_id   TEXT    NOT NULL PRIMARY KEY,
    -- One counter per channel.
    resource_id  TEXT    NOT NULL UNIQUE REFERENCES resources (resource_id),
    adapter_type TEXT    NOT NULL,
    profile_key  TEXT    NOT NULL,
    created_at   INTEGER NOT NULL,
    -- One poller per profile.
    UNIQUE (adapter_type, profile_key)
) STRICT;

-- How far a channel has been read; saved with the answer it delivered.
CREATE TABLE channel_cursors (
    channel_id   TEXT    NOT NULL REFERENCES channels (channel_id) ON DELETE CASCADE,
    cursor_key   TEXT    NOT NULL,
    cursor_value TEXT    NOT NULL,
    updated_at   INTEGER NOT NULL,
    -- A cursor has one position.
    PRIMARY KEY (channel_id, cursor_key)
) STRICT, WITHOUT ROWID;

-- Immutable receipts of what a channel confirmed or refused; the effect carries the state.
CREATE TABLE channel_messages (
    message_id   TEXT    NOT NULL PRIMARY KEY,
    channel_id   TEXT    NOT NULL REFERENCES channels (channel_id) ON DELETE CASCADE,
    decision_id  TEXT    REFERENCES human_decisions (decision_id) ON DELETE CASCADE,
    effect_id    TEXT    NOT NULL REFERENCES effects (effect_id),
    purpose      TEXT    NOT NULL CHECK (purpose IN ('delivery', 'settlement')),
    content_hash BLOB    NOT NULL REFERENCES blobs (blob_hash),
    outcome      TEXT    NOT NULL CHECK (outcome IN ('confirmed', 'failed')),
    created_at   INTEGER NOT NULL
) STRICT;

CREATE INDEX channel_messages_channel ON channel_messages (channel_id);
CREATE INDEX channel_messages_decision ON channel_messages (decision_id)
    WHERE decision_id IS NOT NULL;
CREATE INDEX channel_messages_effect ON channel_messages (effect_id);


-- Part 14: viewers.

-- The presentation revision of a run, and the oldest one that patches still lead from.
CREATE TABLE viewer_runs (
    run_id                 TEXT    NOT NULL PRIMARY KEY
        REFERENCES runs (run_id) ON DELETE CASCADE,
    presentation_revision  INTEGER NOT NULL CHECK (presentation_revision > 0),
    -- A viewer is never promised patches from a revision that does not exist.
    retained_from_revision INTEGER NOT NULL
        CHECK (retained_from_revision BETWEEN 1 AND presentation_revision),
    updated_at             INTEGER NOT NULL
) STRICT;

-- The patches that lead from one presentation revision to the next.
CREATE TABLE viewer_deltas (
    run_id                TEXT    NOT NULL REFERENCES viewer_runs (run_id) ON DELETE CASCADE,
    presentation_revision INTEGER NOT NULL CHECK (presentation_revision > 0),
    delta_index           INTEGER NOT NULL CHECK (delta_index >= 0),
    target_type           TEXT    NOT NULL CHECK (target_type IN (
        'summary', 'graph', 'replay', 'timeline', 'conversation', 'inspector'
    )),
    target_key            TEXT    NOT NULL,
    patch_hash            BLOB    NOT NULL REFERENCES blobs (blob_hash),
    recorded_at           INTEGER NOT NULL,
    -- Patches of a revision have one order.
    PRIMARY KEY (run_id, presentation_revision, delta_index)
) STRICT, WITHOUT ROWID;

-- A view's state at every 256th session event, so that a page needs no replay from the start.
CREATE TABLE viewer_session_checkpoints (
    run_id      TEXT    NOT NULL REFERENCES viewer_runs (run_id) ON DELETE CASCADE,
    event_seq   INTEGER NOT NULL CHECK (event_seq > 0),
    state_hash  BLOB    NOT NULL REFERENCES blobs (blob_hash),
    recorded_at INTEGER NOT NULL,
    -- An event has one checkpoint.
    PRIMARY KEY (run_id, event_seq)
) STRICT, WITHOUT ROWID;
