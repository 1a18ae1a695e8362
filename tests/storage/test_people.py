"""Users, credentials, and what belongs to one user: preferences, grants, usage, archives."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from core.errors import NotFound
from core.ids import new_id
from core.records import ArchiveRecord, KeyRecord, UsageRecord
from tests.storage.conftest import AT, World

LATER = AT + timedelta(days=1)


def key(world: World, **fields) -> KeyRecord:
    given = {"name": "k", "prefix": new_id(), "permissions": ["keys"], "service": False} | fields
    return KeyRecord(
        id=new_id(),
        workspace_id=world.ann.workspace_id,
        user_id=world.ann.user_id,
        user_name="ann",
        created_at=AT,
        expires_at=None,
        revoked_at=None,
        last_used_at=None,
        **given,
    )


@pytest.mark.req("IDENT-01")
async def test_workspace_and_user_are_made_once_even_by_processes_that_start_together(world: World):
    async def ensure():
        async with world.database.work() as work:
            workspace = await work.identity.ensure_default_workspace()
            return await work.identity.ensure_user(workspace, "owner", "owner")

    users = await asyncio.gather(*(ensure() for _ in range(6)))
    assert len({user.id for user in users}) == 1
    async with world.database.work() as work:
        assert await work.identity.user(users[0].id) == users[0]
        assert users[0].role == "owner"
        assert await work.identity.user("nobody") is None


@pytest.mark.req("IDENT-03")
async def test_a_key_is_found_by_prefix_listed_to_its_user_and_revoked_by_its_user(world: World):
    made = key(world)
    async with world.database.work() as work:
        await work.identity.add_key(made, "hash")
        assert await work.identity.key_by_prefix(made.prefix) == (made, "hash")
        assert await work.identity.key_by_prefix("other") is None
        assert await work.identity.list_keys(world.ann) == [made]
        assert await work.identity.list_keys(world.bob) == []
        await work.identity.touch_key(made.id, AT)
        with pytest.raises(NotFound):
            await work.identity.revoke_key(world.bob, made.id, AT)
        await work.identity.revoke_key(world.ann, made.id, AT)
        await work.identity.revoke_key(world.ann, made.id, LATER)
        (kept,) = await work.identity.list_keys(world.ann)
    assert (kept.revoked_at, kept.last_used_at) == (AT, AT)


@pytest.mark.req("IDENT-03")
async def test_a_browser_session_holds_until_it_expires_or_is_revoked(world: World):
    async with world.database.work() as work:
        await work.identity.add_web_session("h", world.ann.user_id, LATER)
        assert (await work.identity.web_session("h", AT)).name == "ann"
        assert await work.identity.web_session("h", LATER) is None
        assert await work.identity.web_session("other", AT) is None
        await work.identity.revoke_web_session("h", AT)
        assert await work.identity.web_session("h", AT) is None


@pytest.mark.req("IDENT-02")
async def test_a_link_lets_one_in_once(world: World):
    async def take(link: str, at=AT):
        async with world.database.work() as work:
            return await work.identity.take_link(link, at)

    async with world.database.work() as work:
        await work.identity.add_link("h", world.ann.user_id, LATER)
        await work.identity.add_link("old", world.ann.user_id, LATER)
    users = await asyncio.gather(*(take("h") for _ in range(5)))
    assert [user.name for user in users if user] == ["ann"]
    assert await take("old", LATER) is None
    assert await take("unknown") is None


@pytest.mark.req("CHAT-27", "IDENT-05")
async def test_preferences_are_a_users_own(world: World):
    async with world.database.work() as work:
        assert await work.preferences.get(world.ann) is None
        await work.preferences.put(world.ann, {"text": "short\x00"})
        await work.preferences.put(world.ann, {"text": "brief"})
        await work.preferences.put(world.bob, {"text": "long"})
        assert await work.preferences.get(world.ann) == {"text": "brief"}
        await work.preferences.delete(world.ann)
        assert await work.preferences.get(world.ann) is None
        assert await work.preferences.get(world.bob) == {"text": "long"}


@pytest.mark.req("EXEC-20", "IDENT-05")
async def test_grants_hold_for_one_session_or_for_all_of_one_user(world: World):
    one, two = await world.session(), await world.session()
    async with world.database.work() as work:
        for session_id, tool in ((one.id, "here"), (None, "all"), (None, "all")):
            await work.grants.add(world.ann, session_id, tool)
        assert await work.grants.names(world.ann, one.id) == {"here", "all"}
        assert await work.grants.names(world.ann, two.id) == {"all"}
        assert await work.grants.names(world.bob, one.id) == frozenset()


@pytest.mark.req("EXEC-14", "EXEC-11", "P2")
async def test_usage_and_archives_are_stored_once(world: World):
    session = await world.session()
    usage = UsageRecord(
        id=new_id(),
        workspace_id=world.ann.workspace_id,
        user_id=world.ann.user_id,
        session_id=session.id,
        run_id="r",
        agent="a",
        model="m",
        purpose="turn",
        input_tokens=1,
        output_tokens=2,
        cached_tokens=3,
        reasoning_tokens=4,
        usage_source="provider",
        created_at=AT,
    )
    archive = ArchiveRecord(new_id(), session.id, "r", "/p", "s", 3, 100, 50, AT)
    async with world.database.work() as work:
        for _ in range(2):
            await work.usage.add(usage)
            await work.archives.add(world.ann, archive)
        assert await work.usage.of_run("r") == [usage]
        assert await work.archives.list(world.ann, session.id) == [archive]
        assert await work.archives.list(world.bob, session.id) == []
