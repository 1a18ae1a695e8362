"""How large the parts of a request are, for those who show it to people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AnyMessage

from core.context import PromptPart
from core.tokens import estimate_text
from core.tooling import AgentSpec
from core.types import Mode
from nodes.prompt import system_prompt
from nodes.tokens import size_of_all, size_of_tools
from nodes.view import build_view

__all__ = ["size_of_messages", "size_of_system", "size_of_tools"]


def size_of_system(agent: AgentSpec, mode: Mode, further: Sequence[PromptPart] = ()) -> int:
    """Return about how many tokens the agent's own system prompt takes."""
    return estimate_text(system_prompt(agent, mode, further))


def size_of_messages(messages: Sequence[AnyMessage], summary: Mapping[str, Any]) -> int:
    """Return about how many tokens the conversation takes as the model sees it."""
    return size_of_all(build_view(messages, "", summary)[1:])
