"""Shapes of what the product is put together from. Never instances, addresses or keys."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from api.agents.schemas import Agent, Model
from api.schemas import Output
from core.hooks import OnError
from core.policies import PolicyKind
from core.tooling import ToolKind
from core.types import SideEffect


class Service(Output):
    """Something that an extension keeps open as long as the process lives."""

    name: str = Field(examples=["glossary"])
    extension: str
    requires: list[str] = Field(description="Services that start before it and close after it.")


class Middleware(Output):
    """What stands around model calls and tool calls of agents."""

    name: str = Field(examples=["model_retry"])
    extension: str
    targets: list[str] = Field(description="Agents that have it.")
    requires: list[str] = Field(description="Services that it uses.")
    harmless: bool = Field(description="Whether it says that it never changes an answer.")


class ModelProvider(Output):
    """A way to models that an extension brought; `MODEL_PROVIDER` chooses it."""

    name: str
    extension: str


class ComponentType(Output):
    """A card that tools may show in the stream, as `component`."""

    component_type: str = Field(examples=["acme.quiz"])
    label: str
    description: str
    extension: str
    schema_: dict[str, Any] = Field(alias="schema", description="JSON schema of its data.")
    example: dict[str, Any]


class Policy(Output):
    """A decision of the loop that an extension offers to agents."""

    kind: PolicyKind
    name: str
    extension: str
    fingerprint: str = Field(description="Changes with the code of its factory.")


class Hook(Output):
    """A function of an extension that is called at a point of runs."""

    name: str
    point: str = Field(examples=["tool_call.before"])
    extension: str
    timeout: float = Field(description="Seconds it may take.")
    on_error: OnError
    agents: list[str] | None = Field(description="In whose runs; null: in all.")
    observes: bool = Field(description="Whether it never changes anything.")
    fingerprint: str = Field(description="Changes with the code of the function.")


class AgentSummary(Output):
    """What extensions brought, as it passed every check."""

    default_agent: str
    agents: list[Agent]
    extensions: list[str] = Field(description="In the order in which they were set up.")
    disabled_extensions: list[str] = Field(description="Those that are switched off.")
    services: list[Service] = Field(description="In the order in which they start.")
    middleware: list[Middleware] = Field(
        description="In the order in which they wrap, the outermost first."
    )
    components: list[ComponentType]
    policies: list[Policy]
    model_providers: list[ModelProvider]
    hooks: list[Hook] = Field(description="In the order in which they are called.")
    tools: int = Field(description="How many there are; `GET /api/model/tools` names them.")


class ModelSummary(Output):
    """The model that answers by default, and what it works with."""

    model: Model
    agent: AgentSummary


class Tool(Output):
    """A tool, as the agents know it."""

    name: str
    label: str
    description: str
    extension: str
    requires_approval: bool = Field(description="Whether each call waits for a decision.")
    side_effect: SideEffect
    idempotent: bool
    timeout: float | None = Field(description="Seconds; null where the server's own limit holds.")
    kind: ToolKind
    requires: list[str] = Field(description="Services that it uses.")
    agents: list[str] = Field(description="Agents that have it.")


class ToolGroup(Output):
    """Tools under one heading."""

    group: str = Field(examples=["basics"])
    tools: list[Tool]
