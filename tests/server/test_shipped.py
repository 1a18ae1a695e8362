"""The shipped extensions at work for a person with a `.env`: over the API, and from a script."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.client import Client, text_of
from tests.support.process import COMMAND, ROOT, ServerProcess, end, environment
from tests.support.scripted_server import ScriptedServer
from tests.support.scripted_turns import call, say

pytestmark = [pytest.mark.req("EXT-12"), pytest.mark.timeout(120)]

ASKED = {
    "assistant": ("What is 17 times 23?", call("calculate", {"expression": "17*23"}), "391"),
    "ventilation": (
        "How much air?", call("airflow", {"volume_m3": 120, "air_changes_per_hour": 4}), "480.0",
    ),
    "glossary": ("What is duct loss?", call("explain_term", {"term": "duct loss"}), "by friction"),
}  # fmt: skip
"""One message for each agent that comes with the product, the call it makes, and what that gives."""

SCRIPT = """
import asyncio, json, sys
from runtime import RuntimeEnvironment, execute

async def work():
    told = {}
    async with RuntimeEnvironment():
        for agent, message in json.load(sys.stdin).items():
            result = await execute(user_name="report", message=message, agent=agent)
            told[agent] = [result.status, result.output, [one["title"] for one in result.citations]]
    print(json.dumps(told))

asyncio.run(work())
"""


class Home:
    """A folder that a person works in, with a `.env` of one line."""

    def __init__(self, folder: Path, url: str, scripted: ScriptedServer) -> None:
        self.folder = folder
        (folder / ".env").write_text("CONTEXT_DEMO_ENABLED=1\n")
        self.environment = environment(
            DATABASE_URL=url,
            OPENAI_BASE_URL=scripted.base_url,
            OPENAI_API_KEY="sk-test",
            OPENAI_MODEL="scripted",
            GW_TITLES="off",
            GW_DATA_DIR=str(folder / "data"),
            PYTHONPATH=str(ROOT),
        )
        # Of all that tests leave out, the file is what this is about.
        del self.environment["GW_ENV_PRIORITY"]
        for message, made, _ in ASKED.values():
            scripted.on(message, made, say("Done."))

    def run(self, *command: str, said: str = "") -> str:
        """Run a command in the folder and return its standard output."""
        ran = subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment,
            input=said,
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    def serve(self) -> ServerProcess:
        """Start the server in the folder."""
        process = subprocess.Popen(
            [*COMMAND, "serve", "--port", "0"],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        return ServerProcess(process, self.folder / "data").read()


@pytest.fixture
def home(tmp_path: Path, database_url: str, scripted: ScriptedServer) -> Home:
    return Home(tmp_path, database_url, scripted)


def recalled(scripted: ScriptedServer) -> bool:
    """Tell whether the middleware of `context_demo` stood before the model."""
    [first, *_] = [one for one in scripted.requests if one.last_user == "What is duct loss?"]
    return "Pressure that air loses by friction" in str(first.messages[0]["content"])


def test_all_three_work_over_the_api(home: Home, scripted: ScriptedServer) -> None:
    started = home.serve()
    try:
        started.wait_ready()
        key = home.run(*COMMAND, "key", "create", "--name", "me").strip()
        client = Client(started.url, key)
        for agent, (message, _, part) in ASKED.items():
            frames = client.chat(message, agent=agent)
            assert frames[-1]["type"] == "done", frames[-1]
            assert text_of(frames) == "Done."
            [result] = [one for one in frames if one["type"] == "tool_result"]
            assert part in result["content"]
        model: dict[str, Any] = client.http.get("/api/model").json()["agent"]
        client.close()
    finally:
        end(started)
    assert recalled(scripted)
    assert {"context_demo", "core", "demo"} <= set(model["extensions"])
    assert model["disabled_extensions"] == []
    assert [one["name"] for one in model["services"]] == ["glossary"]
    [middleware] = model["middleware"]
    assert (middleware["name"], middleware["targets"]) == (
        "glossary_recall", ["assistant", "glossary"],
    )  # fmt: skip


def test_all_three_work_from_a_script(home: Home, scripted: ScriptedServer) -> None:
    messages = {agent: message for agent, (message, _, _) in ASKED.items()}
    told = json.loads(home.run(sys.executable, "-c", SCRIPT, said=json.dumps(messages)))
    assert list(told) == list(ASKED)
    assert {tuple(said[:2]) for said in told.values()} == {("success", "Done.")}
    assert told["ventilation"][2] == ["Airflow rule of the demo extension"]
    assert told["glossary"][2] == ["Glossary: duct loss"]
    assert recalled(scripted)


def test_the_line_in_dotenv_alone_switches_it_on(home: Home) -> None:
    def state() -> str:
        listed = home.run(*COMMAND, "extension", "list")
        [line] = [line for line in listed.splitlines() if line.startswith("context_demo")]
        return " ".join(line.split())

    assert state() == (
        "context_demo loaded agents: glossary; tools: explain_term; services: glossary; "
        "middleware: glossary_recall"
    )
    (home.folder / ".env").write_text("# nothing\n")
    assert state() == "context_demo disabled"
    assert not (home.folder / "data").exists()
