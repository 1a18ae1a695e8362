"""Items of a batch: read, checked all together, and given keys by which a second start knows them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final, cast

from core.errors import Invalid
from core.ids import is_uuid
from core.text import clean
from runtime.admission import MESSAGE_LIMIT
from runtime.naming import nearest

KEY_LENGTH: Final = 200
"""Characters of a key."""

MADE_KEY: Final = 24
"""Characters of a key that is made from the other fields."""

SHOWN: Final = 50
"""Faults that are listed; the others are counted."""

_MODES: Final = ("plan", "full")


@dataclass(frozen=True, slots=True)
class BatchItem:
    """One thing to do. A plain text is an item with that message."""

    message: str
    key: str | None = None
    """By which it is known again; made from the other fields where missing."""
    agent: str | None = None
    session_id: str | None = None
    """A session that it goes on in; items of one session go one after another."""
    model: str | None = None
    mode: str | None = None

    @property
    def digest(self) -> str:
        """What this item asks for, as a short text."""
        asked = {name: value for name, value in _fields(self).items() if name != "key"}
        text = json.dumps(asked, sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    @property
    def called(self) -> str:
        """What people know it by: its own key, or how its message begins."""
        if self.key is not None and self.key != self._made_key:
            return f"the item {self.key[:60]!r}"
        return f"the item with the message {self.message[:60]!r}"

    @property
    def with_key(self) -> BatchItem:
        """This item, with a key made of the other fields where it has none."""
        return self if self.key is not None else replace(self, key=self._made_key)

    @property
    def _made_key(self) -> str:
        return self.digest[:MADE_KEY]

    def request_id(self, name: str) -> str:
        """Return the request key that stands for this item in the batch of that name."""
        text = json.dumps([name, self.key], ensure_ascii=True)
        return f"batch:{hashlib.sha256(text.encode()).hexdigest()[:48]}"


NAMES: Final = tuple(one.name for one in fields(BatchItem))


def items_of(given: Iterable[Any], defaults: Mapping[str, str | None]) -> list[BatchItem]:
    """Return all items with keys, or say of every one that is wrong what is.

    Args:
        given: `BatchItem`s, mappings or texts.
        defaults: fields of items that do not say them themselves.

    Raises:
        Invalid: with every fault; nothing was begun.
    """
    if isinstance(given, str | bytes | Mapping) or not hasattr(given, "__iter__"):
        kind = type(cast("object", given)).__name__
        raise Invalid(f"items is {kind}, not a list of items. Write [one, two].")
    return checked([(f"item {at}", one) for at, one in enumerate(given, start=1)], defaults)


def lines_of(data: bytes) -> list[tuple[str, Any]]:
    """Return the values of a JSONL file with their places; a line that is no JSON is a `_Bad`."""
    lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    return [(f"line {at}", _parsed(line)) for at, line in enumerate(lines, start=1) if line.strip()]


def checked(
    given: Sequence[tuple[str, Any]], defaults: Mapping[str, str | None]
) -> list[BatchItem]:
    """Return the items that these values, each with its place, are.

    Raises:
        Invalid: with every fault, each with its place.
    """
    faults: list[str] = []
    items: list[BatchItem] = []
    first: dict[str, str] = {}
    for place, value in given:
        item = _item(value, place, defaults, faults)
        if item is None:
            continue
        key = str(item.key)
        if key in first:
            cure = "" if _own_key(value) else " Give them keys of their own if both are meant."
            what = "has the key" if _own_key(value) else "is the same as"
            shown = f" {key[:60]!r} of" if _own_key(value) else ""
            faults.append(f"{place} {what}{shown} {first[key]}.{cure}")
        else:
            first[key] = place
            items.append(item)
    if not given:
        faults.append("there is nothing to do: give one item or more.")
    if faults:
        raise Invalid(listing(faults), details={"faults": faults[:SHOWN], "all": len(faults)})
    return items


def listing(faults: Sequence[str]) -> str:
    """Return what is wrong with a batch, as people read it."""
    shown = [f"  {fault}" for fault in faults[:SHOWN]]
    more = len(faults) - len(shown)
    tail = [f"  … and {more} more."] if more else []
    return "\n".join(["The batch cannot begin:", *shown, *tail])


# Helpers ----------------------------------------------------------------------------------


_FORM: Final = 'Write "a text" or {"message": "…"}, each on one line.'


@dataclass(frozen=True, slots=True)
class _Bad:
    """A line that is no JSON, and why."""

    why: str


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line.decode())
    except UnicodeDecodeError:
        return _Bad("is not UTF-8: save the file as UTF-8.")
    except RecursionError:
        return _Bad("is nested too deeply.")
    except json.JSONDecodeError as error:
        return _Bad(f"is no JSON (column {error.colno}: {error.msg}). {_FORM}")
    except ValueError as error:
        return _Bad(f"is no JSON ({error}). {_FORM}")


def _fields(item: BatchItem) -> dict[str, str | None]:
    return {name: getattr(item, name) for name in NAMES}


def _own_key(value: Any) -> bool:
    if isinstance(value, Mapping):
        return cast("Mapping[str, Any]", value).get("key") is not None
    return isinstance(value, BatchItem) and value.key is not None


def _item(
    value: Any, place: str, defaults: Mapping[str, str | None], faults: list[str]
) -> BatchItem | None:
    if isinstance(value, str):
        value = {"message": value}
    elif isinstance(value, BatchItem):
        value = _fields(value)
    if isinstance(value, _Bad):
        faults.append(f"{place} {value.why}")
        return None
    if not isinstance(value, Mapping):
        one = " Write each of the list as an item of its own." if isinstance(value, list) else ""
        faults.append(f"{place} is neither a text nor an object with a message.{one}")
        return None
    said = {str(name): one for name, one in cast("Mapping[Any, Any]", value).items()
            if one is not None}  # fmt: skip
    key = said.get("key")
    if isinstance(key, int) and not isinstance(key, bool):
        said["key"] = str(key)
    before = len(faults)
    faults += [f"{place}: {fault}" for fault in _faults(said)]
    if len(faults) > before:
        return None
    texts = {name: clean(one) for name, one in (_without_none(defaults) | said).items()}
    item = BatchItem(**texts)
    return item.with_key


def _without_none(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _faults(said: Mapping[str, Any]) -> list[str]:
    """Return everything that is wrong with the fields of an item."""
    faults = [
        f"there is no field {name[:40]!r}. {nearest(name, NAMES)}".rstrip()
        for name in said
        if name not in NAMES
    ]
    wrong = [name for name in NAMES if not isinstance(said.get(name, ""), str)]
    if wrong:
        return [*faults, *(f"{name} must be a text." for name in wrong)]
    message = said.get("message", "")
    if not message.strip():
        faults.append("the message is missing or empty.")
    elif len(message) > MESSAGE_LIMIT:
        faults.append(f"the message has more than {MESSAGE_LIMIT} characters.")
    if "key" in said and not (said["key"].strip() and len(said["key"]) <= KEY_LENGTH):
        faults.append(f"a key has 1 to {KEY_LENGTH} characters.")
    if "session_id" in said and not is_uuid(said["session_id"]):
        faults.append("session_id is no id of a session; leave it out for a new one.")
    if said.get("mode", "full") not in _MODES:
        faults.append("mode must be plan or full.")
    return faults
