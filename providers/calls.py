"""Tool calls out of deltas: joined, named by unique ids, their arguments parsed strictly."""

from __future__ import annotations

import json
import math
import re
import uuid
from collections.abc import Set
from dataclasses import dataclass, field
from typing import Any, Final, cast

from core.text import clean, clean_value, shorten, unfit

ECHO: Final = 2_000
"""Characters of broken arguments that are kept to be shown to the model."""

_ID: Final = re.compile(r"[A-Za-z0-9_.:-]{1,128}")


@dataclass(slots=True)
class OpenCall:
    """One call as far as it has arrived."""

    id: str = ""
    name: str = ""
    arguments: str = ""

    def is_whole(self) -> bool:
        """Tell whether the arguments are a JSON object already."""
        return self.arguments.rstrip().endswith("}") and parse(self.arguments)[0] is not None


@dataclass(slots=True)
class CallJoiner:
    """Joins the fragments of one turn's calls (cases L02, L04)."""

    calls: list[OpenCall] = field(default_factory=list)
    _by_index: dict[int, OpenCall] = field(default_factory=dict)

    def feed(self, fragments: Any) -> None:
        """Take the `tool_calls` of one delta, whatever shape it has."""
        if isinstance(fragments, dict):
            fragments = [fragments]
        if not isinstance(fragments, list):
            return
        for fragment in cast("list[Any]", fragments):
            if isinstance(fragment, dict):
                self._take(cast("dict[str, Any]", fragment))

    def _take(self, fragment: dict[str, Any]) -> None:
        function = fragment.get("function")
        if not isinstance(function, dict):
            function = fragment if "arguments" in fragment or "name" in fragment else {}
        part = OpenCall(
            _text(fragment.get("id")), _text(function.get("name")), _json(function.get("arguments"))
        )
        index = fragment.get("index")
        if isinstance(index, int) and not isinstance(index, bool):
            call = self._by_index.get(index)
            if call is None or _begins_anew(call, part):
                call = self._new()
            self._by_index[index] = call
        else:
            call = self._without_index(part)
        _add(call, part)

    def _without_index(self, part: OpenCall) -> OpenCall:
        """Join by id, or else to the call that came last."""
        if part.id:
            same = [call for call in self.calls if call.id == part.id]
            if same and not _begins_anew(same[-1], part):
                return same[-1]
            return self._new()
        last = self.calls[-1] if self.calls else None
        other_name = bool(last and last.name and part.name and part.name != last.name)
        if last is None or other_name or _begins_anew(last, part):
            return self._new()
        return last

    def _new(self) -> OpenCall:
        call = OpenCall()
        self.calls.append(call)
        return call


def _begins_anew(call: OpenCall, part: OpenCall) -> bool:
    """Tell whether the fragment is the beginning of another call than the one at its place."""
    if part.id and call.id and part.id != call.id:
        return True
    if not part.name:
        return False
    if part.name != call.name and call.name and call.arguments:
        return True
    repeated = bool(part.id) and part.arguments == call.arguments
    return call.is_whole() and bool(part.arguments) and not repeated


def _add(call: OpenCall, part: OpenCall) -> None:
    call.id = call.id or part.id
    if not call.arguments and part.name != call.name:
        # Most servers send the name once, some in pieces, some whole with each fragment.
        call.name += part.name
    if part.arguments and part.arguments == call.arguments and call.is_whole():
        return  # the whole call said a second time
    call.arguments += part.arguments


# Arguments --------------------------------------------------------------------------------


def parse(text: str) -> tuple[dict[str, Any] | None, str]:
    """Return the arguments, or None and what is wrong with them.

    Nothing is repaired: arguments that were cut must never run (L11). An object that was
    encoded twice is accepted, an empty text means no arguments.
    """
    if not text.strip():
        return {}, ""
    try:
        value = _loads(text)
        if isinstance(value, str):
            value = _loads(value)
    except RecursionError:
        return None, "the arguments are nested too deeply"
    except ValueError as error:
        return None, f"the arguments are not JSON: {error}"
    if not isinstance(value, dict):
        return None, f"the arguments are a JSON {_kind(value)}, not an object"
    if wrong := unfit(value):
        return None, f"the arguments cannot be taken: {wrong}"
    return clean_value(value), ""


def _loads(text: str) -> Any:
    # Raw line breaks inside strings are let through: they hide nothing that was cut.
    return json.loads(text, strict=False, parse_constant=_refuse, parse_float=_finite)


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is too large a number")
    return number


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    return {list: "array", str: "string", bool: "boolean"}.get(type(value), "number")


# Results ----------------------------------------------------------------------------------


def settle(
    calls: list[OpenCall], used: Set[str], not_run: str = ""
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return LangChain's `tool_calls` and `invalid_tool_calls`, every id unique.

    Args:
        calls: the calls of a turn whose end was confirmed.
        used: ids that the history holds already; they are not given out again.
        not_run: why no call of this turn may run; empty when they may.
    """
    valid: list[dict[str, Any]] = []
    invalid: list[dict[str, Any]] = []
    taken = set(used)
    for call in calls:
        id = call.id if _ID.fullmatch(call.id) and call.id not in taken else mint()
        taken.add(id)
        arguments, fault = parse(call.arguments)
        fault = not_run or fault or ("" if call.name else "the call names no tool")
        if fault or arguments is None:
            raw = shorten(clean(call.arguments), ECHO)
            invalid.append({"name": clean(call.name), "args": raw, "id": id, "error": fault,
                            "type": "invalid_tool_call"})  # fmt: skip
        else:
            name = clean(call.name)
            valid.append({"name": name, "args": arguments, "id": id, "type": "tool_call"})
    return valid, invalid


def mint() -> str:
    """Return a new call id in the usual form."""
    return f"call_{uuid.uuid4().hex[:24]}"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _json(value: Any) -> str:
    """Return the arguments' text; some servers send the object itself."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
