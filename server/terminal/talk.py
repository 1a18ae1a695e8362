"""The conversation: reads messages, shows runs, answers what they ask."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Final, cast

from server.terminal.asking import Read, answer_to
from server.terminal.screen import Screen
from server.terminal.wire import Frame, Refused, Wire

OK: Final = 0
FAILED: Final = 1
WAITING: Final = 5
"""The run waits for an answer, and nobody is there to give one."""


@dataclass(slots=True)
class Talk:
    """One session at the terminal."""

    wire: Wire
    screen: Screen
    read: Read | None
    """Missing: nobody can be asked."""
    session_id: str | None = None
    fields: dict[str, str] = field(default_factory=dict)
    """Further fields of each message, such as the agent."""

    async def once(self, message: str) -> int:
        """Send one message, show the run to its end, and return the exit code."""
        return await self._shown(self.wire.send(message, self.session_id, **self.fields))

    async def loop(self) -> int:
        """Talk until the person has had enough."""
        assert self.read is not None
        self.screen.note("Write a message. Ctrl+C stops a run, Ctrl+D ends.")
        await self._open_question()
        while True:
            try:
                message = await self.read("you> ")
            except EOFError:
                break
            if not message:
                continue
            with contextlib.suppress(Refused):
                await self.once(message)
        if self.session_id:
            self.screen.note(f"\nGo on later: graphwright chat --session {self.session_id}")
        return OK

    async def _open_question(self) -> None:
        """Answer first what the session was left with."""
        if self.session_id and (frame := await self.wire.pending(self.session_id)):
            await self._answered(frame)

    async def _answered(self, frame: Frame) -> int:
        if self.read is None:
            self.screen.headline(frame["message"])
            self.screen.note(
                f"The run waits. Answer it: graphwright chat --session {frame['session_id']}"
            )
            return WAITING
        while True:
            try:
                answer = await answer_to(frame, self.screen, self.read)
            except EOFError:
                self.screen.note("Left unanswered; the run waits.")
                return WAITING
            try:
                return await self._shown(self.wire.resume(frame, answer))
            except Refused as refused:
                if refused.code != "invalid":
                    raise

    async def _shown(self, frames: AsyncIterator[Frame]) -> int:
        """Show a stream to its end; what it asks is asked."""
        last: Frame = {}
        try:
            # The stream is a generator: closing it closes the connection.
            async with aclosing(cast("Any", frames)) as stream:
                with self._stopping() as seen:
                    async for frame in stream:
                        self.session_id = seen["session_id"] = frame["session_id"]
                        seen["run_id"] = frame["run_id"]
                        last = frame
                        self.screen.show(frame)
        except Refused as refused:
            self.screen.problem(str(refused))
            raise
        self.screen.end_line()
        if last.get("type") == "interrupt":
            return await self._answered(last)
        return OK if last.get("type") == "done" else FAILED

    @contextlib.contextmanager
    def _stopping(self) -> Iterator[dict[str, str]]:
        """Let Ctrl+C cancel the run that is shown, instead of ending the program."""
        seen: dict[str, str] = {}
        loop, tasks = asyncio.get_running_loop(), set[asyncio.Task[None]]()

        def stop() -> None:
            if run_id := seen.get("run_id"):
                self.screen.note("(stopping)")
                tasks.add(asyncio.create_task(self.wire.cancel(run_id)))

        if self.read is not None:
            loop.add_signal_handler(signal.SIGINT, stop)
        try:
            yield seen
        finally:
            if self.read is not None:
                loop.remove_signal_handler(signal.SIGINT)
