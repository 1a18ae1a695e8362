"""Short titles made by a model, in the background, once a run is over (CHAT-23, OPS-16)."""

from __future__ import annotations

import asyncio
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

from core.clock import Clock
from core.faults import fault
from core.ids import new_id
from core.log import bind, get_logger
from core.ports import ModelHandle, Models
from core.records import MessageRecord, RunRecord, UsageRecord
from core.registry import Assembly
from core.settings import Settings
from core.types import RunKind
from runtime.gates import run_hooks
from runtime.policing import gated
from runtime.rows import owner_of
from storage.database import Database
from tools.hooked_model import hooked

LONGEST = 60
"""Characters of a title."""

READ = 2_000
"""Characters of each message that the model is shown."""

TOKENS = 400
"""What the model may write, its reasoning included."""

AT_ONCE = 4

PROMPT = (
    "Write a title for this conversation: at most eight words, in the language of the user, "
    "without quotation marks and without a full stop. Answer with the title only."
)

log = get_logger(__name__)


class Titles:
    """Makes titles for sessions that still have the one cut from their first message."""

    def __init__(
        self,
        database: Database,
        models: Models,
        settings: Settings,
        assembly: Assembly,
        clock: Clock,
    ) -> None:
        self._database = database
        self._models = models
        self._assembly = assembly
        self._on = settings.titles == "on"
        self._clock = clock
        self._tasks: set[asyncio.Task[None]] = set()
        self._free = asyncio.Semaphore(AT_ONCE)

    async def after_run(self, run: RunRecord) -> None:
        """Begin to make a title where one is wanted; returns at once."""
        if not self._on or run.kind is not RunKind.CHAT or self._guarded(run.agent):
            return
        task = asyncio.create_task(self._make(run), name="title")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def stop(self) -> None:
        """Give up what is under way; a missing title is no loss."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def idle(self) -> None:
        """Wait until nothing is under way."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # Helpers ----------------------------------------------------------------------------

    def _guarded(self, name: str) -> bool:
        """Tell whether an agent has middleware.

        What its users write may be shown to a model only through that, so such sessions keep
        their first words as title.
        """
        agent = self._assembly.agents.get(name)
        return agent is not None and agent.middleware is not None

    async def _make(self, run: RunRecord) -> None:
        with bind(trace_id=run.trace_id, run_id=run.id, session_id=run.session_id):
            try:
                async with self._free:
                    fault("title.before")
                    await self._title(run)
            except Exception:  # boundary: a title must never disturb anything
                log.warning("no title could be made", exc_info=True)

    async def _title(self, run: RunRecord) -> None:
        principal = owner_of(run)
        model = self._models.get(run.model)
        if model.is_demo:
            # It would repeat a scene from its script.
            return
        async with self._database.work() as work:
            session = await work.sessions.get(principal, run.session_id)
            messages, _ = await work.messages.page(principal, run.session_id, None, 6)
        if session.title_source != "cut" or not messages:
            return
        agent = self._assembly.agents.get(run.agent)
        if agent is not None:
            model = gated(model, self._assembly.policies, agent, self._clock)
        model = hooked(model, run_hooks(self._assembly, run, principal.user_name))
        answer = await _asked(model, messages)
        title = clean_title(answer.text)
        async with self._database.work() as work:
            await work.usage.add(self._usage(run, model, answer))
            session = await work.sessions.lock(principal, run.session_id)
            if title and session.title_source == "cut":
                await work.sessions.update(session.id, title=title, title_source="model")

    def _usage(self, run: RunRecord, model: ModelHandle, answer: AIMessage) -> UsageRecord:
        usage = answer.usage_metadata
        details: Any = (usage or {}).get("input_token_details") or {}
        return UsageRecord(
            id=new_id(),
            workspace_id=run.workspace_id,
            user_id=run.user_id,
            session_id=run.session_id,
            run_id=run.id,
            agent=run.agent,
            model=model.name,
            purpose="title",
            input_tokens=usage["input_tokens"] if usage else 0,
            output_tokens=usage["output_tokens"] if usage else 0,
            cached_tokens=int(details.get("cache_read") or 0),
            reasoning_tokens=0,
            usage_source=str(answer.response_metadata.get("usage_source") or "none"),
            created_at=self._clock.now(),
        )


async def _asked(model: ModelHandle, messages: list[MessageRecord]) -> AIMessage:
    lines = [
        f"{message.role}: {part['text'][:READ]}"
        for message in messages
        for part in message.parts
        if part["type"] == "text"
    ]
    answer: AIMessage = await model.ask(
        [SystemMessage(PROMPT), HumanMessage("\n\n".join(lines))],
        message_id=new_id(),
        max_tokens=TOKENS,
    )
    return answer


def clean_title(text: str) -> str:
    """Return the model's words as a title; empty where they are none."""
    line = next((line for line in text.strip().splitlines() if line.strip()), "")
    line = " ".join(line.strip().strip("\"'“”「」《》#*").removeprefix("Title:").split())
    return line if len(line) <= LONGEST else line[: LONGEST - 1].rstrip() + "…"
