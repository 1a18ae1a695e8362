"""Reads what a script asks for, and says of everything that is wrong what would be right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from core.errors import Invalid
from core.types import SCRIPT, RunKind
from runtime.commands import ChatCommand, ResumeCommand, Upload
from runtime.naming import nearest

STEPS: Final = "recursion_limit"
"""LangGraph's name of what is a limit of steps here."""

MOST_STEPS: Final = 1_000_000

_TEXTS: Final = ("message", "session_id", "agent", "model", "thinking", "request_id")
_OF_MESSAGES: Final = (*_TEXTS, "mode", "kind", "graph_config", "files")
_OF_ANSWERS: Final = ("session_id", "interrupt_token", "resume")
_MODES: Final = ("plan", "full")


def command_of(
    asked: Mapping[str, Any],
    script: Mapping[str, Any] | None = None,
    instead_of: str | None = None,
) -> ChatCommand | ResumeCommand:
    """Return the command that a script's arguments mean.

    Args:
        asked: the arguments by name, `user_name` among them.
        script: what is noted with the run.
        instead_of: the run that `request_id` stood for so far.

    Raises:
        TypeError: there is no such argument, or one is missing.
        Invalid: one has a value that is not allowed.
    """
    given = {name: value for name, value in asked.items() if value is not None}
    known = {"user_name", *_OF_MESSAGES, *_OF_ANSWERS}
    for name in asked:
        if name not in known:
            raise TypeError(f"There is no argument {name!r}. {nearest(name, known)}".rstrip())
    if "user_name" not in given:
        raise TypeError("user_name is missing: whose run is it?")
    answers = "resume" in given or "interrupt_token" in given
    return _answer(given) if answers else _message(given, script or {}, instead_of)


def limits_in(graph_config: Any) -> dict[str, int]:
    """Return the limits that a graph's configuration means for a run.

    Raises:
        Invalid: it says something that is not understood.
    """
    if graph_config is None:
        return {}
    if not isinstance(graph_config, Mapping):
        raise Invalid("graph_config: a mapping is expected, such as {'recursion_limit': 30}.")
    config = cast("Mapping[Any, Any]", graph_config)
    unknown = sorted(str(name)[:40] for name in config if name != STEPS)
    if unknown:
        raise Invalid(
            f"graph_config: not understood: {', '.join(unknown[:10])}. It may say recursion_limit."
        )
    steps = config.get(STEPS)
    if isinstance(steps, bool) or not isinstance(steps, int) or not 1 <= steps <= MOST_STEPS:
        raise Invalid(f"graph_config: recursion_limit is a whole number from 1 to {MOST_STEPS}.")
    return {"steps": steps}


# Helpers ----------------------------------------------------------------------------------


def _message(
    given: dict[str, Any], script: Mapping[str, Any], instead_of: str | None
) -> ChatCommand:
    if "message" not in given:
        raise TypeError("message is missing: what is the agent told?")
    for name in _TEXTS:
        if not isinstance(given.get(name, ""), str):
            raise Invalid(f"{name} must be a text.")
    if given.get("mode", "full") not in _MODES:
        raise Invalid("mode must be plan or full.")
    kinds = [kind.value for kind in RunKind]
    if given.get("kind", "batch") not in kinds:
        raise Invalid(f"kind must be one of {', '.join(kinds)}.")
    files: object = given.get("files", ())
    if not isinstance(files, list | tuple) or not all(
        map(_is_upload, cast("Sequence[object]", files))
    ):
        raise Invalid("files: a list of Upload(name, content) is expected: a text, and bytes.")
    plain = {name: given[name] for name in (*_TEXTS, "mode") if name in given}
    return ChatCommand(
        **plain,
        files=tuple(cast("Sequence[Upload]", files)),
        kind=RunKind(given.get("kind", RunKind.BATCH)),
        limits=limits_in(given.get("graph_config")),
        script=script,
        instead_of=instead_of,
    )


def _is_upload(file: object) -> bool:
    if not isinstance(file, Upload):
        return False
    name, content = cast("tuple[object, object]", (file.name, file.content))
    return isinstance(name, str) and isinstance(content, bytes)


def _answer(given: dict[str, Any]) -> ResumeCommand:
    missing = [name for name in _OF_ANSWERS if name not in given]
    if missing:
        raise TypeError(f"An answer also needs {', '.join(missing)}.")
    extra = sorted(name for name in given if name not in ("user_name", *_OF_ANSWERS))
    if extra:
        raise Invalid(
            f"Not with an answer: {', '.join(extra)}. The run goes on as it began; {SCRIPT}s "
            "answer with session_id, interrupt_token and resume alone."
        )
    for name in ("session_id", "interrupt_token"):
        if not isinstance(given[name], str):
            raise Invalid(f"{name} must be a text.")
    return ResumeCommand(given["session_id"], given["interrupt_token"], given["resume"])
