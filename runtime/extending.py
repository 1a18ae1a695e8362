"""Loads extensions by name and collects what they register, faults included.

They come from the folder of this server, from the folders of `GW_EXTENSIONS_PATH` and from
installed packages. Nothing here raises for what an extension does wrong: all faults of a start
are reported together, before the database is touched.
"""

from __future__ import annotations

import importlib
import inspect
import re
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from core.errors import ConfigError, Fault
from core.log import get_logger
from core.masking import mask
from core.registry import Registry
from runtime.naming import known_or_none, nearest
from runtime.services import collecting

log = get_logger(__name__)

_ROOM: Final = "extensions"
"""The package below which every folder is imported. By name, as what lies in it is: this room
runs extensions and knows none of them (ADR-0023)."""

BUNDLED: Final = Path(str(importlib.import_module(_ROOM).__file__)).resolve().parent
"""The folder of the extensions that come with the server."""

ENTRY: Final = "extension.py"
"""The file that a folder has to hold."""

GROUP: Final = "graphwright.extensions"
"""Entry points of this group name modules with `setup(registry)`."""

_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,63}\Z")
_ALLOWED: Final = "Use lower-case letters, digits and underscores, a letter first."
_SETTING: Final = "GW_EXTENSIONS_PATH"


@dataclass(frozen=True, slots=True)
class Found:
    """An extension that may be imported."""

    name: str
    where: str
    """Its file as people know it, without the way to it on this machine."""
    module: str
    """What to import."""
    file: Path | None = None
    """The file that has to be behind the module; `None` where a package manager put it."""


def installed() -> Sequence[EntryPoint]:
    """Return the extensions that installed packages offer."""
    return tuple(entry_points(group=GROUP))


def load(
    registry: Registry,
    folders: Sequence[Path] = (BUNDLED,),
    packages: Iterable[EntryPoint] = (),
) -> None:
    """Run `setup(registry)` of every extension there is, in the order of their names.

    Args:
        registry: takes what they register, their names, and every fault.
        folders: each holds `<name>/extension.py`.
        packages: entry points, each naming a module.
    """
    found: dict[str, Found] = {}
    for folder in _once(registry, folders):
        _look_into(registry, folder, found)
    for entry in sorted(packages, key=lambda entry: (entry.name, entry.value)):
        _take(registry, _of_package(entry), found)
    with collecting():
        for name in sorted(found):
            _load_one(registry, found[name])
    registry.where = registry.extension = "?"


def load_folder(registry: Registry, place: Path) -> None:
    """Run `setup(registry)` of the one extension that lies in a folder, with the same checks."""
    found: dict[str, Found] = {}
    for folder in _once(registry, [place.parent]):
        _look_at(registry, folder / place.name, found)
    with collecting():
        for here in found.values():
            _load_one(registry, here)


def load_module(registry: Registry, module: ModuleType, name: str, where: str) -> None:
    """Run what a module has of `enabled`, `validate_config` and `setup`, with the same checks.

    Args:
        registry: takes what it registers, and every fault.
        module: an extension's, imported already.
        name: what the extension is called.
        where: its file as people know it.
    """
    registry.where, registry.extension = where, name
    registry.places[name] = where
    with collecting():
        _set_up(registry, module)


def is_taken(name: str) -> bool:
    """Tell whether `extensions.<name>` is something else than an extension, such as a function."""
    if (BUNDLED / f"{name}.py").exists():
        return True
    known = getattr(importlib.import_module(_ROOM), name, None)
    return known is not None and not hasattr(known, "__path__")


# Finding them -----------------------------------------------------------------------------


def _once(registry: Registry, folders: Sequence[Path]) -> list[Path]:
    """Return the folders that can be looked into, each once."""
    kept: dict[Path, None] = {}
    for folder in folders:
        if folder.is_symlink():
            fault = Fault(_SETTING, f"{folder} is a symbolic link.", "Name the real folder.")
            registry.faults.append(fault)
        elif not folder.is_dir():
            cure = "Correct the path, make the folder, or take it out."
            registry.faults.append(Fault(_SETTING, f"{folder} is no folder.", cure))
        else:
            kept[folder.resolve()] = None
    return list(kept)


def _look_into(registry: Registry, folder: Path, found: dict[str, Found]) -> None:
    for place in sorted(folder.iterdir()):
        if place.name.startswith(("_", ".")) or not (place.is_dir() or place.is_symlink()):
            continue
        _look_at(registry, place, found)


def _look_at(registry: Registry, place: Path, found: dict[str, Found]) -> None:
    places = importlib.import_module(_ROOM).__path__
    if str(place.parent) not in places:
        places.append(str(place.parent))
    shown = Path(place.parent.name) / place.name
    fault = _fault_of_place(place)
    if fault is not None:
        registry.faults.append(Fault(str(shown), *fault))
        return
    module = f"{_ROOM}.{place.name}.extension"
    _take(registry, Found(place.name, str(shown / ENTRY), module, place / ENTRY), found)


def _fault_of_place(place: Path) -> tuple[str, str] | None:
    """Return what is wrong with a folder and its cure, or nothing."""
    if place.is_symlink():
        return "is a symbolic link.", "Put the real folder there."
    link = next((path for path in sorted(place.rglob("*")) if path.is_symlink()), None)
    if link is not None:
        what = f"holds a symbolic link: {link.relative_to(place)}."
        return what, "Put the real file or folder there, or take it out."
    if not (place / ENTRY).is_file():
        return f"has no {ENTRY}.", f"Add {ENTRY} with setup(registry), or remove the folder."
    return None


def _of_package(entry: EntryPoint) -> Found:
    path = entry.module.replace(".", "/")
    package = f"{path}/__init__.py"
    files = entry.dist.files or () if entry.dist else ()
    file = package if any(one.as_posix() == package for one in files) else f"{path}.py"
    by = f"{entry.dist.name}: " if entry.dist else ""
    return Found(entry.name, f"{by}{file}", entry.value)


def _take(registry: Registry, new: Found, found: dict[str, Found]) -> None:
    """Keep an extension whose name is allowed and free."""
    problem: tuple[str, str] | None = None
    if not _NAME.match(new.name):
        problem = f"{new.name!r} is no allowed name of an extension.", _ALLOWED
    elif is_taken(new.name):
        problem = f"The name {new.name!r} is taken by extensions.{new.name}.", "Take another name."
    elif new.name in found:
        where = found[new.name].where
        problem = f"has the name {new.name!r} of {where}.", "Rename one of the two."
    if problem is None:
        found[new.name] = new
    else:
        registry.faults.append(Fault(new.where, *problem))


# Running them -----------------------------------------------------------------------------


def _load_one(registry: Registry, here: Found) -> None:
    registry.where, registry.extension = here.where, here.name
    registry.places[here.name] = here.where
    module = _called(registry, "cannot be imported", lambda: _imported(here))
    if isinstance(module, ModuleType):
        _set_up(registry, module)


def _set_up(registry: Registry, module: ModuleType) -> None:
    where, name = registry.where, registry.extension
    faults_before = len(registry.faults)
    if not _enabled(registry, module):
        if len(registry.faults) == faults_before:
            registry.disabled.append(name)
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
    registry.extensions.append(name)


def _imported(here: Found) -> ModuleType:
    if here.file is None and not re.fullmatch(r"[A-Za-z_][\w.]*", here.module):
        problem = f"the entry point {here.name!r} is {here.module!r}, which is no module"
        raise ConfigError(
            [Fault(here.where, f"{problem}.", 'Write it as name = "package.module".')]
        )
    module = importlib.import_module(here.module)
    got = Path(module.__file__).resolve() if module.__file__ else None
    if here.file is not None and got != here.file.resolve():
        what = f"another module is imported as {here.module} already."
        raise ConfigError([Fault(here.where, what, "Take another name for the folder.")])
    return module


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
    where = registry.where
    try:
        result = action()
    except ConfigError as error:
        for fault in error.faults:
            place = where if fault.where == where else f"{where}: {fault.where}"
            registry.faults.append(Fault(place, mask(fault.what), fault.cure))
        return _FAILED
    except (Exception, SystemExit) as error:  # boundary: foreign code must not end the start
        log.debug("extension failed", exc_info=error, extra={"kv": {"where": where}})
        told = mask(f"{type(error).__name__}: {error}")
        what = f"{problem}: {told}{_line_of(error, where)}."
        registry.faults.append(Fault(where, what, _no_door(registry, error) or _cure_of(error)))
        return _FAILED
    if inspect.iscoroutine(result):
        result.close()
        cure = "Make it a plain function; asynchronous work belongs into tools and services."
        registry.faults.append(Fault(where, f"{problem}: it is asynchronous.", cure))
        return _FAILED
    return result


def _line_of(error: BaseException, where: str) -> str:
    """Return where in the extension it happened, when that is known."""
    ending = where.rpartition(": ")[2].replace("\\", "/")
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if frame.filename.replace("\\", "/").endswith(ending):
            return f" (line {frame.lineno})"
    return ""


def _no_door(registry: Registry, error: BaseException) -> str:
    """Return the cure of calling something that the registry does not have, or nothing."""
    if not isinstance(error, AttributeError) or error.obj is not registry:
        return ""
    doors = [name for name in dir(registry) if name.startswith("register_")]
    return f"{nearest(error.name, doors)}{known_or_none(doors, 'ways to register')}"


def _cure_of(error: BaseException) -> str:
    if isinstance(error, ModuleNotFoundError) and error.name:
        return f"Install the package that provides {error.name}, or correct the import."
    if isinstance(error, ValueError):
        return "Correct the setting it names."
    return "Correct the extension, or remove it."
