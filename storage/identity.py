"""Rows of workspaces, users and their credentials. Secrets are here as hashes only."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from sqlalchemy import RowMapping, Select, literal, select, update
from sqlalchemy.dialects.postgresql import insert

from core.errors import NotFound
from core.ids import new_id
from core.principal import Principal
from core.records import KeyRecord, UserRecord
from storage.repository import Repository, scope, to_record, to_row
from storage.tables import api_keys, login_links, memberships, users, web_sessions, workspaces

DEFAULT_WORKSPACE: Final = "default"

_USER: Final = select(users, memberships.c.role).join(
    memberships,
    (memberships.c.user_id == users.c.id) & (memberships.c.workspace_id == users.c.workspace_id),
)
_KEY: Final = select(api_keys, users.c.name.label("user_name")).join(
    users, users.c.id == api_keys.c.user_id
)


class Identities(Repository):
    """`work.identity`."""

    # Workspaces and users -----------------------------------------------------------------

    async def ensure_default_workspace(self) -> str:
        """Return the id of the workspace that is there from the first start on."""
        found = select(workspaces.c.id).where(workspaces.c.name == DEFAULT_WORKSPACE)
        row = await self._one(found)
        if row is None:
            new = {"id": new_id(), "name": DEFAULT_WORKSPACE}
            await self._execute(insert(workspaces).values(new).on_conflict_do_nothing())
            row = await self._one(found)
        assert row is not None
        return str(row["id"])

    async def ensure_user(self, workspace_id: str, name: str, role: str) -> UserRecord:
        """Return the user of that name in the workspace, made with that role where missing.

        Names are a workspace's own: the same name elsewhere is another person.
        """
        found = _USER.where(users.c.workspace_id == workspace_id, users.c.name == name)
        row = await self._one(found)
        if row is None:
            new = {"id": new_id(), "workspace_id": workspace_id, "name": name}
            made = await self._one(
                insert(users).values(new).on_conflict_do_nothing().returning(users.c.id)
            )
            if made is not None:
                member = {"workspace_id": workspace_id, "user_id": made["id"], "role": role}
                await self._execute(insert(memberships).values(member))
            row = await self._one(found)
        assert row is not None
        return to_record(UserRecord, row)

    async def user(self, user_id: str) -> UserRecord | None:
        """Return a user, or none."""
        return _user(await self._one(_USER.where(users.c.id == user_id)))

    # API keys -----------------------------------------------------------------------------

    async def add_key(self, key: KeyRecord, secret_hash: str) -> None:
        """Store a key with the hash of its secret."""
        row = to_row(key, api_keys) | {"secret_hash": secret_hash}
        await self._execute(insert(api_keys).values(row))

    async def key_by_prefix(self, prefix: str) -> tuple[KeyRecord, str] | None:
        """Return the key of that prefix with the hash of its secret, or none."""
        row = await self._one(_KEY.where(api_keys.c.prefix == prefix))
        return None if row is None else (to_record(KeyRecord, row), row["secret_hash"])

    async def list_keys(self, principal: Principal) -> list[KeyRecord]:
        """Return the caller's keys, newest first, revoked ones too."""
        newest = (api_keys.c.created_at.desc(), api_keys.c.id.desc())
        rows = await self._all(_KEY.where(scope(api_keys, principal)).order_by(*newest))
        return [to_record(KeyRecord, row) for row in rows]

    async def revoke_key(self, principal: Principal, key_id: str, at: datetime) -> None:
        """Withdraw a key of the caller; one that was withdrawn before keeps its time.

        Raises:
            NotFound: no such key, or somebody else's.
        """
        mine = (scope(api_keys, principal), api_keys.c.id == key_id)
        if await self._one(select(api_keys.c.id).where(*mine)) is None:
            raise NotFound
        change = update(api_keys).where(*mine, api_keys.c.revoked_at.is_(None))
        await self._execute(change.values(revoked_at=at))

    async def touch_key(self, key_id: str, at: datetime) -> None:
        """Note that a key was used."""
        await self._execute(update(api_keys).where(api_keys.c.id == key_id).values(last_used_at=at))

    # Browser sessions ---------------------------------------------------------------------

    async def add_web_session(self, digest: str, user_id: str, expires: datetime) -> None:
        """Store a browser session by the hash of its cookie."""
        await self._execute(
            insert(web_sessions).from_select(
                ["hash", "workspace_id", "user_id", "expires_at"], _for(user_id, digest, expires)
            )
        )

    async def web_session(self, digest: str, at: datetime) -> UserRecord | None:
        """Return whose browser session this is; none where unknown, revoked or expired."""
        return _user(
            await self._one(
                _USER.join(web_sessions, web_sessions.c.user_id == users.c.id).where(
                    web_sessions.c.hash == digest,
                    web_sessions.c.expires_at > at,
                    web_sessions.c.revoked_at.is_(None),
                )
            )
        )

    async def revoke_web_session(self, digest: str, at: datetime) -> None:
        """End a browser session; an unknown one is left alone."""
        change = update(web_sessions).where(
            web_sessions.c.hash == digest, web_sessions.c.revoked_at.is_(None)
        )
        await self._execute(change.values(revoked_at=at))

    # One-time links -----------------------------------------------------------------------

    async def add_link(self, digest: str, user_id: str, expires: datetime) -> None:
        """Store a one-time link by the hash of its token."""
        await self._execute(
            insert(login_links).from_select(
                ["hash", "workspace_id", "user_id", "expires_at"], _for(user_id, digest, expires)
            )
        )

    async def take_link(self, digest: str, at: datetime) -> UserRecord | None:
        """Spend a link and return its user; none where unknown, used or expired.

        One statement decides, so that of two at once only one gets in.
        """
        row = await self._one(
            update(login_links)
            .where(
                login_links.c.hash == digest,
                login_links.c.used_at.is_(None),
                login_links.c.expires_at > at,
            )
            .values(used_at=at)
            .returning(login_links.c.user_id)
        )
        return None if row is None else await self.user(row["user_id"])


def _for(user_id: str, digest: str, expires: datetime) -> Select[Any, Any, Any, Any]:
    return select(literal(digest), users.c.workspace_id, users.c.id, literal(expires)).where(
        users.c.id == user_id
    )


def _user(row: RowMapping | None) -> UserRecord | None:
    return None if row is None else to_record(UserRecord, row)
