"""What a run has already said, for a drive that goes on where another one stopped."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from core.records import RunRecord, UsageRecord
from runtime.sink import Partial
from storage.database import Database

PAGE = 1000


@dataclass(slots=True)
class Recalled:
    """Facts of the run's stored events and rows."""

    began: bool = False
    """Whether an agent began before: the run goes on and does not start."""
    results: set[str] = field(default_factory=set[str])
    """Calls whose results watchers have seen."""
    called: set[str] = field(default_factory=set[str])
    """Calls that watchers have seen begin."""
    begun: set[str] = field(default_factory=set[str])
    """Calls that they have seen begin and not end."""
    stored: set[str] = field(default_factory=set[str])
    """Messages of the run that are stored."""
    agents: set[str] = field(default_factory=set[str])
    """Agents that watchers have seen begin, sub-runs too, by `agent_id`."""
    ended: set[str] = field(default_factory=set[str])
    """Those that they have seen end."""
    usage: list[UsageRecord] = field(default_factory=list[UsageRecord])
    """The run's model calls so far."""
    spoken: dict[str, Partial] = field(default_factory=dict[str, Partial])
    """Text that was shown of messages which are not stored whole."""

    def note(self, event: dict[str, Any]) -> None:
        """Take one stored event into account."""
        match event["type"]:
            case "agent_start":
                self.began = True
                self.agents.add(event["agent_id"])
            case "agent_done" | "agent_error":
                self.ended.add(event["agent_id"])
            case "tool_call":
                self.called.add(event["tool_call_id"])
                self.begun.add(event["tool_call_id"])
            case "tool_result":
                self.results.add(event["tool_call_id"])
                self.begun.discard(event["tool_call_id"])
            case "token":
                self._partial(event).text.append(event["content"])
            case "thinking_token":
                self._partial(event).thinking.append(event["content"])
            case "message_reset":
                self.spoken.pop(event["message_id"], None)
            case _:
                pass

    def _partial(self, event: dict[str, Any]) -> Partial:
        return self.spoken.setdefault(event["message_id"], Partial())


async def recall(database: Database, run: RunRecord) -> Recalled:
    """Read what a run has said. A run of which only the message is stored costs nothing."""
    recalled = Recalled()
    if run.last_seq <= 1:
        return recalled
    seq = 0
    async with database.work() as work:
        while True:
            events, _, _ = await work.events.after(run.id, seq, PAGE)
            for event in events:
                recalled.note(event.data)
            if len(events) < PAGE:
                break
            seq = events[-1].seq
        stored = await work.messages.of_run(run.id)
        usage = await work.usage.of_run(run.id)
    recalled.usage = [one for one in usage if one.purpose != "title"]
    recalled.stored = {message.id for message in stored if message.role == "assistant"}
    for message_id in recalled.spoken.keys() & recalled.stored:
        del recalled.spoken[message_id]
    return recalled
