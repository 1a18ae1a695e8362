"""The terminal client against the real server: what it shows, asks and answers."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from core.clock import SystemClock
from server.terminal import talk
from server.terminal.screen import Screen, clean
from server.terminal.talk import Talk
from server.terminal.wire import Refused, Wire
from tests.support.app import Served, provider_settings, served_product
from tests.support.scripted_server import ScriptedServer
from tests.support.scripted_turns import call, calls, say

pytestmark = pytest.mark.req("OPS-03")


class Terminal:
    """A person who types prepared lines, and what they see."""

    def __init__(self, wire: Wire, *lines: str, present: bool = True) -> None:
        self.out, self.notes, self.prompts = io.StringIO(), io.StringIO(), list[str]()
        self._lines: Iterator[str] = iter(lines)
        screen = Screen(self.out, self.notes)
        self.talk = Talk(wire, screen, self._read if present else None)

    async def _read(self, prompt: str) -> str:
        self.prompts.append(prompt)
        try:
            return next(self._lines)
        except StopIteration:
            raise EOFError from None

    @property
    def left(self) -> list[str]:
        return list(self._lines)


Sit = Callable[..., Terminal]


@pytest.fixture
async def served(
    database_url: str, tmp_path: Path, scripted: ScriptedServer
) -> AsyncIterator[Served]:
    options = {**provider_settings(scripted.base_url), "hitl_tools": "calculate"}
    async with served_product(database_url, tmp_path, **options) as running:
        yield running


@pytest.fixture
async def sit(served: Served) -> AsyncIterator[Sit]:
    """Sits down at a terminal with the owner's key."""
    wires: list[Wire] = []

    def down(*lines: str, present: bool = True) -> Terminal:
        wires.append(Wire(served.url, served.key, SystemClock()))
        return Terminal(wires[-1], *lines, present=present)

    yield down
    for wire in wires:
        await wire.close()


async def test_the_answer_goes_to_stdout_and_everything_about_it_to_stderr(
    sit: Sit, scripted: ScriptedServer
) -> None:
    scripted.on("time", call("now", {}), say("It is late."))
    person = sit()
    assert await person.talk.once("what time is it?") == talk.OK
    assert person.out.getvalue() == "It is late.\n"
    notes = person.notes.getvalue()
    assert "> now {}" in notes
    assert "< now: " in notes


async def test_reasoning_is_shown_apart_from_the_answer(sit: Sit, scripted: ScriptedServer) -> None:
    scripted.on("why", say("Because.", reasoning="let me think"))
    person = sit()
    assert await person.talk.once("why?") == talk.OK
    assert person.out.getvalue() == "Because.\n"
    assert "let me think" in person.notes.getvalue()


@pytest.mark.req("EXEC-20")
@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (["a"], "391"),
        (["approve"], "391"),
        (["nonsense", "a"], "391"),
        (["e", "not json", "[1]", '{"expression": "2+2"}'], "4"),
        (["r", "too dear"], "too dear"),
        (["r", ""], "rejected"),
        (["s", "", "it is 7"], "it is 7"),
    ],
    ids=["a", "word", "again", "edit", "reject", "reject-mute", "respond"],
)
async def test_an_approval_is_asked_for_and_the_decision_reaches_the_model(
    sit: Sit, scripted: ScriptedServer, lines: list[str], told: str
) -> None:
    scripted.on("sum", call("calculate", {"expression": "17 * 23"}), say("done"))
    person = sit(*lines)
    assert await person.talk.once("sum it") == talk.OK
    assert person.out.getvalue().endswith("done\n")
    assert person.left == []
    result = next(m for m in scripted.requests[-1].messages if m["role"] == "tool")
    assert told in result["content"].lower()
    assert scripted.refused == []


@pytest.mark.req("EXEC-20")
async def test_always_is_not_asked_again_in_the_session(sit: Sit, scripted: ScriptedServer) -> None:
    scripted.on("sum", call("calculate", {"expression": "1+1"}), say("done"))
    person = sit("l")
    assert await person.talk.once("sum it") == talk.OK
    assert await person.talk.once("sum it again") == talk.OK
    assert len(person.prompts) == 1


async def test_each_call_of_a_batch_is_decided_by_itself(
    sit: Sit, scripted: ScriptedServer
) -> None:
    batch = [("calculate", {"expression": "1+1"}), ("calculate", {"expression": "2+2"})]
    scripted.on("both", calls(batch), say("done"))
    person = sit("a", "r", "no")
    assert await person.talk.once("both") == talk.OK
    results = [m["content"] for m in scripted.requests[-1].messages if m["role"] == "tool"]
    assert "2" in results[0]
    assert "no" in results[1]


@pytest.mark.req("EXEC-08")
async def test_questions_are_asked_one_by_one(sit: Sit, scripted: ScriptedServer) -> None:
    questions = [
        {"question": "Which colour?", "kind": "single", "options": ["red", "blue"]},
        {"question": "Which sizes?", "kind": "multiple", "options": ["S", "M", "L"]},
        {"question": "What name?", "kind": "text"},
    ]
    scripted.on("ask me", call("ask_user", {"questions": questions}), say("thanks"))
    person = sit("9", "2", "1, 3", "Ada")
    assert await person.talk.once("ask me") == talk.OK
    result = next(m for m in scripted.requests[-1].messages if m["role"] == "tool")
    for word in ("blue", "S", "L", "Ada"):
        assert word in result["content"]
    assert "red" in person.notes.getvalue()


@pytest.mark.req("EXEC-07")
@pytest.mark.parametrize(
    ("lines", "word"),
    [(["a"], "approv"), (["e", "Only step one."], "Only step one."), (["r", "shorter"], "shorter")],
    ids=["approve", "edit", "reject"],
)
async def test_a_plan_is_shown_and_decided(
    sit: Sit, scripted: ScriptedServer, lines: list[str], word: str
) -> None:
    scripted.on("plan", call("request_plan_approval", {"plan": "1. Do it."}), say("going"))
    person = sit(*lines)
    assert await person.talk.once("plan it") == talk.OK
    assert "1. Do it." in person.notes.getvalue()
    result = next(m for m in scripted.requests[-1].messages if m["role"] == "tool")
    assert word in result["content"]


@pytest.mark.req("EXEC-22")
async def test_without_a_person_the_run_waits_and_can_be_answered_later(
    sit: Sit, scripted: ScriptedServer
) -> None:
    scripted.on("sum", call("calculate", {"expression": "17 * 23"}), say("done"))
    program = sit(present=False)
    assert await program.talk.once("sum it") == talk.WAITING
    session_id = program.talk.session_id
    assert f"--session {session_id}" in program.notes.getvalue()
    person = sit("a")
    person.talk.session_id = session_id
    assert await person.talk.loop() == talk.OK
    assert person.out.getvalue() == "done\n"


async def test_a_conversation_goes_on_in_one_session_until_the_input_ends(
    sit: Sit, scripted: ScriptedServer
) -> None:
    person = sit("one", "", "two")
    assert await person.talk.loop() == talk.OK
    assert person.out.getvalue() == "echo: one\necho: two\n"
    spoken = [m["content"] for m in scripted.requests[-1].messages if m["role"] == "user"]
    assert [text for text in spoken if text in ("one", "two")] == ["one", "two"]


async def test_a_failed_run_is_told_with_its_code(sit: Sit, scripted: ScriptedServer) -> None:
    scripted.key = "another"
    person = sit()
    assert await person.talk.once("hello") == talk.FAILED
    assert "(provider_auth)" in person.notes.getvalue()


async def test_a_refusal_is_told_in_the_servers_own_words(sit: Sit) -> None:
    person = sit()
    person.talk.session_id = "00000000-0000-0000-0000-000000000000"
    with pytest.raises(Refused):
        await person.talk.once("hello")
    assert "Nothing with this id" in person.notes.getvalue()


@asynccontextmanager
async def cut_line(url: str) -> AsyncIterator[tuple[str, list[int]]]:
    """A proxy whose first connection breaks after the first frame that holds text."""
    host, port = url.removeprefix("http://").split(":")
    broken: list[int] = []

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, cut: bool) -> None:
        while data := await reader.read(65536):
            writer.write(data)
            if cut and not broken and b'"token"' in data:
                broken.append(1)
                break
        writer.close()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(host, int(port))
        await asyncio.gather(
            pump(reader, back, cut=False), pump(there, writer, cut=True), return_exceptions=True
        )

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", broken


@pytest.mark.req("CHAT-07")
async def test_a_broken_line_is_attached_again_and_no_text_is_lost_or_doubled(
    served: Served, scripted: ScriptedServer
) -> None:
    scripted.on("long", say("a text of many pieces that arrives whole", pause=0.02))
    async with cut_line(served.url) as (url, broken):
        wire = Wire(url, served.key, SystemClock())
        person = Terminal(wire)
        assert await person.talk.once("long") == talk.OK
        await wire.close()
    assert broken
    assert person.out.getvalue() == "a text of many pieces that arrives whole\n"


def test_a_model_cannot_drive_the_terminal() -> None:
    assert clean("a\x1b[2J\x07b\r\n\tc\x9b") == "a[2Jb\n\tc"
