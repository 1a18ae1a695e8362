"""Who is calling: API keys, browser sessions, one-time links, and the local owner."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Final

from core.clock import Clock
from core.errors import Forbidden, Invalid, Unauthenticated
from core.ids import new_id
from core.principal import ALL_PERMISSIONS, Permission, Principal
from core.records import KeyRecord, UserRecord
from core.settings import Settings
from core.types import UserId, WorkspaceId
from identity import credentials
from identity.cache import PrincipalCache
from storage.database import Database

LOCAL_USER: Final = "local"
"""Name of the one owner in `local` mode."""

LINK_MINUTES: Final = 15
"""How long a one-time link can be opened."""

TOUCH_SECONDS: Final = 60
"""`last_used` of a key is written at most this often."""

LONGEST_NAME: Final = 100


class Identity:
    """Tells who a credential belongs to, and makes and withdraws credentials."""

    def __init__(self, database: Database, settings: Settings, clock: Clock) -> None:
        self._database = database
        self._settings = settings
        self._clock = clock
        self._cache = PrincipalCache(clock)

    # Callers ------------------------------------------------------------------------------

    async def local_principal(self) -> Principal:
        """Return the owner of the default workspace, made at the first call."""
        async with self._database.work() as work:
            workspace_id = await work.identity.ensure_default_workspace()
            user = await work.identity.ensure_user(workspace_id, LOCAL_USER, "owner")
        return _principal(user, via="script")

    async def script_principal(self, user_name: str) -> Principal:
        """Return the user of that name in the default workspace, made where missing.

        A script is a trusted process: it may act for anybody, and a user that it makes has no
        login. One that has is the same user.

        Raises:
            Invalid: this cannot be a user's name.
            Forbidden: the user is disabled.
        """
        name = _checked_name(user_name, "user_name")
        if name == LOCAL_USER:
            return await self.local_principal()
        async with self._database.work() as work:
            workspace_id = await work.identity.ensure_default_workspace()
            user = await work.identity.ensure_user(workspace_id, name, "member")
        if user.disabled_at is not None:
            raise Forbidden(f"The user {name} is disabled.")
        return _principal(user, via="script")

    async def principal_of_key(self, text: str) -> Principal:
        """Return whom an API key belongs to.

        Raises:
            Unauthenticated: unknown, expired or revoked, or its user is disabled; the answer is
                the same for all, so that nobody learns which keys exist.
        """
        known = self._cache.get(text)
        if known is not None:
            return known
        parts = credentials.split_key(text)
        if parts is None:
            raise Unauthenticated("This key is not valid.")
        prefix, secret = parts
        now = self._clock.now()
        async with self._database.work() as work:
            found = await work.identity.key_by_prefix(prefix)
            key, secret_hash = found if found else (None, credentials.digest(prefix))
            if (
                not credentials.fits(secret, secret_hash)
                or key is None
                or key.revoked_at is not None
            ):
                raise Unauthenticated("This key is not valid.")
            if key.expires_at is not None and key.expires_at <= now:
                raise Unauthenticated("This key is not valid.")
            user = _enabled(await work.identity.user(key.user_id))
            last = key.last_used_at
            if last is None or now - last >= timedelta(seconds=TOUCH_SECONDS):
                await work.identity.touch_key(key.id, now)
        principal = _principal(user, via="key", key=key)
        self._cache.put(text, principal)
        return principal

    async def principal_of_cookie(self, value: str) -> Principal:
        """Return whose browser session this is.

        Raises:
            Unauthenticated: unknown, ended or expired, or its user is disabled.
        """
        known = self._cache.get(value)
        if known is not None:
            return known
        if not credentials.is_cookie(value):
            raise Unauthenticated
        async with self._database.work() as work:
            user = await work.identity.web_session(credentials.digest(value), self._clock.now())
        principal = _principal(_enabled(user), via="cookie")
        self._cache.put(value, principal)
        return principal

    async def acting_for(self, principal: Principal, user_name: str) -> Principal:
        """Return the user of that name, for a service key of the same workspace (IDENT-06).

        A user that is not there yet is made as a member: the platform in front of us is the one
        that knows its users. The result holds no right to make keys.

        Raises:
            Forbidden: only a service key may name another user.
            Invalid: this cannot be a user's name.
        """
        if user_name == principal.user_name:
            return principal
        if not principal.service:
            raise Forbidden("user_name must be your own; only a service key may name another user.")
        name = _checked_name(user_name, "user_name")
        async with self._database.work() as work:
            user = await work.identity.ensure_user(principal.workspace_id, name, "member")
        if user.workspace_id != principal.workspace_id:
            raise Forbidden("This user belongs to another workspace.")
        return Principal(
            workspace_id=principal.workspace_id,
            user_id=UserId(_enabled(user).id),
            user_name=user.name,
            via="key",
            permissions=principal.permissions - {Permission.KEYS},
            key_id=principal.key_id,
        )

    # One-time links and browser sessions ------------------------------------------------------

    async def new_login_link(self) -> str:
        """Return the token of a link that signs the local owner in, once, for a short time."""
        owner = await self.local_principal()
        token = credentials.new_link()
        expires = self._clock.now() + timedelta(minutes=LINK_MINUTES)
        async with self._database.work() as work:
            await work.identity.add_link(credentials.digest(token), owner.user_id, expires)
        return token

    async def enter(self, token: str) -> str:
        """Spend a link's token and return the value of the new session's cookie.

        Raises:
            Unauthenticated: unknown, used before, or too old.
        """
        refusal = Unauthenticated("This link was used already or is too old.")
        if not credentials.is_link(token):
            raise refusal
        now = self._clock.now()
        value = credentials.new_cookie()
        async with self._database.work() as work:
            user = await work.identity.take_link(credentials.digest(token), now)
            if user is None:
                raise refusal
            expires = now + timedelta(days=self._settings.login_days)
            await work.identity.add_web_session(
                credentials.digest(value), _enabled(user).id, expires
            )
        return value

    async def leave(self, value: str) -> None:
        """End a browser session; an unknown one is left alone."""
        async with self._database.work() as work:
            await work.identity.revoke_web_session(credentials.digest(value), self._clock.now())
        self._cache.clear()

    # Keys -----------------------------------------------------------------------------------

    async def create_key(
        self,
        principal: Principal,
        name: str,
        *,
        permissions: Collection[Permission] | None = None,
        days: int | None = None,
        service: bool = False,
    ) -> tuple[KeyRecord, str]:
        """Make a key and return it with its text, which nobody can show again.

        Args:
            principal: whose key it is.
            name: what people call it.
            permissions: what it may do; missing means all that the caller may.
            days: how long it holds; missing means until it is revoked.
            service: whether it may act for other users of the workspace.

        Raises:
            Forbidden: a key cannot make one that may do more than itself.
            Invalid: the name or a number is not allowed.
        """
        wanted = frozenset(permissions) if permissions is not None else principal.permissions
        if not wanted <= principal.permissions:
            raise Forbidden("A key cannot make a key that may do more than itself.")
        if service and principal.via == "key" and not principal.service:
            raise Forbidden("Only a service key, or the owner, can make a service key.")
        now = self._clock.now()
        made = credentials.new_key()
        record = KeyRecord(
            id=new_id(),
            workspace_id=principal.workspace_id,
            user_id=principal.user_id,
            user_name=principal.user_name,
            name=_checked_name(name, "name"),
            prefix=made.prefix,
            permissions=sorted(wanted),
            service=service,
            created_at=now,
            expires_at=now + timedelta(days=days) if days is not None else None,
            revoked_at=None,
            last_used_at=None,
        )
        async with self._database.work() as work:
            await work.identity.add_key(record, made.secret_hash)
        return record, made.text

    async def list_keys(self, principal: Principal) -> Sequence[KeyRecord]:
        """Return the caller's keys, newest first, revoked ones too."""
        async with self._database.work() as work:
            return await work.identity.list_keys(principal)

    async def revoke_key(self, principal: Principal, key_id: str) -> None:
        """Withdraw a key of the caller; other processes see it within seconds.

        Raises:
            NotFound: no such key of this caller.
        """
        async with self._database.work() as work:
            await work.identity.revoke_key(principal, key_id, self._clock.now())
        self._cache.clear()


# Helpers ----------------------------------------------------------------------------------


def _enabled(user: UserRecord | None) -> UserRecord:
    if user is None or user.disabled_at is not None:
        raise Unauthenticated
    return user


def _checked_name(name: str, field: str) -> str:
    text = name.strip()
    if not text or len(text) > LONGEST_NAME or not text.isprintable():
        raise Invalid(f"{field} must have 1 to {LONGEST_NAME} printable characters.")
    return text


def _principal(user: UserRecord, *, via: str, key: KeyRecord | None = None) -> Principal:
    workspace_id, user_id = WorkspaceId(user.workspace_id), UserId(user.id)
    if key is None:
        kind = "cookie" if via == "cookie" else "script"
        return Principal(workspace_id, user_id, user.name, kind, ALL_PERMISSIONS)
    known = {permission.value for permission in Permission}
    held = frozenset(Permission(name) for name in key.permissions if name in known)
    return Principal(
        workspace_id, user_id, user.name, "key", held, key_id=key.id, service=key.service
    )
