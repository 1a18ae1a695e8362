"""The reducer of a conversation: adds, replaces and removes messages by id."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from langchain_core.messages import AnyMessage, RemoveMessage

REMOVE_ALL = "__remove_all__"
"""Id of the `RemoveMessage` that empties the conversation."""


def reduce_messages(state: Sequence[AnyMessage], writes: Sequence[Any]) -> list[AnyMessage]:
    """Apply writes, oldest first, to a conversation.

    A message whose id is known takes the place of the older one; another goes to the end.
    The result depends only on the order of the single messages, never on how they were put
    into batches, because checkpoints replay them in larger batches than they were made in.

    Args:
        state: messages with ids that differ.
        writes: messages, or lists of messages.
    """
    table: dict[str, AnyMessage] = {_stamp(message, ()): message for message in state}
    for message in _each(writes):
        if not isinstance(message, RemoveMessage):
            table[_stamp(message, table)] = message
        elif message.id == REMOVE_ALL:
            table.clear()
        else:
            table.pop(str(message.id), None)
    return list(table.values())


def _each(writes: Iterable[Any]) -> Iterable[Any]:
    for write in writes:
        if isinstance(write, list | tuple):
            yield from write
        elif write is not None:
            yield write


def _stamp(message: AnyMessage, taken: Iterable[str]) -> str:
    """Return the id; one that comes without is given the next free number.

    Our nodes stamp every message. Refusing one here would be too late: the write is stored
    already, and the thread could never be opened again.
    """
    if not message.id:
        number = sum(1 for _ in taken)
        while f"unstamped-{number}" in taken:
            number += 1
        message.id = f"unstamped-{number}"
    return message.id
