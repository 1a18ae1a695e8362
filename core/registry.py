"""What extensions register. Collects everything, faults too; nothing here raises."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

from core.components import ComponentDeclaration, ComponentSpec
from core.errors import Fault
from core.hooks import TIMEOUT, HookDeclaration, HookSpec
from core.policies import PolicyDeclaration, PolicyFactory, PolicySpec
from core.providing import ProviderDeclaration, ProviderFactory, ProviderSpec
from core.tooling import AgentSpec, ToolSpec

BUILT_IN = "core"
"""The extension that comes first: names it takes are taken, whatever the order of loading."""

ServiceFactory = Callable[[Mapping[str, Any]], AbstractAsyncContextManager[Any]]
"""Makes a service from those it requires, and from no others."""

MiddlewareFactory = Callable[[Mapping[str, Any]], Any]
"""Makes a LangChain `AgentMiddleware` from the services it requires, and from no others."""


class ToolDeclaration(NamedTuple):
    """A function as registered, unchecked."""

    function: Callable[..., Any]
    where: str
    requires: Sequence[str] = ()
    extension: str = "?"


@dataclass(slots=True)
class AgentDeclaration:
    """An agent as registered, unchecked."""

    name: str
    description: str
    prompt: str
    tools: Sequence[Callable[..., Any] | str]
    approval_tools: Sequence[Callable[..., Any] | str]
    options: dict[str, Any]
    where: str
    extension: str = "?"


class SubgraphDeclaration(NamedTuple):
    """A LangGraph graph as registered, unchecked."""

    name: str
    description: str
    build: Callable[[], Any]
    label: str
    where: str
    extension: str = "?"
    input_schema: Any = None


class ServiceDeclaration(NamedTuple):
    """A service as registered, unchecked."""

    name: str
    factory: ServiceFactory
    requires: Sequence[str]
    where: str
    extension: str = "?"


class MiddlewareDeclaration(NamedTuple):
    """A LangChain middleware as registered, unchecked."""

    name: str
    factory: MiddlewareFactory
    requires: Sequence[str]
    targets: Sequence[str] | None
    before: Sequence[str]
    after: Sequence[str]
    harmless: bool
    where: str
    extension: str = "?"


class RouterDeclaration(NamedTuple):
    """A router as registered, unchecked; the room `api` knows what it is."""

    router: Any
    where: str
    extension: str


@dataclass(slots=True)
class Registry:
    """The one argument of `setup(registry)`."""

    tools: list[ToolDeclaration] = field(default_factory=list[ToolDeclaration])
    agents: list[AgentDeclaration] = field(default_factory=list[AgentDeclaration])
    subgraphs: list[SubgraphDeclaration] = field(default_factory=list[SubgraphDeclaration])
    services: list[ServiceDeclaration] = field(default_factory=list[ServiceDeclaration])
    middleware: list[MiddlewareDeclaration] = field(default_factory=list[MiddlewareDeclaration])
    routers: list[RouterDeclaration] = field(default_factory=list[RouterDeclaration])
    skills: list[tuple[object, str]] = field(default_factory=list[tuple[object, str]])
    """Folders of skills with the file that registered them."""
    model_providers: list[ProviderDeclaration] = field(default_factory=list[ProviderDeclaration])
    components: list[ComponentDeclaration] = field(default_factory=list[ComponentDeclaration])
    policies: list[PolicyDeclaration] = field(default_factory=list[PolicyDeclaration])
    hooks: list[HookDeclaration] = field(default_factory=list[HookDeclaration])
    faults: list[Fault] = field(default_factory=list[Fault])
    extensions: list[str] = field(default_factory=list[str])
    """Extensions whose `setup` ran, in order."""
    disabled: list[str] = field(default_factory=list[str])
    """Extensions that say of themselves that they are switched off."""
    places: dict[str, str] = field(default_factory=dict[str, str])
    """The file of each extension that was to be imported, by name."""
    where: str = "?"
    """The file whose `setup` is running."""
    extension: str = "?"
    """The name of the extension whose `setup` is running."""

    def register_tool(self, function: Callable[..., Any], requires: Sequence[str] = ()) -> None:
        """Offer a function marked by `define_tool` to agents.

        Args:
            function: the tool.
            requires: services that it takes with `get_service`; they must be registered.
        """
        self.tools.append(ToolDeclaration(function, self.where, requires, self.extension))

    def register_agent(
        self,
        name: str,
        description: str = "",
        prompt: str = "",
        tools: Sequence[Callable[..., Any] | str] = (),
        approval_tools: Sequence[Callable[..., Any] | str] = (),
        **options: Any,
    ) -> None:
        """Offer an agent. `options` are further fields of `AgentSpec`.

        Functions among `tools` are registered with it where nobody else did.
        """
        self.agents.append(
            AgentDeclaration(
                name,
                description,
                prompt,
                tools,
                approval_tools,
                options,
                self.where,
                self.extension,
            )
        )

    def register_subgraph(
        self,
        name: str,
        description: str,
        build: Callable[[], Any],
        input_schema: Any = None,
        label: str = "",
    ) -> None:
        """Offer a LangGraph graph of any shape as an agent of its own.

        It keeps its own prompt, models and tools; its steps are saved by our checkpointer.
        Tokens of LangChain chat models in it are shown as they come, unless they carry
        LangGraph's tag `nostream`. What it interrupts itself with is asked as a question, and
        it goes on with the answer: its text, or what that says as JSON where more was asked.

        Args:
            name: what requests call the agent.
            description: what it is for, for people and for other agents.
            build: makes the graph, a `StateGraph` or a compiled one whose state has
                `messages`. Called once at the start, so it must not do anything else.
            input_schema: what a delegated task is, where it is more than a text: a pydantic
                model, a `TypedDict` or a JSON schema of an object. The graph is then given
                that object, and its output is the result. One whose state has no `messages`
                takes delegated tasks only.
            label: the name shown to people; `name` where missing.
        """
        self.subgraphs.append(
            SubgraphDeclaration(
                name, description, build, label, self.where, self.extension, input_schema
            )
        )

    def register_service(
        self, name: str, factory: ServiceFactory, requires: Sequence[str] = ()
    ) -> None:
        """Offer something that lives as long as the process: a client, a pool, a model.

        Args:
            name: what `get_service` and `requires` call it.
            factory: takes a read-only mapping of the services in `requires` and gives an
                asynchronous context manager; what that yields is the service.
            requires: services that start before and close after this one.
        """
        self.services.append(
            ServiceDeclaration(name, factory, requires, self.where, self.extension)
        )

    def register_middleware(  # noqa: PLR0913 - extensions call it with what EXT-04 names
        self,
        name: str,
        factory: MiddlewareFactory,
        requires: Sequence[str] = (),
        targets: Sequence[str] | None = None,
        before: Sequence[str] = (),
        after: Sequence[str] = (),
        *,
        harmless: bool = False,
    ) -> None:
        """Offer a LangChain `AgentMiddleware`, ready-made or your own, to agents.

        Args:
            name: what `before`, `after` and `GET /api/model` call it.
            factory: takes a read-only mapping of the services in `requires` and gives a new
                instance. Free of side effects: it is tried at the start and called once for
                each target. An instance is shared by all runs of its agent.
            requires: services that it uses.
            targets: agents that get it; missing: the default agent.
            before: middleware that stands further in than this one. The first is outermost.
            after: middleware that stands further out than this one.
            harmless: whether it never changes what the model says. Tokens are shown as they
                come only where all that could change them are harmless.
        """
        self.middleware.append(
            MiddlewareDeclaration(
                name,
                factory,
                requires,
                targets,
                before,
                after,
                harmless,
                self.where,
                self.extension,
            )
        )

    def register_router(self, router: Any) -> None:
        """Offer a FastAPI `APIRouter` under `/api/ext/<name of the extension>`.

        Every route states its permission by a parameter such as `who: AgentsReader`, from
        `extensions.routing`.
        """
        self.routers.append(RouterDeclaration(router, self.where, self.extension))

    def register_hook(
        self,
        point: str,
        function: Callable[[Any], Any],
        *,
        timeout: float = TIMEOUT,
        on_error: str = "fail",
        agents: Sequence[str] | None = None,
        observes: bool = False,
    ) -> None:
        """Call a function at a point of every run; `extensions.hooks` has the points' records.

        Args:
            point: such as `tool_call.before`.
            function: takes the point's record, plain or async; returns None, or a record of the
                same type with other values.
            timeout: seconds it may take.
            on_error: `fail` ends the run where it fails, is late or returns what cannot be
                taken; `ignore` goes on as if it had not been called, and logs it.
            agents: names of those whose runs it is called in; all of them where missing.
            observes: it always returns None, so that nothing waits for it to be shown.
        """
        here = (self.where, self.extension)
        said = HookDeclaration(point, function, timeout, on_error, agents, observes, *here)
        self.hooks.append(said)

    def register_model_provider(self, name: str, factory: ProviderFactory) -> None:
        """Offer a way to models that `MODEL_PROVIDER=<name>` chooses.

        Args:
            name: what the setting calls it.
            factory: takes a `ModelConnection` with what the settings say, and returns a
                LangChain chat model. Called at the start, where it is the chosen one.
        """
        said = ProviderDeclaration(name, factory, self.where, self.extension)
        self.model_providers.append(said)

    def register_policy(self, kind: str, factory: PolicyFactory, name: str = "") -> None:
        """Offer a decision of the loop; agents choose it with `policies={kind: name}`.

        Args:
            kind: `context_view`, `summarisation`, `completion_review` or `model_gateway`.
            factory: takes nothing and gives an object with the methods of that kind, which
                `extensions.policies` describes. Called once to try it, and once for each run.
            name: what agents call it; the name of the extension where missing.
        """
        said = PolicyDeclaration(kind, name, factory, self.where, self.extension)
        self.policies.append(said)

    def register_component(
        self,
        component_type: str,
        schema: Mapping[str, Any],
        example: Mapping[str, Any],
        label: str = "",
        description: str = "",
    ) -> None:
        """Offer a card that tools show with `ctx.component(component_type, data)`.

        Args:
            component_type: `<name of the extension>.<name>`.
            schema: JSON schema of its data: closed objects, no `pattern`, no `$ref` outside.
            example: data that fit; what the card is shown with where there are none.
            label: the name shown to people.
            description: what it is for.
        """
        here = (self.where, self.extension)
        said = ComponentDeclaration(component_type, schema, example, label, description, *here)
        self.components.append(said)

    def register_skills(self, folder: Path | str) -> None:
        """Offer a folder that holds `<name>/SKILL.md`."""
        self.skills.append((folder, self.where))


@dataclass(frozen=True, slots=True)
class ServiceSpec:
    """A service that passed every check."""

    name: str
    factory: ServiceFactory
    requires: tuple[str, ...]
    where: str
    extension: str


@dataclass(frozen=True, slots=True)
class MiddlewareSpec:
    """A middleware that passed every check; instances are made once services run."""

    name: str
    factory: MiddlewareFactory
    requires: tuple[str, ...]
    targets: tuple[str, ...]
    harmless: bool
    where: str
    extension: str


def _never() -> Assembly:
    raise NotImplementedError


@dataclass(slots=True)
class Assembly:
    """What passed every check; the product runs on this.

    Nobody changes a field. A reload exchanges all of them at once (`become`); a run that is
    under way keeps the tools and the agent that it began with.
    """

    tools: Mapping[str, ToolSpec]
    agents: Mapping[str, AgentSpec]
    default_agent: str
    extensions: tuple[str, ...]
    disabled_extensions: tuple[str, ...] = ()
    approval_tools: frozenset[str] = frozenset()
    """Tools that need a decision whoever calls them (EXEC-23)."""
    skills: tuple[tuple[Path, str], ...] = ()
    """Folders of skills with the extension that brought them."""
    services: tuple[ServiceSpec, ...] = ()
    """In the order in which they start."""
    middleware: tuple[MiddlewareSpec, ...] = ()
    """In the order in which they wrap, the outermost first."""
    routers: tuple[RouterDeclaration, ...] = ()
    model_providers: tuple[ProviderSpec, ...] = ()
    components: Mapping[str, ComponentSpec] = field(default_factory=dict[str, ComponentSpec])
    """By type."""
    policies: Mapping[tuple[str, str], PolicySpec] = field(
        default_factory=dict[tuple[str, str], PolicySpec]
    )
    """By kind and name."""
    hooks: tuple[HookSpec, ...] = ()
    """In the order in which they are called."""
    rebuild: Callable[[], Assembly] = field(default=_never, repr=False)
    """Makes a fresh one from the same definitions; raises `ConfigError`."""

    def become(self, other: Assembly) -> None:
        """Take over everything of another assembly, in one step of the event loop."""
        for item in fields(self):
            setattr(self, item.name, getattr(other, item.name))
