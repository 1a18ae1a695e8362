"""Sessions, messages, preferences, agents and models over the wire."""

import pytest

from core.ids import new_id
from tests.api.conftest import Guest
from tests.api.test_edge import assert_error
from tests.support.app import Served, chat
from tests.support.scripted_server import ScriptedServer
from tests.support.scripted_turns import call, say


async def ids(guest: Guest, **params) -> list[str]:
    answer = await guest.client.get("/api/sessions", params=params)
    assert answer.status_code == 200, answer.text
    return [session["id"] for session in answer.json()["items"]]


@pytest.mark.req("CHAT-20", "CHAT-21")
async def test_pinned_sessions_stand_first_then_the_newest(guest: Guest):
    first, second, third = [(await chat(guest.client, f"talk {n}")).session_id for n in range(3)]
    assert await ids(guest) == [third, second, first]
    pinned = await guest.client.put(f"/api/sessions/{first}/pin", json={"pinned": True})
    assert pinned.json()["pinned_at"]
    assert await ids(guest) == [first, third, second]
    await chat(guest.client, session_id=second)
    assert await ids(guest) == [first, second, third]
    await guest.client.put(f"/api/sessions/{first}/pin", json={"pinned": False})
    assert await ids(guest) == [second, third, first]


@pytest.mark.req("CHAT-20")
async def test_paging_shows_every_session_once(guest: Guest):
    made = {(await chat(guest.client, f"talk {n}")).session_id for n in range(5)}
    await guest.client.put(f"/api/sessions/{sorted(made)[0]}/pin", json={"pinned": True})
    whole = await ids(guest)
    seen: list[str] = []
    cursor = None
    while True:
        params = {"limit": 2} | ({"cursor": cursor} if cursor else {})
        page = (await guest.client.get("/api/sessions", params=params)).json()
        seen += [session["id"] for session in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert seen == whole
    assert set(seen) == made


@pytest.mark.req("CHAT-20")
async def test_search_finds_titles_and_messages_whatever_the_letters(guest: Guest):
    word = f"zebra{new_id()[-6:]}"
    in_text = await chat(guest.client, f"hello\n\n{'x ' * 200}{word} 季度总结 100%_done")
    titled = await chat(guest.client, "hello")
    await guest.client.put(f"/api/sessions/{titled.session_id}/title", json={"title": f"{word}!"})

    async def found(q: str) -> set[str]:
        answer = await guest.client.get("/api/sessions/search", params={"q": q})
        return {session["id"] for session in answer.json()["items"]}

    assert await found(word) == {in_text.session_id, titled.session_id}
    assert await found(word.upper()) == {in_text.session_id, titled.session_id}
    assert await found("季度总结") == {in_text.session_id}
    assert await found("100%_done") == {in_text.session_id}
    assert await found("100_%done") == set()
    assert await found("' OR '1'='1") == set()


@pytest.mark.req("CHAT-20", "CHAT-11", "P17")
async def test_a_deleted_session_is_gone_everywhere(guest: Guest):
    reply = await chat(guest.client, "calculate 17 * 23")
    history = (await guest.client.get(f"/api/chat/history/{reply.session_id}")).json()["items"]
    path = f"/api/sessions/{reply.session_id}"
    assert (await guest.client.delete(path)).status_code == 204
    gone = [
        path,
        f"{path}/runs",
        f"{path}/context",
        f"{path}/mode",
        f"{path}/events",
        f"/api/chat/history/{reply.session_id}",
        f"/api/chat/interrupt?session_id={reply.session_id}",
        f"/api/runs/{reply.run_id}",
        f"/api/runs/{reply.run_id}/events",
    ]
    for address in gone:
        assert_error(await guest.client.get(address), 404, "not_found")
    assert_error(await guest.client.delete(path), 404, "not_found")
    assert_error(await guest.client.delete(f"/api/messages/{history[0]['id']}"), 404, "not_found")
    assert await ids(guest) == []


@pytest.mark.req("CHAT-21")
async def test_title_and_mode_are_changed_and_read_back(guest: Guest):
    reply = await chat(guest.client)
    path = f"/api/sessions/{reply.session_id}"
    named = await guest.client.put(f"{path}/title", json={"title": "  年度预算 🗺 "})
    assert (named.json()["title"], named.json()["title_source"]) == ("年度预算 🗺", "user")
    assert (await guest.client.get(f"{path}/mode")).json()["mode"] == "full"
    changed = await guest.client.put(f"{path}/mode", json={"mode": "plan"})
    assert changed.json() == {"id": reply.session_id, "mode": "plan"}
    assert (await guest.client.get(f"{path}/mode")).json()["mode"] == "plan"
    for body in ({"title": ""}, {"title": " "}, {"title": "x" * 201}, {"title": None}, {}):
        assert_error(await guest.client.put(f"{path}/title", json=body), 422, "invalid")
    assert (await guest.client.get(path)).json()["title"] == "年度预算 🗺"


@pytest.mark.req("CHAT-22")
async def test_runs_and_context_tell_how_it_went(guest: Guest):
    reply = await chat(guest.client, "calculate 17 * 23")
    again = await chat(guest.client, session_id=reply.session_id)
    runs = (await guest.client.get(f"/api/sessions/{reply.session_id}/runs")).json()["items"]
    assert [run["id"] for run in runs] == [again.run_id, reply.run_id]
    assert all(run["status"] == "success" and run["finished_at"] for run in runs)
    assert runs[1]["last_seq"] == len(reply.frames)
    context = (await guest.client.get(f"/api/sessions/{reply.session_id}/context")).json()
    assert set(context["parts"]) == {"system", "tools", "memory", "history", "files"}
    assert 0 < context["tokens"] <= context["limit"]
    assert context["archives"] == []


@pytest.mark.req("CHAT-11")
async def test_history_pages_backwards_without_gap(guest: Guest):
    reply = await chat(guest.client, "m0")
    for number in range(1, 4):
        await chat(guest.client, f"m{number}", session_id=reply.session_id)
    path = f"/api/chat/history/{reply.session_id}"
    whole = (await guest.client.get(path)).json()
    assert whole["next_cursor"] is None
    positions = [message["position"] for message in whole["items"]]
    assert positions == sorted(positions)
    pieces: list[dict] = []
    cursor = None
    while True:
        params = {"limit": 3} | ({"cursor": cursor} if cursor else {})
        page = (await guest.client.get(path, params=params)).json()
        pieces = page["items"] + pieces
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert pieces == whole["items"]


@pytest.mark.req("CHAT-26", "CHAT-21", "CHAT-11")
async def test_feedback_whole_results_and_deleting_a_message(
    scripted_house: Served, scripted: ScriptedServer
):
    scripted.play(call("calculate", {"expression": "17*23"}), say("391"), say("again"))
    async with scripted_house.client() as client:
        reply = await chat(client)
        path = f"/api/chat/history/{reply.session_id}"
        messages = (await client.get(path)).json()["items"]
        asked = next(
            (message, part)
            for message in messages
            for part in message["parts"]
            if part["type"] == "tool_call"
        )
        call_id = asked[1]["tool_call_id"]
        assert asked[1]["result"]["status"] == "completed"
        result = await client.get(f"/api/messages/{asked[0]['id']}/tool-results/{call_id}")
        assert result.status_code == 200
        assert (result.json()["id"], result.json()["tool"]) == (call_id, "calculate")
        assert "391" in result.json()["content"]
        missing = await client.get(f"/api/messages/{asked[0]['id']}/tool-results/other")
        assert_error(missing, 404, "not_found")
        last = messages[-1]["id"]
        good = {"feedback": "up", "note": "谢谢"}
        answer = await client.put(f"/api/messages/{last}/feedback", json=good)
        assert (answer.json()["feedback"], answer.json()["feedback_note"]) == ("up", "谢谢")
        back = await client.put(f"/api/messages/{last}/feedback", json={"feedback": None})
        assert back.json()["feedback"] is None
        assert (await client.delete(f"/api/messages/{asked[0]['id']}")).status_code == 204
        left = [message["id"] for message in (await client.get(path)).json()["items"]]
        assert asked[0]["id"] not in left
        assert (await chat(client, "more", session_id=reply.session_id)).text == "again"
    assert scripted.refused == []


@pytest.mark.req("CHAT-27")
async def test_preferences_reach_the_prompt_of_every_turn(
    scripted_house: Served, scripted: ScriptedServer
):
    async with scripted_house.client() as client:
        empty = (await client.get("/api/preferences")).json()
        assert empty["text"] == ""
        put = await client.put("/api/preferences", json={"text": "Answer in pirate-speak 海盗."})
        assert put.status_code == 200
        assert (await client.get("/api/preferences")).json() == put.json()
        reply = await chat(client)
        assert "pirate-speak 海盗" in scripted.requests[-1].messages[0]["content"]
        assert (await client.delete("/api/preferences")).status_code == 204
        await chat(client, session_id=reply.session_id)
        assert "pirate" not in scripted.requests[-1].messages[0]["content"]
        too_long = await client.put("/api/preferences", json={"text": "x" * 8_001})
        assert_error(too_long, 422, "invalid")


@pytest.mark.req("EXEC-01", "MODEL-09")
async def test_agents_models_and_graphs_are_listed(guest: Guest):
    agents = (await guest.client.get("/api/agents")).json()["items"]
    assert [agent["default"] for agent in agents] == [True] + [False] * (len(agents) - 1)
    assert agents[0]["id"] == "assistant"
    graph = await guest.client.get("/api/agents/assistant/graph")
    assert graph.headers["content-type"].startswith("text/plain")
    assert "call_model" in graph.text
    assert_error(await guest.client.get("/api/agents/nobody/graph"), 404, "not_found")
    models = (await guest.client.get("/api/models")).json()["items"]
    assert (models[0]["id"], models[0]["demo"], models[0]["default"]) == ("demo", True, True)
