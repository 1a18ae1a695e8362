"""A scripted, strict provider that speaks the OpenAI protocol over real HTTP on loopback.

In tests use the fixture `scripted`. By hand:

    python -m tests.support.scripted_server --port 9999 --script FILE

where FILE is Python with `def setup(server)`; without it every message is echoed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import runpy
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tests.support.scripted_http import ClientLeft, Exchange, whole_body
from tests.support.scripted_strict import Rules, fault_of
from tests.support.scripted_turns import Gate, Raw, Turn, TurnMaker, echo, error

Match = str | re.Pattern[str] | Callable[["Seen"], bool]
"""Text that the last user message contains, a pattern found in it, or a test of the request."""

Play = Turn | TurnMaker


@dataclass
class Seen:
    """One request as it arrived."""

    path: str
    body: dict[str, Any]
    headers: dict[str, str]
    at: float
    """`time.monotonic()` of the arrival."""
    connection: int
    """Number of the TCP connection that carried it."""
    raw: bytes
    refused: str | None = None
    """What the strict check found."""
    left: bool = False
    """Whether the client went away before the end of the answer."""
    ended: bool = False

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The messages of the request."""
        return self.body.get("messages") or []

    @property
    def last_user(self) -> str:
        """The last user message."""
        spoken = [m for m in self.messages if isinstance(m, dict) and m.get("role") == "user"]
        return str(spoken[-1].get("content")) if spoken else ""

    @property
    def round(self) -> int:
        """How many assistant turns came after the last user message."""
        count = 0
        for message in reversed(self.messages):
            if message.get("role") == "user":
                break
            count += message.get("role") == "assistant"
        return count

    @property
    def tool_names(self) -> list[str]:
        """Names of the tools that were offered."""
        return [tool["function"]["name"] for tool in self.body.get("tools") or []]

    @property
    def prompt_tokens(self) -> int:
        """A rough count: four bytes a token."""
        return len(json.dumps(self.messages, ensure_ascii=False).encode()) // 4


@dataclass
class _Rule:
    match: Match
    turns: tuple[Play, ...]
    by_round: bool
    used: int = 0

    def place(self, seen: Seen) -> int:
        """Return where in the last user message the rule fits; -1 where it does not."""
        if isinstance(self.match, str):
            return seen.last_user.rfind(self.match)
        if isinstance(self.match, re.Pattern):
            return max((found.start() for found in self.match.finditer(seen.last_user)), default=-1)
        return len(seen.last_user) if self.match(seen) else -1

    def next(self, seen: Seen) -> Play:
        number = seen.round if self.by_round else self.used
        self.used += 1
        return self.turns[min(number, len(self.turns) - 1)]


@dataclass
class ScriptedServer:
    """Runs in a thread of its own, so that sync tests and other loops can use it."""

    rules: Rules = field(default_factory=Rules)
    default: Play = echo
    models: list[str] = field(default_factory=lambda: ["scripted"])
    key: str | None = None
    """When set, requests with another key get 401."""
    window: tuple[int, Turn] | None = None
    """Prompts of more tokens than the first get the second."""
    requests: list[Seen] = field(default_factory=list)
    """Every chat request, in order of arrival, refused ones too."""
    port: int = 0

    _script: list[Play] = field(default_factory=list)
    _ruled: list[_Rule] = field(default_factory=list)
    _gates: list[Gate] = field(default_factory=list)
    _connections: int = 0

    # What plays ---------------------------------------------------------------------------

    def play(self, *turns: Play) -> None:
        """Answer the next requests with these turns, one each, whoever asks."""
        self._script.extend(turns)

    def on(self, match: Match, *turns: Play) -> None:
        """Answer requests that match: the first turn to the first round after a user message,

        the second to the round after its tool results, and so on; the last one repeats. So
        any number of sessions can play the same script at once.
        """
        self._ruled.append(_Rule(match, turns, by_round=True))

    def on_each(self, match: Match, *turns: Play) -> None:
        """Answer the first request that matches with the first turn, the next with the second."""
        self._ruled.append(_Rule(match, turns, by_round=False))

    def refuse_over(self, tokens: int, turn: Turn) -> None:
        """Answer longer prompts with that turn, until called again with another."""
        self.window = (tokens, turn)

    @property
    def base_url(self) -> str:
        """What OPENAI_BASE_URL is set to."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def refused(self) -> list[str]:
        """What the strict check found in all requests so far."""
        return [seen.refused for seen in self.requests if seen.refused]

    def wait_for(self, count: int, seconds: float = 5.0) -> list[Seen]:
        """Wait until so many requests have arrived (call it in a thread from async code)."""
        with self._arrived:
            if not self._arrived.wait_for(lambda: len(self.requests) >= count, seconds):
                raise AssertionError(f"{len(self.requests)} of {count} requests arrived")
        return self.requests[:count]

    # Life ---------------------------------------------------------------------------------

    def start(self) -> ScriptedServer:
        """Listen; returns once connections are accepted."""
        self._arrived = threading.Condition()
        ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(ready,), daemon=True)
        self._thread.start()
        if not ready.wait(10):
            raise AssertionError("the scripted server did not start")
        return self

    def stop(self) -> None:
        """Close every connection and stop listening."""
        for gate in self._gates:
            gate.open()
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join(10)

    def _run(self, ready: threading.Event) -> None:
        asyncio.run(self._serve(ready))

    async def _serve(self, ready: threading.Event) -> None:
        self._loop, self._stopped = asyncio.get_running_loop(), asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = server.sockets[0].getsockname()[1]
        ready.set()
        await self._stopped.wait()
        server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._connections += 1
        try:
            await self._talk(Exchange(reader, writer, self._gates), self._connections)
        except (ClientLeft, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _talk(self, exchange: Exchange, connection: int) -> None:
        while await exchange.read():
            if exchange.method == "GET" and exchange.path.endswith("/models"):
                listed = [{"id": name, "object": "model"} for name in self.models]
                body = json.dumps({"object": "list", "data": listed}).encode()
                locked = self.key not in (None, _key_of(exchange.headers))
                await exchange.write(error(401) if locked else _json(body), lambda: None)
            elif exchange.method == "POST" and exchange.path.endswith("/chat/completions"):
                await self._answer(exchange, connection)
            else:
                await exchange.write(error(404), lambda: None)

    async def _answer(self, exchange: Exchange, connection: int) -> None:
        seen = self._seen(exchange, connection)
        turn = self._turn(seen)
        usage = _usage_of(turn, seen)
        if turn.whole is not None and not seen.body.get("stream"):
            turn = _json(whole_body(turn, usage))
        options = seen.body.get("stream_options") or {}
        try:
            await exchange.write(turn, lambda: usage if options.get("include_usage") else None)
            seen.ended = True
        except ClientLeft:
            seen.left = True
            raise

    def _seen(self, exchange: Exchange, connection: int) -> Seen:
        try:
            body = json.loads(exchange.body)
        except ValueError:
            body = {}
        seen = Seen(
            exchange.path, body, exchange.headers, time.monotonic(), connection, exchange.body
        )
        seen.refused = fault_of(body, self.rules)
        with self._arrived:
            self.requests.append(seen)
            self._arrived.notify_all()
        return seen

    def _turn(self, seen: Seen) -> Turn:
        if self.key not in (None, _key_of(seen.headers)):
            return error(401, {"error": {"message": "Incorrect API key provided", "code": 401}})
        if seen.refused:
            body = {"message": seen.refused, "type": "invalid_request_error", "code": None}
            return error(400, {"error": body})
        if self.window and seen.prompt_tokens > self.window[0]:
            return self.window[1]
        # Messages that a failed run left unanswered are sent as one with the next: the words
        # that come last count.
        rule = max(self._ruled, key=lambda one: one.place(seen), default=None)
        if rule is not None and rule.place(seen) >= 0:
            play: Play = rule.next(seen)
        elif self._script:
            play = self._script.pop(0)
        else:
            play = self.default
        return play if isinstance(play, Turn) else play(seen)


def _key_of(headers: Mapping[str, str]) -> str:
    return headers.get("authorization", "").removeprefix("Bearer ")


def _json(body: bytes) -> Turn:
    return Turn((Raw(body),), content_type="application/json")


def _usage_of(turn: Turn, seen: Seen) -> Mapping[str, Any] | None:
    if turn.usage != "auto":
        return turn.usage
    said = len(json.dumps(turn.whole, ensure_ascii=False).encode()) // 4 if turn.whole else 1
    prompt = max(seen.prompt_tokens, 1)
    return {"prompt_tokens": prompt, "completion_tokens": said, "total_tokens": prompt + said}


def main() -> None:
    """Serve by hand until interrupted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--script", help="Python file with def setup(server)")
    parser.add_argument("--lenient", action="store_true", help="accept malformed histories")
    options = parser.parse_args()
    server = ScriptedServer(port=options.port)
    server.rules = replace(server.rules, on=not options.lenient)
    if options.script:
        runpy.run_path(options.script)["setup"](server)
    server.start()
    print(f"OPENAI_BASE_URL={server.base_url}", flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
