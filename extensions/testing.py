"""What tests of an extension need: no server, no database, no network, no model.

    from extensions.testing import ScriptedModel, call, running

    async def test_my_agent() -> None:
        model = ScriptedModel(call("my_tool", word="fan"), "A fan moves air.")
        async with running(Path(__file__).parent, model) as runner:
            result = await runner.ask("What is a fan?", agent="my_agent")
        assert result.answer == "A fan moves air."

The agent, its graph, approvals, files, services and every check are the product's own; the model
alone is a script. `docs/howto/extension.md` shows all of it at work.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any, Final, Literal

import extensions.core.extension
from api.ext import faults_of
from core.clock import Clock, FakeClock, SystemClock
from core.errors import Fault
from core.ids import new_id
from core.ports import FileStore, Models
from core.principal import Principal
from core.records import RunRecord
from core.registry import Assembly, Registry
from core.settings import Settings, load_settings
from core.tooling import AgentSpec, ToolSpec
from core.types import Mode, UserId, WorkspaceId
from providers.registry import ModelRegistry
from providers.scripted import Call, Request, ScriptedModel, Turn, call, say
from runtime import extending
from runtime.commands import ChatCommand, Upload
from runtime.composing import composed, file_stores
from runtime.memory import MemoryRuntime, RunLog
from runtime.outcome import Question, Result, ToolResult, question_of, result_of

__all__ = [
    "Call",
    "Extension",
    "FakeClock",
    "Question",
    "Request",
    "Result",
    "Runner",
    "ScriptedModel",
    "ToolResult",
    "Turn",
    "User",
    "call",
    "load",
    "running",
    "say",
]

Setup = Callable[[Registry], None]
Source = Path | str | ModuleType | Setup
"""The folder of an extension, its module, or its function `setup`."""

_NO_SETTINGS: Final[Mapping[str, str]] = MappingProxyType({})


# Loading ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Extension:
    """What was loaded and passed every check of a start."""

    names: tuple[str, ...]
    """What was loaded, the built-in `core` first."""
    tools: Mapping[str, ToolSpec]
    agents: Mapping[str, AgentSpec]
    assembly: Assembly = field(repr=False)
    settings: Mapping[str, str] = field(repr=False)


def load(*sources: Source, settings: Mapping[str, str] = _NO_SETTINGS) -> Extension:
    """Load extensions beside the built-in one, and check them as the server does at its start.

    Args:
        sources: each the folder of an extension, its module, or a function `setup(registry)`.
        settings: what `.env` would say. Neither a real `.env` nor the environment is read.

    Raises:
        ConfigError: with every fault, each with place and cure; one for an extension that is
            switched off.
    """
    loaded = _settings(settings, Path(tempfile.gettempdir()))
    registry = Registry()
    for source in dict.fromkeys((extensions.core.extension, *map(_folder_or_same, sources))):
        _load_one(registry, source)
    faults = faults_of(registry.routers)
    for name in registry.disabled:
        cure = "Pass settings={…} that switch it on."
        faults.append(Fault(name, "is switched off: its enabled() gives False.", cure))
    # The models were never asked, so there is nothing of them to close.
    assembly, _ = composed(loaded, SystemClock(), registry, faults)
    names = tuple(registry.extensions)
    return Extension(names, assembly.tools, assembly.agents, assembly, dict(settings))


def _folder_or_same(source: Source) -> Path | ModuleType | Setup:
    if not isinstance(source, Path | str):
        return source
    place = Path(source).absolute()
    return place.parent if place.name == "extension.py" else place


def _load_one(registry: Registry, source: Path | ModuleType | Setup) -> None:
    if isinstance(source, Path):
        extending.load_folder(registry, source)
    elif isinstance(source, ModuleType):
        file = Path(source.__file__ or source.__name__)
        name = file.parent.name if file.stem == "extension" else file.stem
        extending.load_module(registry, source, name, f"{file.parent.name}/{file.name}")
    else:
        module = ModuleType("tested")
        vars(module)["setup"] = source
        extending.load_module(registry, module, "tested", getattr(source, "__module__", "tested"))


def _settings(given: Mapping[str, str], data_dir: Path) -> Settings:
    return load_settings(None, given, data_dir=data_dir).settings


# Running ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class User:
    """Who talks to the agent."""

    name: str = "tester"
    preferences: str = ""
    """What they want every agent to know; it is part of the prompt."""

    @property
    def principal(self) -> Principal:
        """Return what tools see as `ctx.principal`."""
        return Principal(WorkspaceId("test"), UserId(self.name), self.name, "script")


class Runner:
    """A conversation with an agent. Messages go into one session unless a new one is asked for."""

    def __init__(self, runtime: MemoryRuntime, model: ScriptedModel | None, user: User) -> None:
        """Take what `running` has put together."""
        self._runtime, self._model, self._user = runtime, model, user
        self._session = new_id()
        self._agent: str | None = None
        self._run: RunRecord | None = None

    @property
    def files(self) -> FileStore:
        """Return the files that tools see, to prepare or to look at."""
        return self._runtime.files(self._user.principal, self._session)

    async def ask(
        self,
        text: str,
        *,
        agent: str | None = None,
        mode: Mode = "full",
        files: Mapping[str, bytes] | None = None,
        new_session: bool = False,
    ) -> Result:
        """Send a message and return how the run came to rest.

        Args:
            text: the message; `#skill:<name>` in front loads a skill.
            agent: who is asked; the one before, or `assistant`, where missing.
            mode: `plan` lets nothing change before a plan was approved.
            files: name and content of what is sent along.
            new_session: whether the agent remembers nothing of what was said before.

        Raises:
            AssertionError: the model's script is over before the run is.
            NotFound: there is no such agent or skill.
        """
        if new_session:
            self._session = new_id()
        self._agent = agent or self._agent
        uploads = tuple(Upload(name, content) for name, content in (files or {}).items())
        command = ChatCommand(
            text, session_id=self._session, mode=mode, files=uploads, agent=self._agent
        )
        self._run = await self._runtime.begin(self._user.principal, command)
        return self._result()

    async def approve(self, *, always: Literal["session", "workspace"] | None = None) -> Result:
        """Approve all calls that wait, or the plan, and return how the run went on."""
        kept = {"always": always} if always else {}
        return await self._decide("approve", **kept)

    async def reject(self, message: str = "") -> Result:
        """Reject all calls that wait, or the plan."""
        return await self._decide("reject", message=message)

    async def edit(self, changed: Mapping[str, Any] | str) -> Result:
        """Let the call run with other arguments, or the plan hold in another wording."""
        if isinstance(changed, str):
            return await self._decide("edit", plan=changed)
        return await self._decide("edit", args=dict(changed))

    async def respond(self, message: str) -> Result:
        """Answer in the tool's place: the call does not run, the text is its result."""
        return await self._decide("respond", message=message)

    async def answer(self, *answers: str | Sequence[str]) -> Result:
        """Answer the questions of `ask_user` or of a graph's `interrupt`, in their order."""
        given = [one if isinstance(one, str) else list(one) for one in answers]
        return await self.send({"answers": given})

    async def send(self, body: Mapping[str, Any]) -> Result:
        """Answer with the body that a client of the API would send.

        Raises:
            NoPendingInterrupt: the run waits for nothing.
            Invalid: the answer does not fit the question, which stays.
        """
        assert self._run is not None, "ask first"
        self._run = await self._runtime.answer(self._user.principal, self._run, dict(body))
        return self._result()

    # Helpers ----------------------------------------------------------------------------

    async def _decide(self, kind: str, **more: Any) -> Result:
        assert self._run is not None, "ask first"
        question = question_of(self._log())
        body: dict[str, Any] = {"type": kind, **more}
        if question is not None and question.kind == "tool_approval":
            body = {
                "decisions": [{**body, "tool_call_id": c["tool_call_id"]} for c in question.calls]
            }
        return await self.send(body)

    def _log(self) -> RunLog:
        assert self._run is not None, "ask first"
        return self._runtime.journal.log(self._run.id)

    def _result(self) -> Result:
        if self._model is not None and self._model.fault is not None:
            raise self._model.fault
        assert self._run is not None
        return result_of(self._run, self._log())


@asynccontextmanager
async def running(
    source: Source | Extension,
    model: ScriptedModel | None = None,
    *,
    settings: Mapping[str, str] = _NO_SETTINGS,
    user: User | None = None,
    clock: Clock | None = None,
) -> AsyncIterator[Runner]:
    """Give a runner; the extension's services are started before and closed after.

    Args:
        source: what `load` takes or has returned.
        model: what the agents ask; all of its replies must be asked for. Missing: the model that
            the settings name, with `MODEL_PROVIDER` one that an extension makes; the demo model
            where they name none.
        settings: as for `load`; of no use where that was called already.
        user: who talks to the agent.
        clock: the time that tools see; a `FakeClock` stands still until it is moved.

    Raises:
        ConfigError: a fault of the extension, or a service that cannot start.
        AssertionError: the model was not asked for all of its replies.
    """
    extension = source if isinstance(source, Extension) else load(source, settings=settings)
    with tempfile.TemporaryDirectory(prefix="graphwright-") as folder:
        chosen = _settings(extension.settings, Path(folder))
        who, time = user or User(), clock or SystemClock()
        async with AsyncExitStack() as stack:
            models: Models = model or _configured(stack, chosen, time, extension.assembly)
            runtime = await stack.enter_async_context(
                MemoryRuntime(
                    chosen, models, extension.assembly, file_stores(chosen), time, who.preferences
                )
            )
            yield Runner(runtime, model, who)
    if model is not None:
        assert not model.left, f"nobody asked the model for {model.left!r}"


def _configured(
    stack: AsyncExitStack, settings: Settings, clock: Clock, assembly: Assembly
) -> ModelRegistry:
    models = ModelRegistry(settings, clock, assembly.model_providers)
    stack.push_async_callback(models.aclose)
    return models
