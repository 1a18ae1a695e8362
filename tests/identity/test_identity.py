"""Keys, links and cookies hold exactly as long as they should, and only once where once is meant."""

import asyncio
from datetime import timedelta

import pytest

from core.clock import FakeClock
from core.errors import Forbidden, Invalid, NotFound, Unauthenticated
from core.principal import Permission, Principal
from core.settings import Settings
from identity import credentials
from identity.service import LINK_MINUTES, LOCAL_USER, Identity
from storage.database import Database


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def identity(database: Database, clock: FakeClock) -> Identity:
    return Identity(database, Settings(), clock)


@pytest.fixture
async def owner(identity: Identity) -> Principal:
    return await identity.local_principal()


@pytest.mark.req("IDENT-02")
async def test_the_local_owner_is_the_same_person_every_time(identity: Identity, owner: Principal):
    again = await identity.local_principal()
    assert (again.user_id, again.workspace_id) == (owner.user_id, owner.workspace_id)
    assert owner.user_name == LOCAL_USER
    assert all(owner.may(permission) for permission in Permission)


@pytest.mark.req("IDENT-03")
async def test_a_new_key_signs_its_maker_in(identity: Identity, owner: Principal):
    record, text = await identity.create_key(owner, "laptop")
    who = await identity.principal_of_key(text)
    assert text.startswith(f"gwk_{record.prefix}_")
    assert (who.user_id, who.via, who.key_id) == (owner.user_id, "key", record.id)
    assert who.permissions == frozenset(Permission)


@pytest.mark.req("IDENT-03", "P18")
async def test_no_table_holds_a_secret(identity: Identity, owner: Principal, database: Database):
    _, key = await identity.create_key(owner, "laptop")
    link = await identity.new_login_link()
    cookie = await identity.enter(link)
    secrets = [key.split("_", 2)[2], key, link, cookie]
    async with database.work() as work:
        rows = ""
        for table in ("api_keys", "login_links", "web_sessions"):
            cursor = await work.connection.execute(f"SELECT t::text AS row FROM {table} t")
            rows += "".join(str(row) for row in await cursor.fetchall())
    assert rows
    assert [secret for secret in secrets if secret in rows] == []


@pytest.mark.req("IDENT-03")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "gwk_",
        "x",
        "gwk_000000000000_" + "A" * 43,
        "gwk_00000000000\x00_" + "A" * 43,
        "Bearer gwk_000000000000_" + "A" * 43,
        "gwk_" + "é" * 60,
        "A" * 100_000,
        "gws_" + "A" * 43,
    ],
)
async def test_what_is_no_key_is_refused(identity: Identity, text: str):
    with pytest.raises(Unauthenticated):
        await identity.principal_of_key(text)


@pytest.mark.req("IDENT-03")
async def test_the_right_prefix_with_a_wrong_secret_is_refused(
    identity: Identity, owner: Principal
):
    record, _ = await identity.create_key(owner, "laptop")
    with pytest.raises(Unauthenticated):
        await identity.principal_of_key(f"gwk_{record.prefix}_{'A' * 43}")


@pytest.mark.req("IDENT-03")
async def test_a_key_ends_with_its_days(identity: Identity, owner: Principal, clock: FakeClock):
    _, text = await identity.create_key(owner, "short", days=1)
    await clock.advance(86_399)
    assert (await identity.principal_of_key(text)).user_id == owner.user_id
    await clock.advance(3)
    with pytest.raises(Unauthenticated):
        await identity.principal_of_key(text)


@pytest.mark.req("IDENT-03", "Z02")
async def test_a_revoked_key_is_refused_here_at_once_and_elsewhere_within_five_seconds(
    identity: Identity, owner: Principal, clock: FakeClock, database: Database
):
    record, text = await identity.create_key(owner, "laptop")
    elsewhere = Identity(database, Settings(), clock)
    await identity.principal_of_key(text)
    await elsewhere.principal_of_key(text)
    await identity.revoke_key(owner, record.id)
    with pytest.raises(Unauthenticated):
        await identity.principal_of_key(text)
    await clock.advance(2.01)
    with pytest.raises(Unauthenticated):
        await elsewhere.principal_of_key(text)


@pytest.mark.req("IDENT-03")
async def test_last_used_is_written_but_not_at_every_request(
    identity: Identity, owner: Principal, clock: FakeClock
):
    _, text = await identity.create_key(owner, "laptop")

    async def last_used():
        await identity.principal_of_key(text)
        return (await identity.list_keys(owner))[0].last_used_at

    first = await last_used()
    assert first == clock.now()
    await clock.advance(30)
    assert await last_used() == first
    await clock.advance(31)
    assert await last_used() == first + timedelta(seconds=61)


@pytest.mark.req("IDENT-03")
async def test_a_key_cannot_make_a_key_that_may_more(identity: Identity, owner: Principal):
    held = {Permission.KEYS, Permission.CHAT_READ}
    _, text = await identity.create_key(owner, "reader", permissions=held)
    reader = await identity.principal_of_key(text)
    record, _ = await identity.create_key(reader, "child")
    assert record.permissions == sorted(held)
    with pytest.raises(Forbidden):
        await identity.create_key(reader, "more", permissions={Permission.CHAT_WRITE})
    with pytest.raises(Forbidden):
        await identity.create_key(reader, "service", service=True)


@pytest.mark.req("IDENT-03")
@pytest.mark.parametrize("name", ["", "   ", "a\x00b", "a\nb", "x" * 101, "\u202e"])
async def test_a_key_needs_a_printable_name(identity: Identity, owner: Principal, name: str):
    with pytest.raises(Invalid):
        await identity.create_key(owner, name)


@pytest.mark.req("IDENT-05", "Z01")
async def test_another_users_key_is_neither_listed_nor_revoked(
    identity: Identity, owner: Principal
):
    _, service = await identity.create_key(owner, "platform", service=True)
    other = await identity.acting_for(await identity.principal_of_key(service), "other")
    record, text = await identity.create_key(owner, "laptop")
    assert record.id not in [key.id for key in await identity.list_keys(other)]
    with pytest.raises(NotFound):
        await identity.revoke_key(other, record.id)
    assert await identity.principal_of_key(text)


@pytest.mark.req("IDENT-06")
async def test_only_a_service_key_acts_for_another_user(identity: Identity, owner: Principal):
    _, plain = await identity.create_key(owner, "plain")
    _, service = await identity.create_key(owner, "platform", service=True)
    caller = await identity.principal_of_key(plain)
    with pytest.raises(Forbidden):
        await identity.acting_for(caller, "somebody")
    assert await identity.acting_for(caller, LOCAL_USER) is caller
    platform = await identity.principal_of_key(service)
    somebody = await identity.acting_for(platform, "somebody")
    again = await identity.acting_for(platform, "somebody")
    assert somebody.user_id == again.user_id != owner.user_id
    assert somebody.workspace_id == owner.workspace_id
    assert not somebody.may(Permission.KEYS)
    assert not somebody.service


@pytest.mark.req("IDENT-02")
async def test_a_link_lets_exactly_one_of_many_in(identity: Identity, owner: Principal):
    link = await identity.new_login_link()
    results = await asyncio.gather(
        *(identity.enter(link) for _ in range(5)), return_exceptions=True
    )
    cookies = [result for result in results if isinstance(result, str)]
    assert len(cookies) == 1
    assert all(isinstance(result, Unauthenticated) for result in results if result not in cookies)
    assert (await identity.principal_of_cookie(cookies[0])).user_id == owner.user_id


@pytest.mark.req("IDENT-02")
async def test_a_link_grows_old(identity: Identity, clock: FakeClock):
    link = await identity.new_login_link()
    await clock.advance(LINK_MINUTES * 60 + 1)
    with pytest.raises(Unauthenticated):
        await identity.enter(link)


@pytest.mark.req("IDENT-03")
async def test_a_cookie_ends_with_its_days_and_with_signing_out(
    identity: Identity, clock: FakeClock
):
    first = await identity.enter(await identity.new_login_link())
    second = await identity.enter(await identity.new_login_link())
    await identity.leave(first)
    with pytest.raises(Unauthenticated):
        await identity.principal_of_cookie(first)
    assert await identity.principal_of_cookie(second)
    await clock.advance(Settings().login_days * 86_400 + 1)
    with pytest.raises(Unauthenticated):
        await identity.principal_of_cookie(second)


@pytest.mark.req("IDENT-03")
@pytest.mark.parametrize("value", ["", "x", "gws_", "gws_" + "A" * 43, "é" * 47, "A" * 100_000])
async def test_what_is_no_cookie_is_refused(identity: Identity, value: str):
    with pytest.raises(Unauthenticated):
        await identity.principal_of_cookie(value)


@pytest.mark.req("IDENT-05", "Z02")
async def test_a_disabled_user_is_refused_with_every_credential(
    identity: Identity, owner: Principal, database: Database, clock: FakeClock
):
    _, key = await identity.create_key(owner, "laptop")
    cookie = await identity.enter(await identity.new_login_link())
    await identity.principal_of_key(key)
    await identity.principal_of_cookie(cookie)
    async with database.work() as work:
        await work.connection.execute("UPDATE users SET disabled_at = now()")
    await clock.advance(2.01)
    with pytest.raises(Unauthenticated):
        await identity.principal_of_key(key)
    with pytest.raises(Unauthenticated):
        await identity.principal_of_cookie(cookie)


@pytest.mark.req("IDENT-03")
def some_keys_are_unguessable_and_their_digest_is_one_way():
    made = [credentials.new_key() for _ in range(100)]
    assert len({key.text for key in made}) == 100
    prefix, secret = credentials.split_key(made[0].text) or ("", "")
    assert prefix == made[0].prefix
    assert len(secret) == 43
    assert credentials.fits(secret, made[0].secret_hash)
    assert secret not in made[0].secret_hash
