"""Shapes of agents and models."""

from __future__ import annotations

from pydantic import Field

from api.schemas import Output


class Agent(Output):
    """An agent that can be talked to."""

    id: str
    """Its name, as `POST /api/chat` takes it."""
    label: str
    description: str
    tools: list[str]
    approval_tools: list[str]
    delegates: list[str]
    """Agents that it may give tasks to."""
    delegate_only: bool
    """Whether it takes tasks of other agents only, and no messages."""
    default: bool
    middleware: list[str]
    """Names of those around it, the outermost first."""
    holds_back: bool
    """Whether an answer is shown only once no middleware can change it any more."""
    policies: dict[str, str] = Field(description="Names of policies by kind, where it has any.")


class Model(Output):
    """A model that can be asked for."""

    id: str
    provider: str
    context_window: int
    max_output: int
    demo: bool
    default: bool
