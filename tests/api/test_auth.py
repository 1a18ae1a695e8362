"""Signing in by link, the cookie's walls, keys over HTTP, acting for others, revocation."""

import asyncio
import json

import anyio
import httpx
import pytest

from api.security import COOKIE
from tests.api.conftest import Guest
from tests.api.test_edge import assert_error
from tests.support.app import Served, chat, frames_of


async def new_link(house: Served) -> str:
    return await house.inside(house.product.identity.new_login_link())


@pytest.mark.req("IDENT-02", "IDENT-03")
async def test_the_link_signs_in_once_and_leads_to_the_workbench(house: Served):
    link = await new_link(house)
    async with house.anonymous() as client:
        first = await client.get("/login", params={"token": link})
        assert (first.status_code, first.headers["location"]) == (303, "/")
        assert (await client.get("/api/sessions")).status_code == 200
        me = (await client.get("/api/auth/me")).json()
        assert (me["signed_in"], me["user_name"], me["via"]) == (True, "local", "cookie")
    async with house.anonymous() as client:
        again = await client.get("/login", params={"token": link})
        assert again.status_code == 401
        assert "set-cookie" not in again.headers
        assert "已经使用过" in again.text
        assert "used already" in again.text
        assert_error(await client.get("/api/sessions"), 401, "unauthenticated")


@pytest.mark.req("IDENT-02", "IDENT-03")
async def test_two_at_once_with_one_link_let_one_in(house: Served):
    link = await new_link(house)
    async with house.anonymous() as client:
        answers = await asyncio.gather(
            *(client.get("/login", params={"token": link}) for _ in range(6))
        )
    assert sorted(answer.status_code for answer in answers) == [303] + [401] * 5


@pytest.mark.req("IDENT-03")
async def test_the_cookie_cannot_be_read_by_scripts_or_sent_by_other_sites(house: Served):
    async with house.anonymous() as client:
        answer = await client.get("/login", params={"token": await new_link(house)})
    name, _, rest = answer.headers["set-cookie"].partition("=")
    flags = {part.strip().lower() for part in rest.split(";")[1:]}
    assert name == COOKIE
    assert {"httponly", "samesite=lax", "path=/"} <= flags
    assert any(flag.startswith("max-age=") for flag in flags)
    assert not any(flag.startswith("domain") for flag in flags)


@pytest.mark.req("IDENT-02")
@pytest.mark.parametrize("header", ["Sec-Purpose", "Purpose"])
async def test_a_browser_that_loads_ahead_does_not_spend_the_link(house: Served, header: str):
    link = await new_link(house)
    async with house.anonymous() as client:
        ahead = await client.get("/login", params={"token": link}, headers={header: "prefetch"})
        assert ahead.status_code == 200
        assert (await client.get("/login", params={"token": link})).status_code == 303


@pytest.mark.req("IDENT-02")
@pytest.mark.parametrize("token", ["", "x", "gwl_" + "A" * 43, "é", "%00", "' OR 1=1 --"])
async def test_a_made_up_token_does_not_sign_in(house: Served, token: str):
    async with house.anonymous() as client:
        answer = await client.get(f"/login?token={token}")
        assert answer.status_code in (401, 422)
        assert (await client.get("/api/auth/me")).json()["signed_in"] is False


@pytest.mark.req("IDENT-03", "IDENT-08")
@pytest.mark.parametrize(
    ("headers", "allowed"),
    [
        ({}, False),
        ({"Sec-Fetch-Site": "same-origin"}, True),
        ({"Sec-Fetch-Site": "cross-site"}, False),
        ({"Sec-Fetch-Site": "same-site"}, False),
        ({"Sec-Fetch-Site": "none"}, False),
        ({"Origin": "{own}"}, True),
        ({"Origin": "http://evil.example"}, False),
        ({"Origin": "null"}, False),
        ({"Origin": ""}, False),
        ({"Origin": "{own}.evil.example"}, False),
        ({"Origin": "http://127.0.0.1:1"}, False),
        ({"Origin": "{own}", "Sec-Fetch-Site": "cross-site"}, False),
    ],
)
async def test_a_cookie_changes_something_only_from_our_own_pages(
    house: Served, headers: dict[str, str], allowed: bool
):
    sent = {name: value.replace("{own}", house.url) for name, value in headers.items()}
    async with house.anonymous(cookies={COOKIE: await house.cookie()}) as client:
        answer = await client.put("/api/preferences", json={"text": "hi"}, headers=sent)
        out = await client.post("/auth/logout", headers=sent)
        still = (await client.get("/api/auth/me")).json()["signed_in"]
    if allowed:
        assert (answer.status_code, out.status_code, still) == (200, 204, False)
    else:
        assert_error(answer, 403, "cross_site")
        assert_error(out, 403, "cross_site")
        assert still


@pytest.mark.req("IDENT-03")
async def test_signing_out_ends_the_session_on_the_server(house: Served):
    value = await house.cookie()
    async with house.anonymous(cookies={COOKIE: value}) as client:
        out = await client.post("/auth/logout", headers={"Origin": house.url})
        assert out.status_code == 204
        assert 'gw_session=""' in out.headers["set-cookie"]
    async with house.anonymous(cookies={COOKIE: value}) as client:
        assert_error(await client.get("/api/sessions"), 401, "unauthenticated")


@pytest.mark.req("IDENT-03")
@pytest.mark.parametrize(
    "header",
    [
        "",
        "Bearer",
        "Basic dXNlcjpwYXNz",
        "Bearer gwk_x",
        "gwk_000000000000_",
        "Bearer é",
    ],
)
async def test_a_wrong_header_is_refused_even_beside_a_good_cookie(house: Served, header: str):
    async with house.anonymous(cookies={COOKIE: await house.cookie()}) as client:
        answer = await client.get("/api/sessions", headers={"Authorization": header.encode()})
    assert_error(answer, 401, "unauthenticated")


@pytest.mark.req("IDENT-03")
async def test_a_key_is_shown_once_listed_without_secret_and_refused_after_revoking(
    house: Served, guest: Guest
):
    made = await guest.client.post("/api/keys", json={"name": "script", "days": 1})
    assert made.status_code == 201
    key = made.json()
    assert key["key"].startswith(f"gwk_{key['prefix']}_")
    listed = (await guest.client.get("/api/keys")).json()
    assert {"items", "next_cursor"} == set(listed)
    assert key["id"] in [item["id"] for item in listed["items"]]
    assert key["key"].split("_", 2)[2] not in json.dumps(listed)
    async with house.client(key["key"]) as client:
        assert (await client.get("/api/sessions")).status_code == 200
        assert (await guest.client.delete(f"/api/keys/{key['id']}")).status_code == 204
        assert_error(await client.get("/api/sessions"), 401, "unauthenticated")


@pytest.mark.req("IDENT-03", "IDENT-05")
async def test_a_key_does_only_what_it_was_made_for(house: Served, guest: Guest):
    body = {"name": "reader", "permissions": ["chat:read"]}
    key = (await guest.client.post("/api/keys", json=body)).json()["key"]
    async with house.client(key) as client:
        assert (await client.get("/api/sessions")).status_code == 200
        refused = assert_error(await client.get("/api/preferences"), 403, "forbidden")
        assert refused["details"] == {"permission": "preferences"}
        answer = await client.post("/api/chat", data={"message": "hi"})
        assert_error(answer, 403, "forbidden")
        assert_error(await client.post("/api/keys", json={"name": "x"}), 403, "forbidden")


@pytest.mark.req("IDENT-03", "Z02", "CHAT-07")
async def test_revoking_a_key_cuts_its_open_stream_within_five_seconds(scripted_house, scripted):
    from tests.support.scripted_turns import Gate, Turn, Wait, frame

    gate = Gate()
    scripted.play(Turn((frame({"content": "one moment"}), Wait(gate))))
    key = await scripted_house.key_of("guest")
    who = await scripted_house.principal("guest")
    async with (
        scripted_house.client(key) as client,
        client.stream("POST", "/api/chat", data={"message": "hi"}) as stream,
    ):
        frames = frames_of(stream)
        await anext(frames)
        identity = scripted_house.product.identity
        record = (await identity.list_keys(who))[0]
        await identity.revoke_key(who, record.id)
        with anyio.fail_after(5), pytest.raises(httpx.RemoteProtocolError):
            async for _ in frames:
                pass
    gate.open()


@pytest.mark.req("IDENT-06", "CHAT-01")
async def test_only_a_service_key_sends_for_another_user(house: Served, guest: Guest):
    refused = await chat(guest.client, "hi", user_name="somebody-else")
    assert (refused.status, refused.error["code"]) == (403, "forbidden")
    own = await chat(guest.client, "hi", user_name=guest.name)
    assert own.status == 200
    service = await house.key_of(guest.name, service=True)
    async with house.client(service) as client:
        reply = await chat(client, "hi", user_name="customer-1")
        assert reply.status == 200
        path = f"/api/chat/history/{reply.session_id}"
        assert_error(await client.get(path), 404, "not_found")
        theirs = await client.get(path, params={"user_name": "customer-1"})
        assert theirs.status_code == 200
        header = await client.get(path, headers={"X-User-Name": "customer-1"})
        assert header.json() == theirs.json()
        both = {"params": {"user_name": "customer-1"}, "headers": {"X-User-Name": "customer-2"}}
        assert_error(await client.get(path, **both), 400, "bad_request")
    assert_error(await guest.client.get(path, params={"user_name": "customer-1"}), 403, "forbidden")


@pytest.mark.req("OPS-06", "P18")
async def test_no_log_line_holds_a_token_a_key_or_a_query(house: Served, caplog):
    link = await new_link(house)
    with caplog.at_level("DEBUG"):
        async with house.anonymous() as client:
            await client.get("/login", params={"token": link})
            await client.get("/api/sessions/search", params={"q": "very-private-words"})
            await client.get("/api/sessions", headers={"Authorization": f"Bearer {house.key}"})
    lines = [(record, record.getMessage()) for record in caplog.records]
    ours = [getattr(record, "kv", {}) for record, _ in lines if record.name == "api.access"]
    assert {"/login", "/api/sessions/search", "/api/sessions"} <= {kv.get("path") for kv in ours}
    own = [r for r, _ in lines if not r.name.startswith(("httpx", "httpcore"))]
    text = "\n".join(f"{r.getMessage()} {getattr(r, 'kv', '')}" for r in own)
    for secret in (link, house.key, "very-private-words"):
        assert secret not in text
