"""The tables. Private to this room: other rooms see `core.records` and the repositories.

Ids are UUIDs as text (`core.ids`). Every table that holds user data carries workspace and user.
The library tables (checkpoints, procrastinate) are not here: see `storage/library_schema.py`.
"""

from sqlalchemy import Table

from storage.tables import chats, people
from storage.tables import runs as run_tables
from storage.tables.base import Base, metadata

__all__ = [
    "api_keys",
    "archives",
    "encryption_keys",
    "interrupts",
    "login_links",
    "memberships",
    "messages",
    "metadata",
    "owners",
    "preferences",
    "projects",
    "request_keys",
    "run_events",
    "runs",
    "sessions",
    "tool_grants",
    "tool_results",
    "usage_events",
    "users",
    "web_sessions",
    "workspaces",
]


def _table(model: type[Base]) -> Table:
    return metadata.tables[str(model.__tablename__)]


workspaces = _table(people.Workspaces)
users = _table(people.Users)
memberships = _table(people.Memberships)
api_keys = _table(people.ApiKeys)
web_sessions = _table(people.WebSessions)
login_links = _table(people.LoginLinks)
projects = _table(chats.Projects)
sessions = _table(chats.Sessions)
runs = _table(run_tables.Runs)
request_keys = _table(run_tables.RequestKeys)
messages = _table(chats.Messages)
tool_results = _table(chats.ToolResults)
run_events = _table(run_tables.RunEvents)
interrupts = _table(run_tables.Interrupts)
usage_events = _table(run_tables.UsageEvents)
archives = _table(chats.Archives)
preferences = _table(chats.Preferences)
tool_grants = _table(chats.ToolGrants)
owners = _table(run_tables.Owners)
encryption_keys = _table(run_tables.EncryptionKeys)
