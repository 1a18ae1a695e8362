"""Policies: decisions of the loop that an agent may take from an extension (EXT-04).

An agent names one for each kind it wants decided otherwise; where it names none, the product
decides as ever. A factory takes no argument and gives an object with the methods below. It is
called once at the start, to try it, and once for each run.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, Protocol

from core.ports import ModelHandle

PolicyKind = Literal["context_view", "summarisation", "completion_review", "model_gateway"]
Verdict = Literal["complete", "continue", "blocked"]

VERDICTS: Final[tuple[Verdict, ...]] = ("complete", "continue", "blocked")

DEFAULT: Final = "default"
"""Names the product's own decision, whatever the kind."""

METHODS: Final[Mapping[str, Mapping[str, int]]] = {
    "context_view": {"build": 3},
    "summarisation": {"due": 1, "summarise": 1},
    "completion_review": {"review": 1},
    "model_gateway": {"wrap": 1},
}
"""The methods of each kind with the number of their arguments."""

ASYNC: Final = frozenset({"summarise", "review"})
"""Methods that are asynchronous; the others are plain."""

Ask = Callable[[str, str], Awaitable[str]]
"""Asks the run's model: takes rules and text, returns the answer; its tokens are counted."""


class ContextView(Protocol):
    """What a model is sent of a conversation."""

    def build(self, messages: Sequence[Any], system: str, summary: Mapping[str, Any]) -> list[Any]:
        """Return the messages of a request.

        The system prompt stands first and nowhere else, and each turn's calls are followed by
        their results in call order; what breaks this ends the run as `policy_failed`.

        Args:
            messages: copies of the stored LangChain messages.
            system: the system prompt.
            summary: what stands for removed messages: `text`, `path` and others.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextSize:
    """How full the context is before a turn."""

    tokens: int
    """Tokens of the next request, as far as that is known."""
    window: int
    """Tokens that it may have."""
    messages: int
    """Messages that are still there whole."""
    user_messages: int
    model_calls: int
    """How often the model was asked in this run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryJob:
    """What a summary is made from."""

    transcript: tuple[str, ...]
    """What is to be replaced, message by message, oldest first."""
    earlier: str
    """The summary of what was replaced before."""
    instructions: str
    """What hooks ask for."""
    output_tokens: int
    """Tokens that the summary may have; more is cut."""
    ask: Ask


class Summarisation(Protocol):
    """When old messages are replaced, and by what."""

    def due(self, size: ContextSize) -> bool:
        """Tell whether room is to be made now; it is called before every turn.

        What a provider refuses as too long is summarised whatever this says.
        """
        ...

    async def summarise(self, job: SummaryJob) -> str:
        """Return the text that stands for what is replaced."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewJob:
    """What a review judges."""

    conversation: tuple[tuple[str, str], ...]
    """Role and text of each message."""
    answer: str
    """The answer that may be the end of the work."""
    ask: Ask


class CompletionReview(Protocol):
    """Whether an answer is the end of the work."""

    async def review(self, job: ReviewJob) -> tuple[Verdict, str]:
        """Return the verdict and a note: what is missing, or the question to the user."""
        ...


class ModelGateway(Protocol):
    """What stands between the runs of an agent and their model."""

    def wrap(self, model: ModelHandle) -> ModelHandle:
        """Return a model that is asked in the place of this one."""
        ...


PolicyFactory = Callable[[], Any]


class PolicyDeclaration(NamedTuple):
    """A policy as registered, unchecked."""

    kind: object
    name: object
    factory: PolicyFactory
    where: str
    extension: str


@dataclass(frozen=True, slots=True)
class PolicySpec:
    """A policy that passed every check."""

    kind: PolicyKind
    name: str
    factory: PolicyFactory
    extension: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class RunPolicies:
    """Those of one run; None where the product decides."""

    view: ContextView | None = None
    summarisation: Summarisation | None = None
    review: CompletionReview | None = None
    names: Mapping[str, str] | None = None
    """What is told of them in errors: kind to name."""

    def named(self, kind: str) -> str:
        """Return how a policy is called in errors."""
        return f"The {kind} policy {(self.names or {}).get(kind, '?')}"
