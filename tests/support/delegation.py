"""Extensions with an agent `chief` that may delegate, and what a test reads of its runs."""

from __future__ import annotations

from typing import Any

from tests.support.app import Frame
from tests.support.scripted_turns import Turn, calls

HOUSE = """
def setup(registry):
    registry.register_agent(
        "chief", "Leads.", "You lead.", ["now", "write_file"],
        delegates=["researcher"], label="Chief",
    )
    registry.register_agent(
        "researcher", "Finds things out.", "You research.",
        ["now", "calculate", "write_file", "ask_user", "update_plan", "request_plan_approval"],
        label="Researcher", RESEARCHER
    )
"""
"""An agent `chief` with the delegate `researcher`."""


def house(options: str = "") -> str:
    """Return the extension, with further options of `researcher`."""
    return HOUSE.replace("RESEARCHER", options)


def delegating(*tasks: str, agent: str = "researcher") -> Turn:
    """Answer with a call of `delegate` for each task; their ids are `call_1`, `call_2` …"""
    return calls(
        [
            ("delegate", {"agent": agent, "task": task}, f"call_{number}")
            for number, task in enumerate(tasks, start=1)
        ]
    )


def of_agent(frames: list[Frame], agent_id: str) -> list[str]:
    """Return the types of the events that carry this `agent_id`."""
    return [frame.type for frame in frames if frame.data.get("agent_id") == agent_id]


def parts_of(messages: list[dict[str, Any]], tool: str = "delegate") -> list[dict[str, Any]]:
    """Return the calls of a tool in a history, in order."""
    return [
        part
        for message in messages
        for part in message["parts"]
        if part["type"] == "tool_call" and part["tool"] == tool
    ]
