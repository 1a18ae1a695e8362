"""Writes the skeleton of a new extension: all of it or nothing, and never over something."""

from __future__ import annotations

import importlib.util
import keyword
import os
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from string import Template
from typing import Final

from core.errors import Invalid
from core.registry import Registry
from core.tooling import DECLARATION
from runtime import extending

FILES: Final = {
    "__init__.py.tmpl": "__init__.py",
    "extension.py.tmpl": "extension.py",
    "test_extension.py.tmpl": "test_{name}.py",
    "README.md.tmpl": "README.md",
}
"""Templates, and what is made of them."""

_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,39}\Z")
"""The form that the loader asks for; shorter, since the tool's name is longer by a word."""

_ARGUMENTS: Final = '{"topic": "hours"}'

_NAMED: Final = 3
"""Folders that a message names."""

_PLAIN: Final = re.compile(r"[^\s#'\"$\\`]*\Z")

_SETTING: Final = "GW_EXTENSIONS_PATH"


@dataclass(frozen=True, slots=True)
class Skeleton:
    """What was written, and what its author does next."""

    place: Path
    files: Sequence[str]
    test: str
    serve: str
    chat: str
    dotenv: str = ""
    """The line that `.env` needs before the server looks there; empty where it does already."""


def write(name: str, folder: Path | None, known: Sequence[Path]) -> Skeleton:
    """Write a new extension.

    Args:
        name: what it is called.
        folder: where its folder is put; `extensions/` of this checkout where missing.
        known: the folders that `GW_EXTENSIONS_PATH` names now.

    Raises:
        Invalid: the name or the folder will not do; nothing was written.
    """
    _check_name(name)
    where = _chosen(folder)
    ours = where == extending.BUNDLED
    places = [extending.BUNDLED, *known]
    _check_free(name, [*places, where])
    _check_others(where)
    looked_at = ours or any(place.resolve() == where for place in known)
    path = os.pathsep.join(str(place) for place in [*known, where])
    skeleton = Skeleton(
        place=where / name,
        files=[made.format(name=name) for made in FILES.values()],
        test=f"make test ARGS=extensions/{name}"
        if ours
        else f"{_bin('pytest')} {shlex.quote(str(where / name))}",
        serve="make run" if checkout() is not None else "graphwright serve",
        chat=f"{_bin('graphwright')} chat --agent {name} -m '{name}_find {_ARGUMENTS}'",
        dotenv="" if looked_at else f"{_SETTING}={_quoted(path)}",
    )
    _put(skeleton, name)
    return skeleton


def checkout() -> Path | None:
    """Return the folder of the source code, where this is no installed package."""
    root = extending.BUNDLED.parent
    return root if (root / "pyproject.toml").is_file() else None


def declared_tools(registry: Registry) -> list[tuple[str, str]]:
    """Return extension and name of every tool that was registered, on its own or by an agent."""
    offered = [(said.function, said.extension) for said in registry.tools]
    for agent in registry.agents:
        offered += [(one, agent.extension) for one in agent.tools if callable(one)]
    named = {
        id(function): (by, (getattr(function, DECLARATION, None) or {}).get("name") or name)
        for function, by in reversed(offered)
        if (name := getattr(function, "__name__", ""))
    }
    return [(by, str(name)) for by, name in reversed(named.values())]


# Checks -----------------------------------------------------------------------------------


def _check_name(name: str) -> None:
    if not _NAME.match(name):
        raise Invalid(
            f"{name[:80]!r} is no allowed name. Use 1 to 40 lower-case letters, digits and "
            "underscores, a letter first."
        )
    if keyword.iskeyword(name) or keyword.issoftkeyword(name):
        raise Invalid(f"{name!r} is a word of Python. Take another name.")
    if name in sys.stdlib_module_names:
        raise Invalid(f"{name!r} is a module of Python's own library. Take another name.")
    if extending.is_taken(name):
        raise Invalid(f"{name!r} is something that extensions import. Take another name.")


def _check_free(name: str, folders: Sequence[Path]) -> None:
    """Refuse a name that something else has: a folder, a package, an agent, a tool."""
    for folder in folders:
        place = folder / name
        if os.path.lexists(place):
            raise Invalid(f"{place} is there already; nothing is overwritten. Take another name.")
    if any(entry.name == name for entry in extending.installed()):
        raise Invalid(f"An installed package brings an extension {name!r}. Take another name.")
    if importlib.util.find_spec(name) is not None:
        raise Invalid(f"{name!r} is an installed package, which is confusing. Take another name.")
    registry = Registry()
    there = [folder for folder in dict.fromkeys(folders) if folder.is_dir()]
    extending.load(registry, there, extending.installed())
    if name in {said.name for said in [*registry.agents, *registry.subgraphs]}:
        raise Invalid(f"There is an agent {name!r} already. Take another name.")
    if f"{name}_find" in {tool for _, tool in declared_tools(registry)}:
        raise Invalid(f"There is a tool '{name}_find' already. Take another name.")


def _chosen(folder: Path | None) -> Path:
    """Return the real folder that the new one is put into."""
    if folder is None:
        if checkout() is None:
            raise Invalid("Graphwright is installed as a package here. Say where: --path FOLDER.")
        folder = extending.BUNDLED
    folder = folder.expanduser()
    if folder.is_symlink():
        raise Invalid(f"{folder} is a symbolic link. Name the real folder: --path FOLDER.")
    folder = folder.resolve()
    for odd in (os.pathsep, "'", "\n"):
        if odd in str(folder):
            raise Invalid(f"{folder} has a {odd!r} in its name. Name another: --path FOLDER.")
    near = folder if folder.exists() else folder.parent
    if not near.is_dir():
        raise Invalid(f"{near} is no folder. Make it, or name another: --path FOLDER.")
    if not os.access(near, os.W_OK | os.X_OK):
        raise Invalid(f"{near} cannot be written to. Name another folder: --path FOLDER.")
    return folder


def _check_others(folder: Path) -> None:
    """Refuse a folder with others in it that are no extensions: each would be a fault of a start."""
    inner = [place for place in folder.iterdir() if place.is_dir()] if folder.is_dir() else []
    others = [place.name for place in inner if not place.name.startswith(("_", "."))]
    others = sorted(name for name in others if not (folder / name / extending.ENTRY).is_file())
    if others:
        more = ", …" if len(others) > _NAMED else ""
        raise Invalid(
            f"{folder} holds folders that are no extensions: {', '.join(others[:_NAMED])}{more}. "
            "Name a folder that is for extensions alone: --path FOLDER."
        )


# Writing ----------------------------------------------------------------------------------


def _put(skeleton: Skeleton, name: str) -> None:
    """Write all files under another name and put them in place in one step.

    Raises:
        Invalid: the folder cannot be written to; nothing is left there.
    """
    folder = skeleton.place.parent
    values = {"name": name, "test": skeleton.test, "serve": skeleton.serve, "chat": skeleton.chat}
    templates = resources.files("server") / "templates" / "extension"
    texts = {
        file.format(name=name): Template((templates / template).read_text(encoding="utf-8"))
        for template, file in FILES.items()
    }
    made, begun = not folder.exists(), None
    try:
        folder.mkdir(exist_ok=True)
        # The loader passes over names with a dot in front, whatever happens to this process.
        begun = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=folder))
        for file, text in texts.items():
            (begun / file).write_text(text.substitute(values), encoding="utf-8")
        begun.chmod(0o755)
        begun.rename(skeleton.place)
    except BaseException as error:
        _take_back(begun, folder if made else None)
        if isinstance(error, OSError):
            why = error.strerror or type(error).__name__
            told = f"{folder} cannot be written to ({why}). Name another folder: --path FOLDER."
            raise Invalid(told) from error
        raise


def _take_back(begun: Path | None, made: Path | None) -> None:
    """Remove what was written, and the folder around it where it was made for that."""
    if begun is not None:
        shutil.rmtree(begun, ignore_errors=True)
    if made is not None and made.is_dir():
        with suppress(OSError):  # somebody else has put something there meanwhile
            made.rmdir()


def _bin(command: str) -> str:
    """Return a command as it is called in the folder of the checkout."""
    return f".venv/bin/{command}" if checkout() is not None else command


def _quoted(value: str) -> str:
    """Return a value as `.env` takes it: with quotes where it would not end at its end."""
    return value if _PLAIN.match(value) else f"'{value}'"
