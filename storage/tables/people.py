"""Tables of workspaces, users and their credentials."""

from datetime import datetime

from sqlalchemy import Index

from storage.tables.base import Base, data, made_at, moment, of, words


class Workspaces(Base, table=True):
    """Tenants."""

    id: str = words(primary_key=True)
    name: str = words(unique=True)
    created_at: datetime = made_at()


class Users(Base, table=True):
    """People and services. The workspace is the one they were made in; names are its own."""

    id: str = words(primary_key=True)
    workspace_id: str = of("workspaces")
    name: str = words()
    disabled_at: datetime | None = moment(nullable=True)
    created_at: datetime = made_at()

    __table_args__ = (Index("uq_users_name", "workspace_id", "name", unique=True),)


class Memberships(Base, table=True):
    """Who belongs to which workspace, as what."""

    workspace_id: str = of("workspaces", primary_key=True)
    user_id: str = of("users", primary_key=True)
    role: str = words()
    created_at: datetime = made_at()


class ApiKeys(Base, table=True):
    """API keys; the secret is there as a hash only."""

    id: str = words(primary_key=True)
    workspace_id: str = of("workspaces")
    user_id: str = of("users")
    name: str = words()
    prefix: str = words(unique=True)
    secret_hash: str = words()
    permissions: list[str] = data()
    service: bool = False
    created_at: datetime = made_at()
    expires_at: datetime | None = moment(nullable=True)
    revoked_at: datetime | None = moment(nullable=True)
    last_used_at: datetime | None = moment(nullable=True)

    __table_args__ = (Index(None, "workspace_id", "user_id"),)


class WebSessions(Base, table=True):
    """Browser sessions, by the hash of their cookie."""

    hash: str = words(primary_key=True)
    workspace_id: str = of("workspaces")
    user_id: str = of("users")
    created_at: datetime = made_at()
    expires_at: datetime = moment()
    revoked_at: datetime | None = moment(nullable=True)

    __table_args__ = (Index(None, "user_id"),)


class LoginLinks(Base, table=True):
    """One-time links, by the hash of their token."""

    hash: str = words(primary_key=True)
    workspace_id: str = of("workspaces")
    user_id: str = of("users")
    created_at: datetime = made_at()
    expires_at: datetime = moment()
    used_at: datetime | None = moment(nullable=True)
