"""The command line: quick, explained, with exit codes one can rely on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from core.errors import ConfigError, Fault, NotFound, Unavailable
from server.cli import app
from server.cli_base import run
from tests.support.process import ROOT, environment

pytestmark = pytest.mark.req("OPS-03")

COMMANDS = [
    "serve",
    "migrate",
    "link",
    "doctor",
    "chat",
    "version",
    "key create",
    "key list",
    "key revoke",
    "extension new",
    "extension list",
]


@pytest.mark.parametrize("command", [name for name in COMMANDS if name != "version"])
def test_the_help_of_every_command_has_examples_that_begin_with_it(command: str) -> None:
    shown = CliRunner().invoke(app, [*command.split(), "--help"])
    assert shown.exit_code == 0
    assert "Examples:" in shown.output
    assert f"graphwright {command}" in shown.output


def test_the_help_names_every_command_and_the_exit_codes() -> None:
    shown = CliRunner().invoke(app, ["--help"])
    for name in {command.split()[0] for command in COMMANDS}:
        assert name in shown.output
    for code in ("0 done", "1 failed", "2 wrong use", "3 the", "130 interrupted"):
        assert code in " ".join(shown.output.split())


def test_help_loads_none_of_the_heavy_libraries() -> None:
    """What would cost seconds: the whole product, a database driver, a web framework."""
    code = (
        "import sys, server.cli\n"
        "heavy = {'langgraph', 'langchain_core', 'fastapi', 'sqlalchemy', 'psycopg', 'alembic',"
        " 'pydantic', 'httpx', 'uvicorn', 'procrastinate'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert told.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (
            ConfigError([Fault("A", "is wrong.", "Mend A."), Fault("B", "too.", "Mend B.")]),
            3,
            "Mend B",
        ),
        (Unavailable("The database is away."), 4, "The database is away."),
        (NotFound("No such key."), 1, "No such key."),
        (KeyboardInterrupt(), 130, ""),
    ],
    ids=["configuration", "unavailable", "failed", "interrupted"],
)
def test_known_failures_become_sentences_and_codes(
    error: BaseException, code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async def work() -> None:
        raise error

    import typer

    with pytest.raises(typer.Exit) as ended:
        run(work)
    assert ended.value.exit_code == code
    shown = capsys.readouterr()
    assert words in shown.err
    assert shown.out == ""
    assert "Traceback" not in shown.err


def test_an_unknown_failure_is_not_hidden() -> None:
    async def work() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(work)


@pytest.mark.parametrize(
    "arguments",
    [["serve", "--port", "70000"], ["key", "create"], ["nothing"], ["chat"]],
    ids=" ".join,
)
def test_wrong_use_ends_with_2(arguments: list[str]) -> None:
    assert CliRunner().invoke(app, arguments).exit_code == 2


def test_main_py_is_the_same_command() -> None:
    told = subprocess.run(
        [sys.executable, str(Path(ROOT) / "main.py"), "version"],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert told.stdout.strip()[0].isdigit()


@pytest.mark.req("OPS-01")
def test_a_server_is_ready_without_langgraph_which_is_loaded_after_it() -> None:
    """A third of the start: what is needed only by the first run waits until then."""
    code = (
        "import sys, server.serve\n"
        "late = {'langgraph', 'langsmith', 'langchain_openai', 'alembic', 'mcp', 'docker'}\n"
        "print(sorted(late & set(sys.modules)))\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert told.stdout.strip() == "[]"
