"""Loads extension folders by name and collects what they register, faults included.

Nothing here raises for what an extension does wrong: all faults of a start are reported
together, before the database is touched.
"""

from __future__ import annotations

import importlib
import inspect
import re
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import extensions
from core.errors import Fault
from core.log import get_logger
from core.registry import Registry

log = get_logger(__name__)

BUNDLED: Final = Path(extensions.__file__).resolve().parent
"""The folder of the extensions that come with the server."""

_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,63}\Z")
_ENTRY: Final = "extension.py"


def load(registry: Registry, folders: Sequence[Path] = (BUNDLED,)) -> None:
    """Run `setup(registry)` of every extension in these folders, in name order.

    Args:
        registry: takes what they register, their names, and every fault.
        folders: each holds `<name>/extension.py`.
    """
    for place in sorted(_places(registry, folders), key=lambda place: place.name):
        _load_one(registry, place)
    registry.where = "?"


def _places(registry: Registry, folders: Sequence[Path]) -> list[Path]:
    """Return the folders that may be imported; the others become faults."""
    found: dict[str, Path] = {}
    for folder in folders:
        if str(folder) not in extensions.__path__:
            extensions.__path__.append(str(folder))
        for place in folder.iterdir():
            if place.name.startswith(("_", ".")) or not (place.is_dir() or place.is_symlink()):
                continue
            fault = _fault_of_place(place, found)
            if fault is None:
                found[place.name] = place
            else:
                registry.faults.append(Fault(str(_shown(place)), *fault))
    return list(found.values())


def _fault_of_place(place: Path, found: dict[str, Path]) -> tuple[str, str] | None:
    """Return what is wrong with a folder and its cure, or nothing."""
    if place.is_symlink() or any(path.is_symlink() for path in place.rglob("*")):
        return "is or holds a symbolic link.", "Put the real files there."
    if not _NAME.match(place.name):
        return "is no allowed name.", "Use lower-case letters, digits and underscores."
    if not (place / _ENTRY).is_file():
        return f"has no {_ENTRY}.", f"Add {_ENTRY} with setup(registry), or remove the folder."
    if place.name in found:
        return f"has the name of {found[place.name]}.", "Rename one of the two."
    return None


def _load_one(registry: Registry, place: Path) -> None:
    where = str(_shown(place) / _ENTRY)
    registry.where = where
    faults_before = len(registry.faults)
    module = _called(registry, "cannot be imported", lambda: _imported(place.name))
    if not isinstance(module, ModuleType):
        return
    if not _enabled(registry, module):
        if len(registry.faults) == faults_before:
            registry.disabled.append(place.name)
        return
    setup = getattr(module, "setup", None)
    if not callable(setup):
        cure = "Define it; it receives the registry and registers tools and agents."
        registry.faults.append(Fault(where, "has no function setup(registry).", cure))
        return
    validate = getattr(module, "validate_config", None)
    if callable(validate):
        _called(registry, "finds its settings wrong", validate)
    _called(registry, "fails in setup(registry)", lambda: setup(registry))
    registry.extensions.append(place.name)


def _imported(name: str) -> ModuleType:
    return importlib.import_module(f"extensions.{name}.extension")


def _enabled(registry: Registry, module: ModuleType) -> bool:
    enabled = getattr(module, "enabled", None)
    if enabled is None:
        return True
    answer = _called(registry, "fails in enabled()", enabled)
    if not isinstance(answer, bool) and answer is not _FAILED:
        cure = "Return True or False."
        registry.faults.append(Fault(registry.where, "enabled() gives no yes or no.", cure))
    return answer is True


_FAILED: Final = object()


def _called(registry: Registry, problem: str, action: Callable[[], Any]) -> Any:
    """Return what the extension's code returns; its failure becomes a fault."""
    try:
        result = action()
    except (Exception, SystemExit) as error:  # boundary: foreign code must not end the start
        log.debug("extension failed", exc_info=error, extra={"kv": {"where": registry.where}})
        what = f"{problem}: {type(error).__name__}: {error}{_line_of(error, registry.where)}"
        registry.faults.append(Fault(registry.where, f"{what}.", _cure_of(error)))
        return _FAILED
    if inspect.iscoroutine(result):
        result.close()
        cure = "Make it a plain function; asynchronous work belongs into tools."
        registry.faults.append(Fault(registry.where, f"{problem}: it is asynchronous.", cure))
        return _FAILED
    return result


def _line_of(error: BaseException, where: str) -> str:
    """Return where in the extension it happened, when that is known."""
    ending = where.replace("\\", "/")
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if frame.filename.replace("\\", "/").endswith(ending):
            return f" (line {frame.lineno})"
    return ""


def _cure_of(error: BaseException) -> str:
    if isinstance(error, ModuleNotFoundError) and error.name:
        return f"Install the package that provides {error.name}, or correct the import."
    if isinstance(error, ValueError):
        return "Correct the setting it names."
    return "Correct the extension, or remove its folder."


def _shown(place: Path) -> Path:
    """Return the folder as people know it, without the way to it on this machine."""
    return Path(place.parent.name) / place.name
