"""Values that hooks are given and give back: read-only on the way in, checked on the way out."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NoReturn, TypeVar, cast

from core.text import clean, clean_value, unfit

TEXT_LIMIT: Final = 2_000_000
"""Characters of one text that a hook may give back."""

VALUE_LIMIT: Final = 1_000_000
"""Characters of one JSON value that a hook may give back, names of fields included."""

_DEEPEST: Final = 100

R = TypeVar("R")

Check = Callable[[Any, Any], Any]
"""Takes the old and the new value and returns what is kept; raises `BadChange`."""


class BadChange(Exception):
    """What a hook gave back cannot be taken; the text says why."""


def _refuse(*_: object, **__: object) -> NoReturn:
    raise TypeError("What a hook is given is read-only: return a changed record instead.")


class FrozenDict(dict[str, Any]):
    """A dict that nobody can change; a copy of it is a plain dict."""

    __setitem__ = __delitem__ = update = setdefault = pop = popitem = clear = __ior__ = _refuse

    def __reduce__(self) -> Any:
        """Let copies and pickles be plain."""
        return dict, (dict(self),)


class FrozenList(list[Any]):
    """A list that nobody can change; a copy of it is a plain list."""

    __setitem__ = __delitem__ = append = extend = insert = pop = remove = clear = sort = _refuse
    reverse = __iadd__ = __imul__ = _refuse

    def __reduce__(self) -> Any:
        """Let copies and pickles be plain."""
        return list, (list(self),)


def frozen(value: Any) -> Any:
    """Return a JSON value as a copy that cannot be changed."""
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return FrozenDict({key: frozen(one) for key, one in fields.items()})
    if isinstance(value, list | tuple):
        return FrozenList([frozen(one) for one in cast("Sequence[Any]", value)])
    return value


def plain(value: Any) -> Any:
    """Return a copy of what a hook gave back, made of plain JSON types only.

    Raises:
        BadChange: it is no JSON value, too large, nested too deeply, or not to be stored.
    """
    copied = _copied(value, [VALUE_LIMIT], 0)
    if wrong := unfit(copied):
        raise BadChange(f"the value cannot be stored: {wrong}")
    return clean_value(copied)


def _copied(value: Any, room: list[int], depth: int) -> Any:
    if depth > _DEEPEST:
        raise BadChange("the value is nested too deeply")
    room[0] -= len(value) + 2 if isinstance(value, str) else 8
    if room[0] < 0:
        raise BadChange(f"the value has more than {VALUE_LIMIT} characters")
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise BadChange(f"{value} is no JSON number")
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, list | tuple):
        return [_copied(one, room, depth + 1) for one in cast("Sequence[Any]", value)]
    if isinstance(value, Mapping):
        return _mapping(cast("Mapping[Any, Any]", value), room, depth)
    raise BadChange(f"{type(value).__name__} is no JSON type")


def _mapping(value: Mapping[Any, Any], room: list[int], depth: int) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for key, one in value.items():
        if not isinstance(key, str):
            raise BadChange(f"a name in it is {type(key).__name__}, not text")
        room[0] -= len(key) + 2
        kept[str(key)] = _copied(one, room, depth + 1)
    return kept


# Checks of single fields ------------------------------------------------------------------


def may_be(check: Check) -> Any:
    """Return a field of a record that a hook may change, as the check allows."""
    return dataclasses.field(metadata={"check": check})


def any_text(_: Any, new: Any) -> str:
    """Take any text within the limit."""
    if not isinstance(new, str):
        raise BadChange(f"it is {type(new).__name__}, not text")
    if len(new) > TEXT_LIMIT:
        raise BadChange(f"it has {len(new)} characters; {TEXT_LIMIT} are allowed")
    return clean(str(new))


def an_object(_: Any, new: Any) -> Any:
    """Take a JSON object."""
    if not isinstance(new, Mapping):
        raise BadChange(f"it is {type(new).__name__}, not a JSON object")
    return frozen(plain(new))


def a_value(_: Any, new: Any) -> Any:
    """Take any JSON value."""
    return frozen(plain(new))


def fewer_names(old: Any, new: Any) -> tuple[str, ...]:
    """Take some of the names that were there, in their order."""
    if not isinstance(new, list | tuple):
        raise BadChange(f"it is {type(new).__name__}, not a list of names")
    wanted = list(cast("Sequence[Any]", new))
    for name in wanted:
        if name not in old:
            raise BadChange(f"it names {str(name)[:80]!r}, which was not there; it can only shrink")
    return tuple(name for name in old if name in wanted)


def a_limit(_: Any, new: Any) -> int | None:
    """Take a number of tokens, or none."""
    if new is None:
        return None
    if isinstance(new, bool) or not isinstance(new, int) or new < 1:
        raise BadChange("it is no whole number from 1 on")
    return int(new)


def only_texts(old: Any, new: Any) -> tuple[Any, ...]:
    """Take the same records with other texts: `text` is all that may differ."""
    if not isinstance(new, list | tuple):
        raise BadChange(f"it is {type(new).__name__}, not a list of messages")
    given = tuple(cast("Sequence[Any]", new))
    if len(given) != len(old):
        raise BadChange(
            f"it has {len(given)} entries in place of {len(old)}; only texts may differ"
        )
    return tuple(_same_but_text(one, other) for one, other in zip(old, given, strict=True))


def _same_but_text(old: Any, new: Any) -> Any:
    if new is old:
        return old
    if type(new) is not type(old):
        raise BadChange(f"an entry is {type(new).__name__}, not {type(old).__name__}")
    for item in dataclasses.fields(old):
        if item.name != "text" and getattr(new, item.name) != getattr(old, item.name):
            raise BadChange(f"{item.name} of an entry differs; only texts may")
    return dataclasses.replace(old, text=any_text(old.text, new.text))


# The whole record -------------------------------------------------------------------------


def merged(record: R, given: object) -> R:
    """Return the record with the changes that a hook gave back.

    Raises:
        BadChange: it is another type, or changes something that may not be changed.
    """
    if given is None or given is record:
        return record
    kind = type(record)
    if type(given) is not kind:
        raise BadChange(f"it returned {type(given).__name__}, not {kind.__name__} or None")
    changes: dict[str, Any] = {}
    fields: Any = dataclasses.fields(cast("Any", record))
    for item in fields:
        old, new = getattr(record, item.name), getattr(given, item.name)
        if new is old:
            continue
        check: Check | None = item.metadata.get("check")
        if check is None:
            if type(new) is not type(old) or new != old:
                raise BadChange(f"it changed {item.name}; {changeable(kind)}")
            continue
        try:
            value = check(old, new)
        except BadChange as problem:
            raise BadChange(f"its {item.name} cannot be taken: {problem}") from None
        if value != old:
            changes[item.name] = value
    return dataclasses.replace(cast("Any", record), **changes) if changes else record


def changeable(kind: type[Any]) -> str:
    """Say what a hook may change of a record."""
    names = [item.name for item in dataclasses.fields(kind) if "check" in item.metadata]
    return f"only {', '.join(names)} may be changed" if names else "nothing of it may be changed"
