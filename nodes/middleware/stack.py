"""The middleware of one agent, outermost first, and the methods that each really has."""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Literal

from langchain.agents.middleware import AgentMiddleware
from langchain_core.exceptions import ModelRefusalError
from langgraph.errors import GraphBubbleUp

from core.errors import GraphwrightError, MiddlewareFailed
from core.log import get_logger
from core.masking import mask_told
from tools.threads import in_thread

Point = Literal["before_agent", "before_model", "after_model", "after_agent"]
Wrapper = Literal["wrap_model_call", "wrap_tool_call"]
Method = Callable[..., Awaitable[Any]]

ALTERING: Final = ("wrap_model_call", "after_model")
"""Methods that may change what the model said after it said it."""

_READY_MADE: Final = "langchain.agents.middleware"

_log = get_logger(__name__)


class Past(BaseException):
    """Carries an error past middleware: the loop has to see it as it is."""

    def __init__(self, error: GraphwrightError) -> None:
        super().__init__(str(error))
        self.error = error


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """One middleware under the name that it was registered with."""

    name: str
    middleware: AgentMiddleware[Any, Any]
    harmless: bool = False

    def has(self, method: str) -> bool:
        """Tell whether it overrides a method, plain or async."""
        own = type(self.middleware)
        return any(
            getattr(own, one) is not getattr(AgentMiddleware, one) for one in (method, f"a{method}")
        )

    def method(self, point: Point) -> Method:
        """Return a method of the agent's loop; a plain one runs in a thread."""
        found = getattr(self.middleware, f"a{point}")
        if getattr(type(self.middleware), f"a{point}") is not getattr(AgentMiddleware, f"a{point}"):
            return found
        plain = getattr(self.middleware, point)

        async def beside(*args: Any) -> Any:
            return await in_thread(functools.partial(plain, *args))

        return beside

    def wrapper(self, method: Wrapper) -> Method:
        """Return a method that wraps a call; a plain one runs in a thread."""
        name = f"a{method}"
        if getattr(type(self.middleware), name) is not getattr(AgentMiddleware, name):
            return getattr(self.middleware, name)
        return functools.partial(_wrapped_beside, getattr(self.middleware, method))

    def may_jump(self, point: Point) -> tuple[str, ...]:
        """Return where a method says that it may jump to."""
        for name in (point, f"a{point}"):
            said = getattr(getattr(type(self.middleware), name), "__can_jump_to__", None)
            if said:
                return tuple(said)
        return ()

    @contextmanager
    def named(
        self, doing: str, passing: Callable[[Exception], bool] = lambda _: False
    ) -> Generator[None]:
        """Let errors of this middleware end the run under its name, without their text.

        Args:
            doing: its method.
            passing: tells of an exception whether it only passes through the middleware.

        Raises:
            MiddlewareFailed: it raised something that is no error of ours.
        """
        try:
            yield
        except (GraphwrightError, GraphBubbleUp, Past, GeneratorExit):
            raise
        except BaseException as error:  # boundary: an extension's code may raise anything
            if _is_stopped(error) or (isinstance(error, Exception) and passing(error)):
                raise
            _log.error(
                "a middleware failed",
                exc_info=error,
                extra={"kv": {"middleware": self.name, "doing": doing}},
            )
            raise MiddlewareFailed(self._told(doing, error)) from error

    def _told(self, doing: str, error: BaseException) -> str:
        kind = type(error).__name__
        ready_made = type(error).__module__.startswith(_READY_MADE)
        if ready_made or isinstance(error, ModelRefusalError):
            # Such as a limit that is reached: the text is made for the user, or said to them.
            return f"{self.name} ended the run: {mask_told(str(error))[:500]}"
        return f"The middleware {self.name} failed in {doing} ({kind})."


@dataclass(frozen=True, slots=True, eq=False)
class Stack:
    """All middleware of one agent. Compared by identity: its graph is compiled once."""

    members: tuple[Member, ...]

    def at(self, method: str) -> tuple[Member, ...]:
        """Return those that have a method, outermost first."""
        return tuple(member for member in self.members if member.has(method))

    @property
    def holds_back(self) -> bool:
        """Tell whether what the model says is shown only once it cannot change any more."""
        return any(
            not member.harmless and any(member.has(method) for method in ALTERING)
            for member in self.members
        )

    @property
    def untold(self) -> frozenset[str]:
        """Names of steps whose messages may still change; the step `judge` tells them."""
        if not self.judges:
            return frozenset()
        return frozenset(["call_model", *step_names("after_model", self.at("after_model"))])

    @property
    def judges(self) -> bool:
        """Tell whether a turn is final only after middleware had their say."""
        return any(self.at(method) for method in ALTERING)

    @property
    def tools(self) -> tuple[Any, ...]:
        """Return the LangChain tools that the middleware bring along."""
        return tuple(tool for one in self.members for tool in getattr(one.middleware, "tools", ()))


def step_names(point: Point, members: Sequence[Member]) -> list[str]:
    """Return the names of the graph's steps for these members, in their order."""
    return [f"{member.name}.{point}" for member in members]


def _is_stopped(error: BaseException) -> bool:
    """Tell whether the run is stopped, rather than something cancelled by the middleware itself."""
    task = asyncio.current_task()
    cancelled = isinstance(error, asyncio.CancelledError)
    return cancelled and (task is None or task.cancelling() > 0)


async def _wrapped_beside(plain: Callable[..., Any], request: Any, handler: Method) -> Any:
    """Run a plain wrapper in a thread; what it wraps runs on the loop.

    The thread may outlive the run. What it asks for from then on does not happen, and it is told
    by an exception that `except Exception` does not catch, so that it cannot ask for ever.
    """
    loop = asyncio.get_running_loop()
    under_way: list[Any] = []
    over = False

    async def wrapped(inner: Any) -> Any:
        if over:
            raise asyncio.CancelledError
        return await handler(inner)

    def call(inner: Any) -> Any:
        if over or loop.is_closed():
            raise asyncio.CancelledError
        future = asyncio.run_coroutine_threadsafe(wrapped(inner), loop)
        under_way.append(future)
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise asyncio.CancelledError from None

    try:
        return await in_thread(functools.partial(plain, request, call))
    finally:
        over = True
        for future in under_way:
            future.cancel()
