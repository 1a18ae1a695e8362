"""A conversation with an agent: the real graph, model adapter and files, without a database."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from langchain_core.messages import AnyMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, Interrupt

import extensions.core.extension
from core.clock import Clock, SystemClock
from core.context import Limits, RunContext
from core.events import Event, dump
from core.ids import new_id
from core.ports import ModelHandle
from core.principal import Principal
from core.registry import Registry
from core.settings import Settings
from core.tooling import AgentSpec
from core.types import Mode, UserId, WorkspaceId
from graphs.agent import agent_graph
from graphs.settle import SETTLE_AS, settling_messages
from graphs.state import begin
from providers.registry import ModelRegistry
from runtime.memory import NoCalls
from runtime.registry import assemble
from sandbox.files import FileLimits, LocalFileStores
from tests.support.scripted_server import ScriptedServer

ALICE = Principal(WorkspaceId("w1"), UserId("alice"), "alice", "script")


@dataclass
class Recorder:
    """Takes what a run shows and counts."""

    events: list[dict[str, Any]] = field(default_factory=list)
    text: dict[str, str] = field(default_factory=dict)
    resets: list[str] = field(default_factory=list)
    usage: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    allowed: set[str] = field(default_factory=set)

    def emit(self, event: Event) -> None:
        self.events.append(dump(event))

    def token(self, message_id: str, text: str) -> None:
        self.text[message_id] = self.text.get(message_id, "") + text

    def thinking(self, message_id: str, text: str) -> None: ...

    def reset(self, message_id: str, reason: str) -> None:
        self.resets.append(message_id)

    def add(self, purpose: str, usage: dict[str, Any]) -> None:
        self.usage.append((purpose, usage))

    async def granted(self, principal: Principal, session_id: str) -> frozenset[str]:
        return frozenset(self.allowed)

    def named(self, kind: str) -> list[dict[str, Any]]:
        """Return the events of one type."""
        return [event for event in self.events if event["type"] == kind]


class Talk:
    """One session with an agent, over a scripted provider."""

    def __init__(
        self,
        scripted: ScriptedServer,
        data_dir: Path,
        *,
        tools: Sequence[Callable[..., Any]] = (),
        agent: dict[str, Any] | None = None,
        hitl: Sequence[str] = (),
        mode: Mode = "full",
        limits: Limits | None = None,
        window: int = 0,
        saver: Any = None,
    ) -> None:
        registry = Registry(where="test")
        extensions.core.extension.setup(registry)
        for tool in tools:
            registry.register_tool(tool)
        names = [*extensions.core.extension.BUILT_IN, *tools]
        registry.register_agent("tested", tools=names, label="测试", **(agent or {}))
        self.assembly = assemble(registry, hitl)
        self.clock: Clock = SystemClock()
        settings = Settings(
            openai_base_url=scripted.base_url,
            openai_api_key="k",
            openai_model="scripted",
            openai_max_retries=0,
            context_limit=window,
        )
        self.models = ModelRegistry(settings, self.clock)
        stores = LocalFileStores(data_dir, FileLimits(file=5_000_000, project=50_000_000))
        self.session_id = new_id()
        self.files = stores.open(ALICE, "p1", self.session_id)
        self.archive: Any = stores.archive(ALICE, "p1")
        self.seen = Recorder()
        self.mode: Mode = mode
        self.limits = limits or Limits(context_limit=window)
        self.attempt = 1
        self.run_id = new_id()
        self.saver = saver or InMemorySaver()
        self.config: Any = {"configurable": {"thread_id": self.session_id}}
        self.question: Interrupt | None = None
        self.updates: list[dict[str, Any]] = []
        self.last = ""

    @property
    def agent(self) -> AgentSpec:
        return self.assembly.agents["tested"]

    @property
    def archive_path(self) -> str:
        return f"/conversation_history/{self.session_id}.md"

    @property
    def graph(self) -> Any:
        return agent_graph(self.agent, self.saver)

    def context(self) -> RunContext:
        """Return what one drive is given."""
        model: ModelHandle = self.models.get(None)
        return RunContext(
            principal=ALICE,
            session_id=self.session_id,
            run_id=self.run_id,
            trace_id="t",
            attempt=self.attempt,
            agent=self.agent,
            mode=self.mode,
            model=model,
            tools={name: self.assembly.tools[name] for name in self.agent.tools},
            approval_tools=self.assembly.approval_tools | self.agent.approval_tools,
            grants=self.seen,
            calls=NoCalls(),
            files=self.files,
            archive=self.archive,
            usage=self.seen,
            sink=self.seen,
            emit=self.seen.emit,
            clock=self.clock,
            limits=self.limits,
            prompt=(),
            started=self.clock.monotonic(),
        )

    async def say(self, text: str) -> str:
        """Send a message and drive the run to its end or its next question."""
        self.run_id = new_id()
        return await self.drive(begin(HumanMessage(text, id=new_id())))

    async def answer(self, **value: Any) -> str:
        """Answer the question that the run waits with."""
        assert self.question is not None
        return await self.drive(Command(resume={self.question.id: value}))

    async def drive(self, given: Any) -> str:
        """Drive the graph; returns the text of the last message that was added."""
        self.question = None
        stream = self.graph.astream(
            given, self.config, context=self.context(), stream_mode="updates", durability="sync"
        )
        async for update in stream:
            self.updates.append(update)
            for change in update.values():
                if isinstance(change, dict):
                    self.last = [self.last, *(m.text for m in change.get("messages", ()))][-1]
            if "__interrupt__" in update:
                [self.question] = update["__interrupt__"]
        return self.last

    async def state(self) -> dict[str, Any]:
        return (await self.graph.aget_state(self.config)).values

    async def messages(self) -> list[AnyMessage]:
        return (await self.state())["messages"]

    async def results(self) -> dict[str, ToolMessage]:
        """Return the results by call id."""
        found = [m for m in await self.messages() if isinstance(m, ToolMessage)]
        assert len({m.tool_call_id for m in found}) == len(found)
        return {m.tool_call_id: m for m in found}

    async def settle(self) -> None:
        """Leave the thread whole, as the engine does after a cancel or an error."""
        await self.graph.aupdate_state(self.config, None, as_node="__end__")
        closing = settling_messages(await self.messages())
        await self.graph.aupdate_state(self.config, {"messages": closing}, as_node=SETTLE_AS)
        assert (await self.graph.aget_state(self.config)).next == ()
