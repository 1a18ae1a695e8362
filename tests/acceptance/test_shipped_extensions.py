"""`core`, `demo` and `context_demo` work from the API and from a script, with one line in `.env`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from extensions.context_demo.recall import LEAD
from tests.acceptance.client import text_of
from tests.acceptance.conftest import Connect, provider
from tests.support.process import ROOT, environment, server
from tests.support.scripted_server import ScriptedServer
from tests.support.scripted_turns import call, say

pytestmark = [pytest.mark.timeout(240), pytest.mark.req("EXT-02", "EXT-12", "BATCH-01")]

ASKED = {
    "assistant": (("calculate", {"expression": "17 * 23"}), "391"),
    "ventilation": (("airflow", {"volume_m3": 120, "air_changes_per_hour": 4}), "480"),
    "glossary": (("explain_term", {"term": "duct loss"}), "friction"),
}
"""A call of each shipped extension's agent, and what its result says."""

SCRIPT = """
import asyncio, json
from runtime import RuntimeEnvironment, execute

async def main():
    async with RuntimeEnvironment():
        for agent in {agents!r}:
            message = f"script: {{agent}} on duct loss"
            result = await execute(user_name="report", message=message, agent=agent)
            print(json.dumps([agent, result.status, result.output, str(result.error)]))

asyncio.run(main())
"""


def play(scripted: ScriptedServer, by: str) -> None:
    """Let each agent call its tool, and then say what came of it."""
    for agent, (asked, _) in ASKED.items():
        scripted.on(f"{by}: {agent} on duct loss", call(*asked), say(f"{by} {agent} is done."))


def results_of(scripted: ScriptedServer, by: str) -> dict[str, str]:
    """Return the result of each agent's call as the model was told of it."""
    found: dict[str, str] = {}
    for request in scripted.requests:
        for agent in ASKED:
            texts = [str(message.get("content")) for message in request.messages]
            if f"{by}: {agent} on duct loss" in texts and request.messages[-1]["role"] == "tool":
                found[agent] = texts[-1]
    return found


def first_prompt(scripted: ScriptedServer, message: str) -> str:
    """Return the system prompt of the first request about a message."""
    return next(
        str(request.messages[0]["content"])
        for request in scripted.requests
        if request.messages[-1].get("content") == message
    )


def test_one_line_in_dotenv_switches_the_example_on_for_the_server_and_for_scripts(
    data_dir: Path, scripted: ScriptedServer, connect: Connect
) -> None:
    folder = data_dir.parent
    (folder / ".env").write_text("CONTEXT_DEMO_ENABLED=1\n", encoding="utf-8")
    settings = provider(scripted) | {"GW_ENV_PRIORITY": "dotenv"}
    play(scripted, "api")
    play(scripted, "script")
    with server(data_dir, cwd=folder, **settings) as started:
        client = connect(started)
        assembled = client.get("/api/model")["agent"]
        assert assembled["extensions"] == ["context_demo", "core", "demo"]
        for agent in ASKED:
            frames = client.chat(f"api: {agent} on duct loss", agent=agent)
            assert text_of(frames) == f"api {agent} is done."
        # A script beside the server, on the same database: all it is told of is the same folder.
        ran = subprocess.run(
            [sys.executable, "-c", SCRIPT.format(agents=list(ASKED))],
            cwd=folder,
            env=environment(PYTHONPATH=str(ROOT), **settings),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert ran.returncode == 0, ran.stderr
    said = [json.loads(line) for line in ran.stdout.splitlines()]
    assert said == [[agent, "success", f"script {agent} is done.", "None"] for agent in ASKED]
    for by in ("api", "script"):
        results = results_of(scripted, by)
        for agent, (_, part) in ASKED.items():
            assert part in results[agent]
        for agent in ("assistant", "glossary"):
            assert LEAD in first_prompt(scripted, f"{by}: {agent} on duct loss")
        assert LEAD not in first_prompt(scripted, f"{by}: ventilation on duct loss")


def test_without_that_line_the_example_is_off_and_named(
    data_dir: Path, scripted: ScriptedServer, connect: Connect
) -> None:
    with server(data_dir, cwd=data_dir.parent, **provider(scripted)) as started:
        client = connect(started)
        assembled = client.get("/api/model")["agent"]
        assert assembled["disabled_extensions"] == ["context_demo"]
        assert "glossary" not in [one["id"] for one in assembled["agents"]]
        scripted.on("What is duct loss?", say("It is a loss."))
        client.chat("What is duct loss?")
    assert LEAD not in first_prompt(scripted, "What is duct loss?")
