"""Calls the hooks of a run: in order, within their time, and whatever they do, to a named end."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final, TypeAlias

from core.errors import (
    GraphwrightError,
    HookError,
    HookFailed,
    HookResultInvalid,
    HookTimeout,
    ToolDenied,
)
from core.hook_values import BadChange, merged
from core.hooks import POINTS, REFUSING, E, HookRun, Hooks, HookSpec
from core.log import get_logger
from core.masking import mask_told
from core.text import clean
from tools.result import told as said_by
from tools.threads import in_thread

_GRACE: Final = 1.0
"""Seconds a cancelled hook has to end before it is left alone."""

_MOST_HANGING: Final = 16
"""Calls of one hook that may hang in threads of this process at a time."""

_REASON: Final = 4_000
"""Characters of a reason that are kept."""

_POINT_OF: Final = {kind: point for point, kind in POINTS.items()}

Check: TypeAlias = Callable[[E], None] | None

_log = get_logger(__name__)


class RunHooks(Hooks):
    """The hooks that one run calls."""

    def __init__(self, specs: Sequence[HookSpec], run: HookRun) -> None:
        """Take the hooks of all agents, in order; those of other agents are left out."""
        self.run = run
        at: dict[str, list[HookSpec]] = {}
        for spec in specs:
            if spec.concerns(run.agent):
                at.setdefault(spec.point, []).append(spec)
        self.at = at

    async def apply(self, event: E, check: Callable[[E], None] | None = None) -> E:
        """Call the hooks of the record's point; see `core.hooks.Hooks.apply`."""
        for spec in self.at.get(_POINT_OF[type(event)], ()):
            try:
                event = await _called(spec, event, check)
            except HookError as problem:
                if spec.on_error == "fail":
                    raise
                _log.warning(
                    "a hook failed and is ignored: %s", problem.message, extra={"kv": _kv(spec)}
                )
        return event


async def _called(spec: HookSpec, event: E, check: Check[E]) -> E:
    """Wait for the hook, but no longer than it may take.

    It has a task of its own, because code that swallows its cancellation would otherwise hold
    the run for ever.
    """
    call = _Call(spec)
    task = asyncio.create_task(_guarded(call, event, check), name=f"hook {spec.name}")
    call.task = task
    try:
        done, _ = await asyncio.wait({task}, timeout=spec.timeout)
    except asyncio.CancelledError:
        await _stop(task)
        call.leave()
        raise
    if not done:
        await _stop(task)
        call.leave()
        raise HookTimeout(
            f"{_named(spec)} did not end within {spec.timeout:g} seconds.", details=_kv(spec)
        )
    changed, error = task.result()
    if error is None and changed is not None:
        return changed
    raise _as_ours(spec, error)


class _Call:
    """One call of a hook, and whether it is still going on."""

    left: ClassVar[dict[tuple[str, str, str], list[_Call]]] = {}
    """Calls that were left behind, by hook: nothing stops a thread from outside."""

    def __init__(self, spec: HookSpec) -> None:
        """Begin a call.

        Raises:
            HookTimeout: so many calls hang already that another one would only cost a thread.
        """
        self.spec = spec
        self.inside = False
        self.task: asyncio.Task[Any] | None = None
        self._hook = (spec.extension, spec.name, spec.point)
        hanging = [one for one in self.left.pop(self._hook, []) if one.goes_on]
        if hanging:
            self.left[self._hook] = hanging
        if len(hanging) >= _MOST_HANGING:
            said = f"{_named(spec)} was not called: {len(hanging)} earlier calls have not ended."
            raise HookTimeout(said, details=_kv(spec))

    @property
    def goes_on(self) -> bool:
        """Whether the hook is still at it, in its thread or in a task that will not be cancelled."""
        return self.inside or (self.task is not None and not self.task.done())

    def leave(self) -> None:
        """Remember a call that goes on."""
        if self.goes_on:
            self.left.setdefault(self._hook, []).append(self)

    def plainly(self, event: Any, given: Any, check: Any) -> Any:
        """Call a plain function, in a thread."""
        self.inside = True
        try:
            result = self.spec.function(given)
            if inspect.isawaitable(result):
                return result
            return _taken(self.spec, event, result, check)
        finally:
            self.inside = False


async def _guarded(call: _Call, event: E, check: Check[E]) -> tuple[E | None, BaseException | None]:
    """Return the record or what was raised: SystemExit in a task would stop the event loop."""
    spec = call.spec
    # A hook that gets around the record being read-only changes a copy.
    shown = dataclasses.replace(event)
    try:
        if inspect.iscoroutinefunction(_code(spec.function)):
            given = await spec.function(shown)
            # Comparing and copying what came back takes a while, and may run code of the author's.
            return await in_thread(functools.partial(_taken, spec, event, given, check)), None
        given = await in_thread(functools.partial(call.plainly, event, shown, check))
        if inspect.isawaitable(given):
            given = await given
            return await in_thread(functools.partial(_taken, spec, event, given, check)), None
        return given, None
    except BaseException as problem:  # boundary: a hook may raise anything
        return None, problem


def _taken(spec: HookSpec, event: Any, given: Any, check: Any) -> Any:
    if spec.observes and given is not None:
        raise BadChange(
            f"it returned {type(given).__name__}, but was registered with observes=True"
        )
    changed = merged(event, given)
    if check is not None and changed is not event:
        check(changed)
    return changed


def _code(function: Any) -> Any:
    """Return what is called: of an object with `__call__`, that method."""
    plain = inspect.isroutine(function) or isinstance(function, functools.partial)
    return function if plain else type(function).__call__


def _as_ours(spec: HookSpec, error: BaseException | None) -> GraphwrightError:
    if isinstance(error, ToolDenied) and spec.point in REFUSING:
        return ToolDenied(said_by(error)[:_REASON])
    if isinstance(error, BadChange):
        return HookResultInvalid(
            f"{_named(spec)}: {mask_told(clean(str(error)))}.", details=_kv(spec)
        )
    _log.error("hook failed", exc_info=error, extra={"kv": _kv(spec)})
    told = f" {said_by(error)}" if isinstance(error, GraphwrightError) else ""
    return HookFailed(
        f"{_named(spec)} failed ({type(error).__name__}).{told[:_REASON]}", details=_kv(spec)
    )


def _named(spec: HookSpec) -> str:
    return f"The hook {spec.name} of the extension {spec.extension} at {spec.point}"


def _kv(spec: HookSpec) -> dict[str, Any]:
    return {"hook": spec.name, "extension": spec.extension, "point": spec.point}


async def _stop(task: asyncio.Task[Any]) -> None:
    task.cancel()
    await asyncio.wait({task}, timeout=_GRACE)
