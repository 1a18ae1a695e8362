"""How full a session's context window is, and with what (CHAT-22)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from core.context import PromptPart
from core.records import ArchiveRecord, RunRecord, SessionRecord
from core.tokens import estimate_text
from runtime.thread import messages_in, summary_in
from runtime.workshop import Workshop, preference_parts

FILES_MARK = "[Files that came with this message]"


@dataclass(frozen=True, slots=True)
class Use:
    """Estimated tokens by source, and how many fit."""

    parts: dict[str, int]
    limit: int


async def measure(
    workshop: Workshop,
    session: SessionRecord,
    preferences: dict[str, Any] | None,
    skills: Sequence[PromptPart],
) -> Use:
    """Return what the session's next request would be made of.

    Raises:
        NotFound: its agent is not there any more.
        Invalid: its model is not configured any more.
    """
    agent = workshop.agent(session.agent)
    thread = await workshop.thread(agent, session.id)
    from graphs.sizes import size_of_messages, size_of_system, size_of_tools

    snapshot = await thread.snapshot()
    messages = messages_in(snapshot)
    summary = summary_in(snapshot)
    memory = sum(estimate_text(part.text) for part in preference_parts(preferences))
    files = sum(
        estimate_text(message.text[message.text.index(FILES_MARK) :])
        for message in messages
        if message.type == "human" and FILES_MARK in message.text
    )
    tools = [spec.openai() for spec in workshop.tools(agent).values()]
    parts = {
        "system": size_of_system(agent, session.mode, skills),
        "tools": size_of_tools(tools),
        "memory": memory,
        "history": max(size_of_messages(messages, summary) - files, 0),
        "files": files,
    }
    return Use(parts, workshop.window(agent, session.model))


def shown(
    use: Use,
    session: SessionRecord,
    run: RunRecord | None,
    archives: Sequence[ArchiveRecord],
) -> dict[str, Any]:
    """Return the use for people: the provider's own last count where there is one."""
    counted = run.context_tokens if run is not None else 0
    source = str(run.usage.get("usage_source", "none")) if run is not None else "none"
    return {
        "id": session.id,
        "tokens": counted or sum(use.parts.values()),
        "limit": use.limit,
        "parts": use.parts,
        "usage_source": source if counted else "estimate",
        "archives": [asdict(archive) for archive in archives],
    }
