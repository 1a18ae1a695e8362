"""Skills in whole conversations: the index, loading, files, and `#skill:` for one turn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.scenarios.talk import Talk
from tests.scenarios.whole import history, results, texts
from tests.support.scripted_server import ScriptedServer, Seen
from tests.support.scripted_turns import calls, say
from tests.tools.skill_folders import put


async def own_folder(served: Talk, user: str | None = None) -> Path:
    """Return the folder of skills of the owner, or of another user."""
    product = served.served.product
    who = await (served.served.principal(user) if user else product.identity.local_principal())
    return served.data_dir / "workspaces" / who.workspace_id / who.user_id / "skills"


def system_of(seen: Seen) -> str:
    [system] = [message for message in seen.messages if message["role"] == "system"]
    return str(system["content"])


async def listed(served: Talk) -> dict[str, dict[str, Any]]:
    answer = await served.client.get("/api/skills")
    assert answer.status_code == 200
    return {item["id"]: item for item in answer.json()["items"]}


@pytest.mark.req("SKILL-01", "SKILL-02", "CHAT-03")
async def test_a_skill_is_found_loaded_read_and_asked_for(
    served: Talk, scripted: ScriptedServer
) -> None:
    path = "/skills/demo-skill/references/three-levels.md"
    scripted.on(
        "tour",
        calls([("load_skill", {"name": "demo-skill"}, "load")]),
        calls([("read_file", {"path": path}, "read")]),
        calls([("write_file", {"path": path, "content": "mine"}, "write")]),
        say("That was the tour."),
    )
    first = await served.chat("give me the tour")
    assert first.last["type"] == "done"
    system = system_of(scripted.requests[0])
    assert "- demo-skill: Shows how skills work here" in system
    assert "You have just used the second level" not in system

    messages = await history(served, first.session_id)
    assert results(messages) == {"load": "completed", "read": "completed", "write": "failed"}
    said = [str(message["content"]) for message in scripted.requests[-1].messages]
    assert any("You have just used the second level" in text for text in said)
    assert any("| 1 · index |" in text for text in said)
    assert not any(str(served.data_dir) in text or "/tmp/" in text for text in said)

    scripted.on("now you", say("Here is a skill."))
    second = await served.chat(
        "#skill:skill-authoring now you make one", session_id=first.session_id
    )
    assert second.last["type"] == "done"
    seen = scripted.requests[-1]
    assert seen.last_user.startswith("<skill>\nThe user asked for the skill skill-authoring")
    assert seen.last_user.endswith("\n</skill>\n\nnow you make one")
    assert {system_of(request) for request in scripted.requests} == {system}

    messages = await history(served, first.session_id)
    assert messages[-2]["parts"] == [
        {"type": "skill", "name": "skill-authoring"},
        {"type": "text", "text": "now you make one"},
    ]
    assert texts(messages)[-1] == ("assistant", "Here is a skill.")
    assert second.of("user_message")[0]["content"] == "now you make one"
    assert scripted.refused == []


@pytest.mark.req("SKILL-01")
async def test_a_users_skill_stands_in_front_of_the_built_in_one(
    served: Talk, scripted: ScriptedServer
) -> None:
    put(await own_folder(served), "demo-skill", "My own tour.", body="Say heron.")
    scripted.play(calls([("load_skill", {"name": "demo-skill"}, "load")]), say("heron"))
    await served.chat("tour")
    index = "- demo-skill (user; in place of the built-in one): My own tour."
    assert index in system_of(scripted.requests[0])
    assert "Say heron." in str(scripted.requests[1].messages[-1])
    mine = (await listed(served))["demo-skill"]
    assert mine == {
        "id": "demo-skill",
        "name": "demo-skill",
        "description": "My own tour.",
        "source": "user",
        "where": "",
        "overrides": ["built-in"],
        "fault": None,
    }
    key = await served.served.key_of("bob")
    async with served.served.client(key) as bob:
        items = (await bob.get("/api/skills")).json()["items"]
    assert {item["source"] for item in items} == {"built-in"}


@pytest.mark.req("SKILL-01", "SKILL-02")
async def test_a_broken_skill_is_reported_to_its_owner_wherever_it_is_met(
    served: Talk, scripted: ScriptedServer
) -> None:
    own = await own_folder(served)
    put(own, "report").joinpath("SKILL.md").write_text("---\nname: other\n---\n")
    fault = (await listed(served))["report"]["fault"]
    assert "its folder is 'report'" in fault["cause"]
    assert fault["cure"] == "Write `name: report`, or rename the folder."

    asked = await served.client.post("/api/chat", data={"message": "#skill:report go"})
    assert asked.status_code == 422
    assert fault["cause"] in asked.json()["error"]["message"]
    assert asked.json()["error"]["details"]["cure"] == fault["cure"]

    scripted.play(calls([("load_skill", {"name": "report"}, "load")]), say("It is broken."))
    reply = await served.chat("load it")
    assert reply.last["type"] == "done"
    assert fault["cause"] in scripted.requests[-1].messages[-1]["content"]
    assert "say so when one is asked for: report." in system_of(scripted.requests[0])
    parts = (await served.client.get("/health")).json()["parts"]
    [health] = [part for part in parts if part["id"] == "skills"]
    assert (health["status"], health["facts"]) == ("ok", {"broken": 0})


@pytest.mark.req("SKILL-02", "CHAT-03")
@pytest.mark.parametrize(
    ("message", "status", "said"),
    [
        ("#skill:demo-skil go", 404, "Did you mean demo-skill?"),
        ("#skill:../demo-skill go", 404, "no skill named"),
        ("#skill: go", 422, "right behind it"),
        ("#skill:demo-skill #skill:skill-authoring go", 422, "one skill only"),
        ("#skill:demo-skill", 422, "empty"),
    ],
)
async def test_a_skill_that_cannot_be_used_leaves_nothing_behind(
    served: Talk, message: str, status: int, said: str
) -> None:
    answer = await served.client.post("/api/chat", data={"message": message})
    assert answer.status_code == status
    assert said in answer.json()["error"]["message"]
    assert (await served.client.get("/api/sessions")).json()["items"] == []


@pytest.mark.req("SKILL-02", "CHAT-03")
@pytest.mark.parametrize(
    "order", ["#skill:demo-skill #session:{} ", "#session:{} #skill:demo-skill "]
)
async def test_a_skill_and_another_session_go_together_in_either_order(
    served: Talk, scripted: ScriptedServer, order: str
) -> None:
    other = await served.chat("the code word is heron")
    reply = await served.chat(order.format(other.session_id) + "what was it?")
    sent = scripted.requests[-1].last_user
    assert sent.startswith("<skill>")
    assert "</skill>\n\nwhat was it?\n\n<quoted_session>" in sent
    assert "the code word is heron" in sent
    [asked, _] = await history(served, reply.session_id)
    assert asked["parts"][1] == {"type": "text", "text": "what was it?"}


@pytest.mark.req("SKILL-01", "CHAT-22")
async def test_the_index_counts_as_part_of_the_prompt(
    served: Talk, scripted: ScriptedServer
) -> None:
    reply = await served.chat("hello")
    path = f"/api/sessions/{reply.session_id}/context"
    before = (await served.client.get(path)).json()["parts"]["system"]
    put(await own_folder(served), "long", "word " * 200)
    after = (await served.client.get(path)).json()["parts"]["system"]
    assert after - before > 150
