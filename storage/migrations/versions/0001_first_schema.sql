-- The first schema. Reviewed as it stands; a test compares it with storage/tables.py.

CREATE TABLE library_versions (
    library TEXT NOT NULL,
    version TEXT NOT NULL,
    detail TEXT NOT NULL,
    CONSTRAINT pk_library_versions PRIMARY KEY (library)
);

CREATE TABLE owners (
    id TEXT NOT NULL,
    kind TEXT NOT NULL,
    host TEXT NOT NULL,
    pid INTEGER NOT NULL,
    started_at TIMESTAMP WITH TIME ZONE NOT NULL,
    beat_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_owners PRIMARY KEY (id)
);

CREATE TABLE run_events (
    run_id TEXT NOT NULL,
    seq BIGINT NOT NULL,
    workspace_id TEXT NOT NULL,
    user_id TEXT NOT NULL,
    at TIMESTAMP WITH TIME ZONE NOT NULL,
    data JSONB NOT NULL,
    CONSTRAINT pk_run_events PRIMARY KEY (run_id, seq)
);

CREATE TABLE workspaces (
    id TEXT NOT NULL,
    name TEXT NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_workspaces PRIMARY KEY (id),
    CONSTRAINT uq_workspaces_name UNIQUE (name)
);

CREATE TABLE users (
    id TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    name TEXT NOT NULL,
    disabled_at TIMESTAMP WITH TIME ZONE,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_users PRIMARY KEY (id),
    CONSTRAINT fk_users_workspace_id FOREIGN KEY(workspace_id) REFERENCES workspaces (id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX uq_users_name ON users (workspace_id, name);

CREATE TABLE api_keys (
    id TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    user_id TEXT NOT NULL,
    name TEXT NOT NULL,
    prefix TEXT NOT NULL,
    secret_hash TEXT NOT NULL,
    permissions JSONB NOT NULL,
    service BOOLEAN NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    expires_at TIMESTAMP WITH TIME ZONE,
    revoked_at TIMESTAMP WITH TIME ZONE,
    last_used_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_api_keys PRIMARY KEY (id),
    CONSTRAINT fk_api_keys_workspace_id FOREIGN KEY(workspace_id) REFERENCES workspaces (id) ON DELETE CASCADE,
    CONSTRAINT fk_api_keys_user_id FOREIGN KEY(user_id) REFERENCES users (id) ON DELETE CASCADE,
    CONSTRAINT uq_api_keys_prefix UNIQUE (prefix)
);
CREATE INDEX ix_api_keys_workspace_id_user_id ON api_keys (workspace_id, user_id);

CREATE TABLE login_links (
    hash TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    user_id TEXT NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    expires_at TIMESTAMP WITH TIME ZONE NOT NULL,
    used_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_login_links PRIMARY KEY (hash),
    CONSTRAINT fk_login_links_workspace_id FOREIGN KEY(workspace_id) REFERENCES workspaces (id) ON DELETE CASCADE,
    CONSTRAINT fk_login_links_user_id FOREIGN KEY(user_id) REFERENCES users (id) ON DELETE CASCADE
);

CREATE TABLE memberships (
    workspace_id TEXT NOT NULL,
    user_id TEXT NOT NULL,
    role TEXT NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_memberships PRIMARY KEY (workspace_id, user_id),
    CONSTRAINT fk_memberships_workspace_id FOREIGN KEY(workspace_id) REFERENCES workspaces (id) ON DELETE CASCADE,
    CONSTRAINT fk_memberships_user_id FOREIGN KEY(user_id) REFERENCES users (id) ON DELETE CASCADE
);

CREATE TABLE preferences (
    workspace_id TEXT NOT NULL,
    user_id TEXT NOT NULL,
    data JSONB NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_preferences PRIMARY KEY (workspace_id, user_id),
    CONSTRAINT fk_preferences_workspace_id FOREIGN KEY(workspace_id) REFERENCES workspaces (id) ON DELETE CASCADE,
    CONSTRAINT fk_preferences_user_id FOREIGN KEY(user_id) REFERENCES users (id) ON DELETE CASCADE
);

CREATE TABLE projects (
    id TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    user_id TEXT NOT NULL,
    name TEXT,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_projects PRIMARY KEY (id),
    CONSTRAINT fk_projects_workspace_id FOREIGN KEY(workspace_id) REFERENCES workspaces (id) ON DELETE CASCADE,
    CONSTRAINT fk_projects_user_id FOREIGN KEY(user_id) REFERENCES users (id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX uq_projects_name ON projects (workspace_id, user_id, name);

CREATE TABLE request_keys (
    workspace_id TEXT NOT NULL,
    user_id TEXT NOT NULL,
    request_id TEXT NOT NULL,
    session_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_request_keys PRIMARY KEY (workspace_id, user_id, request_id),
    CONSTRAINT fk_request_keys_user_id FOREIGN KEY(user_id) REFERENCES users (id) ON DELETE CASCADE
);

CREATE TABLE usage_events (
    id TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    user_id TEXT NOT NULL,
    session_id TEXT,
    run_id TEXT,
    agent TEXT NOT NULL,
    model TEXT NOT NULL,
    purpose TEXT NOT NULL,
    input_tokens BIGINT DEFAULT 0 NOT NULL,
    output_tokens BIGINT DEFAULT 0 NOT NULL,
    cached_tokens BIGINT DEFAULT 0 NOT NULL,
    reasoning_tokens BIGINT DEFAULT 0 NOT NULL,
    usage_source TEXT NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_usage_events PRIMARY KEY (id),
    CONSTRAINT fk_usage_events_user_id FOREIGN KEY(user_id) REFERENCES users (id) ON DELETE CASCADE
);
CREATE INDEX ix_usage_events_run_id ON usage_events (run_id);
CREATE INDEX ix_usage_events_session_id ON usage_events (session_id);
CREATE INDEX ix_usage_events_workspace_id_user_id_created_at ON usage_events (workspace_id, user_id, created_at);

CREATE TABLE web_sessions (
    hash TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    user_id TEXT NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    expires_at TIMESTAMP WITH TIME ZONE NOT NULL,
    revoked_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_web_sessions PRIMARY KEY (hash),
    CONSTRAINT fk_web_sessions_workspace_id FOREIGN KEY(workspace_id) REFERENCES workspaces (id) ON DELETE CASCADE,
    CONSTRAINT fk_web_sessions_user_id FOREIGN KEY(user_id) REFERENCES users (id) ON DELETE CASCADE
);
CREATE INDEX ix_web_sessions_user_id ON web_sessions (user_id);

CREATE TABLE sessions (
    id TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    user_id TEXT NOT NULL,
    project_id TEXT NOT NULL,
    agent TEXT NOT NULL,
    title TEXT NOT NULL,
    title_source TEXT NOT NULL,
    mode TEXT NOT NULL,
    model TEXT,
    thinking TEXT,
    pinned_at TIMESTAMP WITH TIME ZONE,
    next_position BIGINT DEFAULT 0 NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_sessions PRIMARY KEY (id),
    CONSTRAINT fk_sessions_workspace_id FOREIGN KEY(workspace_id) REFERENCES workspaces (id) ON DELETE CASCADE,
    CONSTRAINT fk_sessions_user_id FOREIGN KEY(user_id) REFERENCES users (id) ON DELETE CASCADE,
    CONSTRAINT fk_sessions_project_id FOREIGN KEY(project_id) REFERENCES projects (id)
);
CREATE INDEX ix_sessions_list ON sessions (workspace_id, user_id, (pinned_at IS NOT NULL) DESC, updated_at DESC, id DESC);
CREATE INDEX ix_sessions_project_id ON sessions (project_id);

CREATE TABLE archives (
    id TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    user_id TEXT NOT NULL,
    session_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    path TEXT NOT NULL,
    summary TEXT NOT NULL,
    messages INTEGER NOT NULL,
    tokens_before BIGINT NOT NULL,
    tokens_after BIGINT NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_archives PRIMARY KEY (id),
    CONSTRAINT fk_archives_session_id FOREIGN KEY(session_id) REFERENCES sessions (id) ON DELETE CASCADE
);
CREATE INDEX ix_archives_session_id ON archives (session_id);

CREATE TABLE interrupts (
    id TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    user_id TEXT NOT NULL,
    session_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    token TEXT NOT NULL,
    kind TEXT NOT NULL,
    card JSONB NOT NULL,
    graph_interrupt_id TEXT NOT NULL,
    checkpoint_id TEXT NOT NULL,
    status TEXT NOT NULL,
    decisions JSONB,
    resolved_by TEXT,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    resolved_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_interrupts PRIMARY KEY (id),
    CONSTRAINT fk_interrupts_session_id FOREIGN KEY(session_id) REFERENCES sessions (id) ON DELETE CASCADE,
    CONSTRAINT uq_interrupts_token UNIQUE (token)
);
CREATE INDEX ix_interrupts_run_id ON interrupts (run_id);
CREATE UNIQUE INDEX uq_interrupts_pending ON interrupts (session_id) WHERE status = 'pending';

CREATE TABLE messages (
    id TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    user_id TEXT NOT NULL,
    session_id TEXT NOT NULL,
    run_id TEXT,
    position BIGINT NOT NULL,
    role TEXT NOT NULL,
    parts JSONB NOT NULL,
    text TEXT NOT NULL,
    status TEXT NOT NULL,
    feedback TEXT,
    feedback_note TEXT,
    parent_id TEXT,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_messages PRIMARY KEY (id),
    CONSTRAINT fk_messages_session_id FOREIGN KEY(session_id) REFERENCES sessions (id) ON DELETE CASCADE
);
CREATE INDEX ix_messages_run_id ON messages (run_id);
CREATE UNIQUE INDEX uq_messages_position ON messages (session_id, position);

CREATE TABLE runs (
    id TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    user_id TEXT NOT NULL,
    session_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    status TEXT NOT NULL,
    agent TEXT NOT NULL,
    model TEXT NOT NULL,
    mode TEXT NOT NULL,
    trace_id TEXT NOT NULL,
    attempt INTEGER DEFAULT 0 NOT NULL,
    takeovers INTEGER DEFAULT 0 NOT NULL,
    owner_id TEXT,
    last_seq BIGINT DEFAULT 0 NOT NULL,
    input JSONB NOT NULL,
    on_disconnect TEXT NOT NULL,
    cancel_requested BOOLEAN DEFAULT false NOT NULL,
    error_code TEXT,
    error_message TEXT,
    usage JSONB DEFAULT '{}' NOT NULL,
    context_tokens BIGINT DEFAULT 0 NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    started_at TIMESTAMP WITH TIME ZONE,
    finished_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_runs PRIMARY KEY (id),
    CONSTRAINT fk_runs_user_id FOREIGN KEY(user_id) REFERENCES users (id) ON DELETE CASCADE,
    CONSTRAINT fk_runs_session_id FOREIGN KEY(session_id) REFERENCES sessions (id) ON DELETE CASCADE
);
CREATE INDEX ix_runs_going ON runs (status, workspace_id, user_id, created_at) WHERE status IN ('queued', 'running');
CREATE INDEX ix_runs_session ON runs (session_id, created_at DESC, id DESC);
CREATE UNIQUE INDEX uq_runs_active_session ON runs (session_id) WHERE status IN ('queued', 'running', 'waiting_input');

CREATE TABLE tool_grants (
    id TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    user_id TEXT NOT NULL,
    session_id TEXT,
    tool TEXT NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_tool_grants PRIMARY KEY (id),
    CONSTRAINT fk_tool_grants_workspace_id FOREIGN KEY(workspace_id) REFERENCES workspaces (id) ON DELETE CASCADE,
    CONSTRAINT fk_tool_grants_user_id FOREIGN KEY(user_id) REFERENCES users (id) ON DELETE CASCADE,
    CONSTRAINT fk_tool_grants_session_id FOREIGN KEY(session_id) REFERENCES sessions (id) ON DELETE CASCADE
);
CREATE INDEX ix_tool_grants_session_id ON tool_grants (session_id);
CREATE UNIQUE INDEX uq_tool_grants ON tool_grants (workspace_id, user_id, session_id, tool) NULLS NOT DISTINCT;

CREATE TABLE tool_results (
    message_id TEXT NOT NULL,
    tool_call_id TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    user_id TEXT NOT NULL,
    session_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    tool TEXT NOT NULL,
    status TEXT NOT NULL,
    content TEXT NOT NULL,
    error TEXT,
    duration_ms BIGINT NOT NULL,
    meta JSONB DEFAULT '{}' NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_tool_results PRIMARY KEY (message_id, tool_call_id),
    CONSTRAINT fk_tool_results_session_id FOREIGN KEY(session_id) REFERENCES sessions (id) ON DELETE CASCADE
);
CREATE INDEX ix_tool_results_session_id ON tool_results (session_id);
