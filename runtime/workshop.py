"""Gathers everything that one drive of a run needs, and hands it over."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Self

from core.clock import Clock
from core.context import Limits, PromptPart, RunContext
from core.errors import NotFound
from core.ports import FileStores, ModelHandle, Models
from core.principal import Principal
from core.records import RunRecord
from core.registry import Assembly
from core.settings import Settings
from core.tooling import DELEGATE, AgentSpec, ToolSpec
from runtime.delegation import Brought, Delegate, Delegations
from runtime.drive import Drive
from runtime.foreign import ForeignStream
from runtime.gates import bounds_of, run_hooks
from runtime.journal import RunWriter
from runtime.keeping import Keeping
from runtime.ledger import Ledger
from runtime.policing import gated, run_policies
from runtime.preload import graphs_loaded
from runtime.rows import owner_of
from runtime.sink import RunSink
from runtime.skills import library_of, skill_parts
from runtime.subruns import SubRuns
from runtime.thread import Thread
from tools.delegating import made_for
from tools.hooked_model import hooked
from tools.skills.files import SkilledFiles
from tools.skills.library import SkillLibrary


@dataclasses.dataclass(frozen=True, slots=True)
class Parts:
    """What a run is built from, the same for all runs of this process."""

    settings: Settings
    models: Models
    assembly: Assembly
    stores: FileStores
    clock: Clock
    skills: SkillLibrary

    @classmethod
    def of(
        cls,
        settings: Settings,
        models: Models,
        assembly: Assembly,
        stores: FileStores,
        clock: Clock,
    ) -> Self:
        """Return the parts together with the library of the assembly's skills."""
        library = library_of(assembly, settings.data_dir)
        return cls(settings, models, assembly, stores, clock, library)


class Workshop:
    """Prepares drives."""

    def __init__(self, keeping: Keeping, parts: Parts) -> None:
        self._keeping = keeping
        self._parts = parts

    async def prepare(self, run: RunRecord, writer: RunWriter) -> Drive:
        """Return the drive of a claimed run.

        Raises:
            NotFound: its agent is not there any more.
            Invalid: its model is not configured any more.
            Unavailable: the database is away.
        """
        before = await self._keeping.before(run)
        recalled = before.recalled
        writer.buffer.partials.update(recalled.spoken)
        sink = RunSink(writer.buffer, recalled.begun)
        ledger = Ledger(run, self._parts.clock, recalled.usage)
        agent = self.agent(run.agent)
        shelf = await self._parts.skills.shelf(owner_of(run))

        def prompt_of(one: AgentSpec) -> list[PromptPart]:
            return [*skill_parts(one, shelf), *preference_parts(before.preferences)]

        ctx = self._context(run, before.project_id, agent, sink, ledger, prompt_of(agent))
        delegations = None
        if agent.delegates:
            runs = SubRuns(run, writer, ledger, recalled, self._parts.clock)

            def delegate_of(name: str) -> Delegate:
                return self._delegate(name, prompt_of, lambda one: self._brought(run, one, ledger))

            delegations = Delegations(ctx.limits, ledger, recalled, runs, delegate_of)
        return Drive(
            run=run,
            ctx=dataclasses.replace(
                ctx,
                skills=shelf,
                files=SkilledFiles(ctx.files, shelf),
                delegation=delegations,
            ),
            thread=await self.thread(agent, run.session_id, run),
            writer=writer,
            sink=sink,
            ledger=ledger,
            recalled=recalled,
            foreign=ForeignStream(ctx, ledger, recalled) if agent.graph is not None else None,
            delegations=delegations,
        )

    def agent(self, name: str) -> AgentSpec:
        """Return an agent by name.

        Raises:
            NotFound: there is none.
        """
        spec = self._parts.assembly.agents.get(name)
        if spec is None:
            raise NotFound(f"The agent {name} is not there any more.")
        return spec

    async def skill_parts(self, principal: Principal, agent: str) -> list[PromptPart]:
        """Return what an agent's prompt says of this user's skills.

        Raises:
            NotFound: there is no such agent.
        """
        return skill_parts(self.agent(agent), await self._parts.skills.shelf(principal))

    async def thread(
        self, agent: AgentSpec, session_id: str, run: RunRecord | None = None
    ) -> Thread:
        """Return a session's thread, with a checkpointer of its own.

        Args:
            agent: whose graph is used.
            session_id: whose thread it is.
            run: the run that is carried out, if one is; what is written stands under its claim.
        """
        await graphs_loaded()
        from graphs.agent import agent_graph

        foreign = run.id if run is not None and agent.graph is not None else None
        return Thread(agent_graph(agent, self._keeping.checkpointer(run)), session_id, foreign)

    def model(self, run: RunRecord, agent: AgentSpec) -> ModelHandle:
        """Return a run's model, behind the agent's gateway where it has one.

        Raises:
            Invalid: the model is not configured.
            PolicyFailed: the gateway fails.
        """
        model = self._parts.models.get(run.model)
        return gated(model, self._parts.assembly.policies, agent, self._parts.clock)

    def any_agent(self, name: str) -> AgentSpec:
        """Return an agent by name, or the default one where it is gone.

        Enough to read and mend threads: their shape is the same for all agents.
        """
        agents = self._parts.assembly.agents
        return agents.get(name) or agents[self._parts.assembly.default_agent]

    def tools(self, agent: AgentSpec) -> dict[str, ToolSpec]:
        """Return an agent's tools by name."""
        tools = {name: self._parts.assembly.tools[name] for name in agent.tools}
        if agent.delegates:
            tools[DELEGATE] = made_for(tools[DELEGATE], [self.agent(n) for n in agent.delegates])
        return tools

    def window(self, agent: AgentSpec, model: str | None) -> int:
        """Return how many tokens fit into a request of this agent to this model.

        Raises:
            Invalid: the model is not configured.
        """
        limit = limits_of(self._parts.settings, agent).context_limit
        return limit or self._parts.models.get(model).context_window

    # Helpers ----------------------------------------------------------------------------

    def _delegate(
        self,
        name: str,
        prompt_of: Callable[[AgentSpec], Sequence[PromptPart]],
        brought_to: Callable[[AgentSpec], Brought],
    ) -> Delegate:
        agent, parts = self.agent(name), self._parts
        return Delegate(
            agent,
            self.tools(agent),
            approval_tools(parts.assembly, agent),
            prompt_of(agent),
            limits_of(parts.settings, agent),
            functools.partial(brought_to, agent),
        )

    def _brought(self, run: RunRecord, agent: AgentSpec, ledger: Ledger) -> Brought:
        """Return what extensions bring to a sub-run of this agent; the budget is the run's."""
        parts = self._parts
        tokens = limits_of(parts.settings, self.agent(run.agent), run.input.get("limits")).tokens
        limits = dataclasses.replace(limits_of(parts.settings, agent), tokens=tokens)
        return Brought(
            model=self.model(run, agent),
            hooks=run_hooks(parts.assembly, run, owner_of(run).user_name, agent.name),
            policies=run_policies(parts.assembly.policies, agent),
            bounds=bounds_of(limits, ledger),
        )

    def _context(
        self,
        run: RunRecord,
        project_id: str,
        agent: AgentSpec,
        sink: RunSink,
        ledger: Ledger,
        prompt: Sequence[PromptPart],
    ) -> RunContext:
        parts, principal = self._parts, owner_of(run)
        limits = limits_of(parts.settings, agent, run.input.get("limits"))
        hooks = run_hooks(parts.assembly, run, principal.user_name)
        bounds = bounds_of(limits, ledger)
        return RunContext(
            principal=principal,
            session_id=run.session_id,
            run_id=run.id,
            trace_id=run.trace_id,
            attempt=run.attempt,
            agent=agent,
            mode=run.mode,
            model=hooked(self.model(run, agent), hooks, bounds),
            tools=self.tools(agent),
            approval_tools=approval_tools(parts.assembly, agent),
            grants=self._keeping.grants,
            calls=self._keeping.calls(run, parts.clock),
            files=parts.stores.open(principal, project_id, run.session_id),
            archive=parts.stores.archive(principal, project_id),
            usage=ledger,
            sink=sink,
            emit=sink.emit,
            clock=parts.clock,
            limits=limits,
            hooks=hooks,
            components=parts.assembly.components,
            policies=run_policies(parts.assembly.policies, agent),
            bounds=bounds,
            prompt=prompt,
            started=parts.clock.monotonic(),
            seconds_before=float(run.input.get("seconds") or 0.0),
        )


def approval_tools(assembly: Assembly, agent: AgentSpec) -> frozenset[str]:
    """Return the tools whose calls need a decision with this agent (EXEC-23)."""
    declared = {name for name in agent.tools if assembly.tools[name].requires_approval}
    return (assembly.approval_tools | agent.approval_tools | declared) & set(agent.tools)


def limits_of(
    settings: Settings, agent: AgentSpec, of_run: Mapping[str, int] | None = None
) -> Limits:
    """Return the limits of the settings, with the agent's and the run's own in their place."""
    limits = Limits(
        steps=settings.max_steps,
        model_calls=settings.max_model_calls,
        tokens=settings.run_token_budget,
        seconds=settings.run_seconds,
        repeat_hint=settings.repeat_hint,
        repeat_refuse=settings.repeat_refuse,
        stall_steps=settings.stall_steps,
        context_limit=settings.context_limit,
        compact=settings.compact_enabled,
        tool_timeout=settings.tool_timeout,
    )
    whole = {field.name for field in dataclasses.fields(Limits) if field.type in ("int", int)}
    own = {name: int(value) if name in whole else value for name, value in agent.limits.items()}
    return dataclasses.replace(limits, **own | dict(of_run or {}))


def preference_parts(preferences: dict[str, object] | None) -> list[PromptPart]:
    """Return what the user wants every agent to know, as a part of the prompt."""
    text = str((preferences or {}).get("text") or "").strip()
    return [PromptPart("user_preferences", text)] if text else []
