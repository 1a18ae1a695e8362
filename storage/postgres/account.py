"""Which operating-system user runs PostgreSQL, and what that user may reach.

PostgreSQL refuses to run as root. Started by root it therefore runs as a system user of its
own; started by anybody else it runs as that user.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from core.errors import Unavailable

SYSTEM_USER: Final = "graphwright"
SYSTEM_HOME: Final = Path("/var/lib/graphwright")
"""Where root keeps what its system user must reach."""


@dataclass(frozen=True, slots=True)
class Account:
    """The user that runs the database processes."""

    uid: int
    gid: int
    switch: bool
    """Whether we are root and change to that user for each command."""

    def reaches(self, path: Path) -> bool:
        """Tell whether this user may enter every folder above the path and the path itself.

        Judged by the permission bits, so that nothing has to be tried or changed.
        """
        if not self.switch:
            return True
        return all(self._may_enter(folder) for folder in (path, *path.parents))

    def _may_enter(self, path: Path) -> bool:
        try:
            info = path.stat()
        except OSError:
            return False
        if info.st_uid == self.uid:
            return bool(info.st_mode & stat.S_IXUSR)
        if info.st_gid == self.gid:
            return bool(info.st_mode & stat.S_IXGRP)
        return bool(info.st_mode & stat.S_IXOTH)

    def give(self, path: Path) -> None:
        """Make this user the owner of a path that we have just created."""
        if self.switch:
            os.chown(path, self.uid, self.gid)

    def run(self, command: list[str | Path], *, cwd: Path) -> subprocess.CompletedProcess[str]:
        """Run a short command as this user, apart from our terminal, and return what it said."""
        identity: dict[str, object] = {}
        if self.switch:
            identity = {"user": self.uid, "group": self.gid, "extra_groups": []}
        return subprocess.run(  # noqa: S603 - fixed programs, no shell
            [str(part) for part in command],
            cwd=cwd,
            env={"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
            start_new_session=True,
            **identity,  # type: ignore[arg-type]
        )


def account() -> Account:
    """Return the user for database processes; as root its system user, created where missing.

    Raises:
        Unavailable: we are root and that user cannot be created.
    """
    if os.geteuid() != 0:
        return Account(os.geteuid(), os.getegid(), switch=False)
    found = _lookup()
    if found is None:
        _create()
        found = _lookup()
    if found is None:
        raise Unavailable(_CURE)
    if found.uid == 0:
        raise Unavailable(f"The user '{SYSTEM_USER}' has the rights of root. " + _CURE)
    return found


_CURE: Final = (
    "PostgreSQL does not run as root, and the system user for it could not be created. "
    f"Create it (useradd --system --no-create-home {SYSTEM_USER}), or start Graphwright as an "
    "ordinary user, or set DATABASE_URL."
)


def _lookup() -> Account | None:
    import pwd

    try:
        entry = pwd.getpwnam(SYSTEM_USER)
    except KeyError:
        return None
    return Account(entry.pw_uid, entry.pw_gid, switch=True)


def _create() -> None:
    """Create the system user. Failing is no error here: another process may be doing the same."""
    home = str(SYSTEM_HOME)
    commands = (
        ["useradd", "-r", "-U", "-M", "-d", home, "-s", "/usr/sbin/nologin", SYSTEM_USER],
        ["adduser", "-S", "-D", "-H", "-h", home, "-s", "/sbin/nologin", SYSTEM_USER],
    )
    for command in commands:
        program = shutil.which(command[0], path="/usr/sbin:/sbin:/usr/bin:/bin")
        if program is not None:
            subprocess.run(  # noqa: S603 - fixed programs, no shell
                [program, *command[1:]],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                check=False,
            )
            return
