"""Decides what becomes of a run that its process did not bring to an end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from langchain_core.messages import ToolMessage

from core.errors import RunLost
from core.log import bind, get_logger
from core.records import RunRecord
from core.settings import Settings
from core.tooling import ToolSpec
from runtime import ending
from runtime.claims import Claims
from runtime.drive import Drive
from runtime.engine import Engine
from runtime.subruns import TOOL_NODE, SubState
from runtime.thread import messages_in, open_calls

if TYPE_CHECKING:
    from langgraph.types import StateSnapshot

log = get_logger(__name__)


class Recovery:
    """Lets abandoned runs go on where that is safe, and ends them honestly where it is not."""

    def __init__(
        self,
        engine: Engine,
        claims: Claims,
        settings: Settings,
        go_on: Callable[[RunRecord], Awaitable[None]] | None = None,
    ) -> None:
        """Decide about runs that this process holds.

        Args:
            engine: ends those that must not go on.
            claims: holds them.
            settings: say how often a run may be taken over.
            go_on: what is done with those that may; they are queued again where missing.
        """
        self._engine = engine
        self._settings = settings
        self._go_on = go_on or claims.put_back

    async def decide(self, run: RunRecord) -> None:
        """Queue a run again, or end it as `interrupted` with the reason; never raises.

        The run is held by this process, and nobody drives it.
        """
        with bind(trace_id=run.trace_id, run_id=run.id, session_id=run.session_id):
            try:
                await self._engine.attend(run, self._decide)
            except RunLost as lost:
                log.warning("another process deals with this run by now: %s", lost.message)
            except Exception:  # boundary: one run that cannot be recovered must not stop others
                log.exception("an abandoned run could not be recovered")

    # Helpers ----------------------------------------------------------------------------

    async def _decide(self, drive: Drive) -> None:
        run = drive.run
        if run.cancel_requested:
            await ending.cancel(drive)
            return
        snapshot = await drive.thread.snapshot()
        reason = self._reason(drive, snapshot, await drive.sub_states(snapshot))
        if reason is None:
            await self._go_on(run)
        else:
            await ending.lose(drive, reason)

    def _reason(
        self, drive: Drive, snapshot: StateSnapshot, subs: Sequence[SubState]
    ) -> RunLost | None:
        """Return why the run must not go on, or none where it may."""
        broken_off = drive.run.takeovers + 1
        if broken_off >= self._settings.max_attempts:
            return RunLost(
                f"The server stopped during this run, {broken_off} times in all. "
                "Send another message to go on from here."
            )
        unknown = unknown_outcomes(snapshot, drive.ctx.tools)
        for state in subs:
            names = unknown_outcomes(state.snapshot, state.sub.tools)
            unknown += [f"{name} ({state.sub.agent.label})" for name in names]
        if unknown:
            return RunLost(
                f"The server stopped while {', '.join(unknown)} was carried out. It is not known "
                "whether it happened; check before you ask for it again.",
                details={"tools": unknown},
            )
        return None


def unknown_outcomes(snapshot: StateSnapshot, tools: Mapping[str, ToolSpec]) -> list[str]:
    """Return the tools that may have changed something before the run broke off.

    A call counts as begun once its step was: the moment between is too short to be told
    from the moment after.
    """
    begun = [task for task in snapshot.tasks if task.name == TOOL_NODE]
    if not begun:
        return []
    done: set[str] = set()
    for task in begun:
        result = cast("dict[str, Any]", task.result or {})
        messages = cast("list[ToolMessage]", result.get("messages") or [])
        done |= {message.tool_call_id for message in messages}
    return [
        call["name"]
        for call in open_calls(messages_in(snapshot))
        if call["id"] not in done and _risky(tools.get(call["name"]))
    ]


def _risky(spec: ToolSpec | None) -> bool:
    return spec is not None and spec.side_effect != "none" and not spec.idempotent
