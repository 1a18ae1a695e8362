"""Checks what clients saw and what is stored against the promises, as Jepsen's checkers do.

Every client notes what it sent and what came back; at the end the database is read. Each finding
is one sentence that names the promise. Nothing here talks to a server.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

RESTING = frozenset({"success", "failed", "cancelled", "interrupted"})


@dataclass
class Sent:
    """One message of one client."""

    text: str
    """Unique among all."""
    session_id: str = ""
    run_id: str = ""
    """Empty where no answer came that let it in: it may have been or not."""
    seen: list[dict[str, Any]] = field(default_factory=list)
    """The events that the client saw, in order, over all its connections."""
    approved_again: int = 0
    """How often the client let a call run that may have happened."""


@dataclass(frozen=True)
class Stored:
    """What the database holds at the end."""

    runs: Mapping[str, str]
    """Status by id."""
    events: Mapping[str, Sequence[dict[str, Any]]]
    """By run, in order, each with its `seq`."""
    messages: Mapping[str, Sequence[tuple[str, str]]]
    """By session, in order: role and text."""
    running_jobs: int
    owners_of_resting: int
    """Rested runs that still belong to somebody."""


def findings(sent: Sequence[Sent], stored: Stored, effects: Iterable[str]) -> list[str]:
    """Return everything that breaks a promise.

    Args:
        sent: all messages, those of one session in the order in which they were sent.
        stored: the database, once everything has come to rest.
        effects: what side-effecting calls left behind, one text for each time.
    """
    found: list[str] = []
    for one in sent:
        if one.run_id:
            found += _run(one, stored)
    found += _sessions(sent, stored)
    found += _effects(sent, Counter(effects))
    found += [f"P1: run {run} is {status}" for run, status in stored.runs.items()
              if status not in RESTING]  # fmt: skip
    if stored.owners_of_resting:
        found.append(f"leak: {stored.owners_of_resting} rested runs belong to somebody")
    if stored.running_jobs:
        found.append(f"leak: {stored.running_jobs} tickets are in hand")
    return found


def _run(one: Sent, stored: Stored) -> list[str]:
    if one.run_id not in stored.runs:
        return [f"P1: the accepted run {one.run_id} of {one.text!r} is lost"]
    events = stored.events.get(one.run_id, ())
    numbers = [event["seq"] for event in events]
    found: list[str] = []
    if numbers != list(range(1, len(numbers) + 1)):
        found.append(f"P7: run {one.run_id} has the numbers {numbers}")
    by_number = {event["seq"]: event["type"] for event in events}
    found += [
        f"P7: {one.text!r} saw {event['type']} {event['seq']}, which is not stored"
        for event in one.seen
        if by_number.get(event["seq"]) != event["type"]
    ]
    seen = [event["seq"] for event in one.seen]
    if seen != list(range(1, len(seen) + 1)):
        found.append(f"P7: the client of {one.text!r} saw the numbers {seen}")
    elif len(seen) != len(numbers):
        found.append(f"P7: the client of {one.text!r} saw {len(seen)} of {len(numbers)} events")
    return found


def _sessions(sent: Sequence[Sent], stored: Stored) -> list[str]:
    found: list[str] = []
    by_session: dict[str, list[str]] = {}
    for one in sent:
        if one.run_id:
            by_session.setdefault(one.session_id, []).append(one.text)
    for session, texts in by_session.items():
        messages = stored.messages.get(session, ())
        users = [text for role, text in messages if role == "user"]
        if users != texts:
            found.append(f"P5: session {session} has {users}, not {texts}")
        replies = [one for one in messages if one[0] == "assistant"]
        for text in texts:
            # As a whole word: the tenth message of a talker begins like the first.
            answers = [said for _, said in replies if text in said.split()]
            if answers != [f"echo {text}"]:
                found.append(f"P8: {text!r} was answered with {answers}")
    return found


def _effects(sent: Sequence[Sent], effects: Counter[str]) -> list[str]:
    allowed = {one.text: 1 + one.approved_again for one in sent}
    return [
        f"P3: the effect of {text!r} happened {count} times"
        for text, count in effects.items()
        if count > allowed.get(text, 0)
    ]
