"""Channels for the state of middleware, stored like everything else: never as plain JSON.

LangGraph's PostgreSQL saver writes a channel's text, number or truth value openly into the
checkpoint's row. In a list of one it goes where all other values go (EXEC-40).
"""

from __future__ import annotations

from typing import Any, Self

from langgraph.channels import BinaryOperatorAggregate, LastValue


class BoxedValue(LastValue[Any]):
    """Keeps the last value, in a box while it is stored."""

    __slots__ = ()

    def from_checkpoint(self, checkpoint: Any) -> Self:
        """Return the channel with a stored value."""
        return super().from_checkpoint(_opened(checkpoint))

    def checkpoint(self) -> Any:
        """Return what is stored."""
        value = super().checkpoint()
        return [value] if self.is_available() else value


class BoxedAggregate(BinaryOperatorAggregate[Any]):
    """Joins values by an operator, in a box while they are stored."""

    __slots__ = ()

    def from_checkpoint(self, checkpoint: Any) -> Self:
        """Return the channel with a stored value."""
        return super().from_checkpoint(_opened(checkpoint))

    def checkpoint(self) -> Any:
        """Return what is stored."""
        value = super().checkpoint()
        return [value] if self.is_available() else value


def boxed(channel: Any) -> Any:
    """Return a channel of the same kind whose values are stored in a box.

    Kinds that are not stored, or that keep lists anyway, stay as they are.
    """
    if type(channel) is LastValue:
        return BoxedValue(channel.typ, channel.key)
    if type(channel) is BinaryOperatorAggregate:
        made = BoxedAggregate(channel.typ, channel.operator)
        made.key = channel.key
        return made
    return channel


def _opened(stored: Any) -> Any:
    """Return the value in a box; what is missing comes without one."""
    return stored[0] if isinstance(stored, list) else stored
