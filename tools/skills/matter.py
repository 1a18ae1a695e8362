"""The front matter of a `SKILL.md`: strict, small, and harmless whatever stands in it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

import yaml

from core.errors import FileRefused
from core.skills import SkillFault
from core.text import clean
from sandbox.text import decode

MOST_TEXT: Final = 100_000
"""Bytes of a `SKILL.md`."""
MOST_MATTER: Final = 8_000
"""Characters of its front matter."""
MOST_DESCRIPTION: Final = 1_024
NAME: Final = re.compile(r"(?=.{1,64}\Z)[a-z0-9]+(?:-[a-z0-9]+)*\Z")

_DEEPEST: Final = 8
_JOINERS: Final = "\u200c\u200d"
"""Invisible, but needed by emoji and some scripts."""
_FENCE: Final = re.compile(r"---[ \t]*\Z")
_FORM: Final = (
    "Begin the file with `---`, `name: …`, `description: …`, `---`, each on its own line."
)


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a sound `SKILL.md` says."""

    name: str
    description: str
    body: str
    first_line: int
    """Number of the line on which the body begins, counted from 1."""


class BrokenSkill(Exception):
    """A skill has a fault; carries it to the one place that notes it."""

    def __init__(self, cause: str, cure: str) -> None:
        super().__init__(cause)
        self.fault = SkillFault(cause, cure)


def read_manifest(content: bytes, folder: str) -> Manifest:
    """Return what a `SKILL.md` says.

    Args:
        content: the file as it lies on disk, in any common encoding.
        folder: name of the folder it lies in, which must be the skill's name.

    Raises:
        BrokenSkill: with cause and cure.
    """
    check_name(folder)
    if len(content) > MOST_TEXT:
        cure = "Keep the instructions short and put the rest into references/."
        raise BrokenSkill(f"SKILL.md has more than {MOST_TEXT:,} bytes.", cure)
    try:
        text, _ = decode(content)
    except FileRefused as error:
        raise BrokenSkill("SKILL.md is not a text file.", "Save it as UTF-8.") from error
    head, body, first_line = _split(text)
    fields = _fields(head)
    name = _text_of(fields, "name")
    if name != folder:
        cure = f"Write `name: {folder}`, or rename the folder."
        raise BrokenSkill(f"Its name is {name[:80]!r}, but its folder is {folder!r}.", cure)
    return Manifest(name, _description(fields), body, first_line)


def check_name(name: str) -> None:
    """Refuse a name that a skill cannot have.

    Raises:
        BrokenSkill: with cause and cure.
    """
    if NAME.match(name) is None:
        cure = "Rename it: 1 to 64 lower-case letters and digits, words joined by single dashes."
        raise BrokenSkill("The name of its folder is not allowed.", cure)


def _split(text: str) -> tuple[str, str, int]:
    """Return front matter, body, and the number of the body's first line."""
    lines = text.splitlines()
    if not lines or _FENCE.match(lines[0]) is None:
        raise BrokenSkill("SKILL.md has no front matter.", _FORM)
    size = 0
    for number, line in enumerate(lines[1:], start=1):
        if _FENCE.match(line):
            return "\n".join(lines[1:number]), "\n".join(lines[number + 1 :]), number + 2
        size += len(line) + 1
        if size > MOST_MATTER:
            cause = f"Its front matter has more than {MOST_MATTER:,} characters, or never ends."
            raise BrokenSkill(cause, "Close it with `---`; long texts belong below.")
    raise BrokenSkill("Its front matter never ends.", _FORM)


def _fields(head: str) -> Mapping[str, Any]:
    """Return the fields of the front matter, every value as text, list or mapping."""
    try:
        loader = _PlainLoader(head)
        try:
            found = loader.get_single_data()
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        where = _place_of(error)
        cure = "Put texts that hold `: ` or `#` into quotes, and indent with spaces."
        raise BrokenSkill(f"Its front matter is not valid YAML{where}.", cure) from error
    if not isinstance(found, dict):
        raise BrokenSkill("Its front matter holds no fields.", _FORM)
    return cast("dict[str, Any]", found)


def _place_of(error: yaml.YAMLError) -> str:
    if not isinstance(error, yaml.MarkedYAMLError):
        return ""
    line = f" (line {error.problem_mark.line + 2})" if error.problem_mark else ""
    return f": {error.problem}{line}" if error.problem else line


def _text_of(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name)
    if value is None:
        raise BrokenSkill(f"Its front matter has no {name}.", f"Add a line `{name}: …`.")
    if not isinstance(value, str):
        raise BrokenSkill(f"Its {name} is not a text.", f"Write `{name}: …` on one line.")
    return value


def _description(fields: Mapping[str, Any]) -> str:
    """Return the description on one line."""
    said = " ".join(_text_of(fields, "description").split())
    # Escapes in quotes can write anything: no NUL, no lone surrogate, nothing that turns text round.
    description = "".join(char for char in clean(said) if char.isprintable() or char in _JOINERS)
    if not description:
        cure = "Say in one or two sentences what it does and when to use it."
        raise BrokenSkill("Its description is empty.", cure)
    if len(description) > MOST_DESCRIPTION:
        cause = f"Its description has more than {MOST_DESCRIPTION:,} characters."
        raise BrokenSkill(cause, "Shorten it; details belong into the text below.")
    return description


class _PlainLoader(yaml.BaseLoader):
    """Reads every scalar as text: no tag makes an object, no date or number is guessed.

    Anchors, repeated fields and deep nesting are refused, so a small text cannot grow large.
    """

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event: Any = self.peek_event()
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise yaml.MarkedYAMLError(problem="anchors are not allowed", problem_mark=_mark(event))
        if self._depth >= _DEEPEST:
            raise yaml.MarkedYAMLError(problem="too deeply nested", problem_mark=_mark(event))
        self._depth += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        names: list[str] = []
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.value in names:
                problem = "a field is there twice or has no plain name"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
            names.append(str(key.value))
        return super().construct_mapping(node, deep)


def _mark(event: Any) -> Any:
    return event.start_mark
