"""Channels for the state of middleware, stored like everything else: never as plain JSON.

LangGraph's PostgreSQL saver writes a channel's text, number or truth value openly into the
checkpoint's row. In a list of one it goes where all other values go (EXEC-40).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Self

from langgraph.channels import BinaryOperatorAggregate, LastValue, UntrackedValue
from langgraph.channels.base import BaseChannel
from langgraph.errors import EmptyChannelError

from core.log import get_logger
from nodes.middleware.values import plain, rebuilt

Fields = Mapping[str, Any]
"""The channels that middleware add to ours, by name."""

CLEARED: Final = object()
"""Written to a value of one run when another run begins."""

_NOTHING: Final[Any] = LastValue(object).value

_log = get_logger(__name__)


class _Boxed(BaseChannel[Any, Any, Any]):
    """Puts the value of the channel behind it in a box while it is stored."""

    __slots__ = ()

    def get(self) -> Any:
        """Return the value as the type that is declared."""
        return _built(self, super().get())

    def from_checkpoint(self, checkpoint: Any) -> Self:
        """Return the channel with a stored value."""
        return super().from_checkpoint(_opened(checkpoint))

    def checkpoint(self) -> Any:
        """Return what is stored."""
        value = super().checkpoint()
        return [value] if self.is_available() else value


class BoxedValue(_Boxed, LastValue[Any]):
    """Keeps the last value, in a box while it is stored.

    Of several that calls side by side write in one step, the later one stands.
    """

    __slots__ = ()

    def update(self, values: Sequence[Any]) -> bool:
        """Take what a step wrote."""
        return super().update(values[-1:])


class BoxedAggregate(_Boxed, BinaryOperatorAggregate[Any]):
    """Joins values by an operator, in a box while they are stored."""

    __slots__ = ()

    def update(self, values: Sequence[Any]) -> bool:
        """Take what a step wrote; what the operator cannot join is left out.

        What is written stands in the thread already: an error here would come again each time
        that the thread is opened.
        """
        before = self.value
        try:
            return super().update(values)
        except Exception:  # boundary: an extension's own operator
            _log.exception("the state of a middleware could not be joined", extra=_named(self))
            self.value = before
            return False


class RunValue(UntrackedValue[Any]):
    """Keeps a value of one run, over its questions and crashes too, where it can be stored.

    LangGraph forgets such a value with each call of a graph, and a run here takes several.
    """

    __slots__ = ()

    def update(self, values: Sequence[Any]) -> bool:
        """Take what a step wrote."""
        if values and values[-1] is CLEARED:
            self.value = _NOTHING
            return True
        return super().update(values[-1:])

    def get(self) -> Any:
        """Return the value as the type that is declared."""
        return _built(self, super().get())

    def from_checkpoint(self, checkpoint: Any) -> Self:
        """Return the channel with a stored value."""
        made = super().from_checkpoint(checkpoint)
        made.value = _opened(checkpoint)
        return made

    def checkpoint(self) -> Any:
        """Return what is stored; nothing of a value that lives in this process only."""
        if not self.is_available():
            return _NOTHING
        try:
            return [plain(self.value)]
        except ValueError:
            return _NOTHING


def boxed(channel: Any) -> Any:
    """Return a channel of the same kind whose values are stored in a box.

    Other kinds stay as they are.
    """
    if type(channel) is LastValue:
        return BoxedValue(channel.typ, channel.key)
    if type(channel) is UntrackedValue:
        made = RunValue(channel.typ, channel.guard)
    elif type(channel) is BinaryOperatorAggregate:
        made = BoxedAggregate(channel.typ, channel.operator)
    else:
        return channel
    made.key = channel.key
    return made


def joins(channel: Any, before: Any, value: Any) -> None:
    """Check that a value can be joined to the one before it.

    Raises:
        ValueError: it cannot.
    """
    if not isinstance(channel, BinaryOperatorAggregate) or before is None:
        return
    try:
        trial = BinaryOperatorAggregate(channel.typ, channel.operator)
        trial.update([plain(before)])
        trial.update([value])
    except Exception as error:  # boundary: an extension's own operator
        raise ValueError(f"its reducer fails ({type(error).__name__})") from error


# Helpers --------------------------------------------------------------------------------


def _built(channel: Any, value: Any) -> Any:
    """Return a value as the type that is declared; one that does not fit any more is gone.

    Raises:
        EmptyChannelError: it does not fit.
    """
    try:
        return rebuilt(channel.typ, value)
    except Exception:  # boundary: checks of an extension's own types
        _log.warning("stored state of a middleware fits its type no more", extra=_named(channel))
        raise EmptyChannelError from None


def _named(channel: Any) -> dict[str, Any]:
    return {"kv": {"state": channel.key}}


def _opened(stored: Any) -> Any:
    """Return the value in a box; what is missing comes without one."""
    return stored[0] if isinstance(stored, list) else stored
