"""The folder of one embedded cluster: where it is, its passwords, its configuration.

    <home>/                 ours; as root with the system user's group, which may only pass through
      lock, members         see `storage/postgres/membership.py`
      password              of the role the product uses, 0600
      admin_password        of the superuser, 0600
      postgresql.conf       written anew at every start
      pg_hba.conf           local connections with a password, nothing else
      cluster/              PostgreSQL's own data folder, 0700; the socket is in here

`<home>` is `<data>/pg`. Where root's system user cannot reach that, it is
`/var/lib/graphwright/<id>`, and the file `<data>/pg.location` says so.
"""

from __future__ import annotations

import os
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

from core.errors import Unavailable
from core.ids import new_id, new_secret
from storage.postgres.account import Account
from storage.postgres.binaries import make_folder, system_home

ROLE: Final = "graphwright"
ADMIN: Final = "graphwright_admin"
DATABASE: Final = "graphwright"
PORT: Final = 5432
"""Only the name of the socket; nothing listens on TCP."""

SOCKET_PATH_LIMIT: Final = 103
"""Bytes that a socket's path may have on every system (Linux 107, macOS 103)."""

_CONFIGURATION: Final = """\
# Written by Graphwright at every start; changes are lost.
listen_addresses = ''
port = {port}
unix_socket_directories = '{sockets}'
unix_socket_permissions = 0700
max_connections = 200
shared_buffers = 64MB
huge_pages = off
jit = off
max_wal_size = 512MB
min_wal_size = 64MB
checkpoint_completion_target = 0.9
random_page_cost = 1.1
password_encryption = scram-sha-256
log_destination = stderr
logging_collector = off
log_min_messages = warning
log_min_error_statement = panic
log_parameter_max_length = 0
log_parameter_max_length_on_error = 0
timezone = UTC
log_timezone = UTC
datestyle = 'iso, ymd'
lc_messages = C
default_text_search_config = simple
"""
_HBA: Final = "# Written by Graphwright.\nlocal all all scram-sha-256\n"


@dataclass(frozen=True, slots=True)
class Home:
    """Paths of one embedded cluster."""

    path: Path

    @property
    def cluster(self) -> Path:
        """PostgreSQL's data folder."""
        return self.path / "cluster"

    @property
    def log(self) -> Path:
        """Where the server writes its warnings."""
        return self.cluster / "server.log"

    @property
    def sockets(self) -> Path:
        """The folder of the socket: the cluster, or another where its path will not do."""
        if self.takes_socket:
            return self.cluster
        noted = self.path / "sockets"
        return Path(noted.read_text().strip()) if noted.exists() else self.cluster

    @property
    def socket(self) -> Path:
        """The socket itself."""
        return self.sockets / f".s.PGSQL.{PORT}"

    @property
    def takes_socket(self) -> bool:
        """Whether clients can name the cluster's path: short enough, and a comma parts hosts."""
        socket = os.fsencode(self.cluster / f".s.PGSQL.{PORT}")
        return len(socket) <= SOCKET_PATH_LIMIT and b"," not in socket

    def url(self, *, role: str = ROLE, database: str = DATABASE) -> str:
        """Return the address with the password in it: a secret."""
        name = "admin_password" if role == ADMIN else "password"
        password = (self.path / name).read_text().strip()
        sockets = quote(str(self.sockets), safe="")
        return f"postgresql://{role}:{quote(password)}@/{database}?host={sockets}&port={PORT}"


def find_home(data_dir: Path) -> Home | None:
    """Return the home that this data folder has already, or none."""
    note = data_dir / "pg.location"
    if note.exists():
        return Home(Path(note.read_text().strip()))
    home = Home(data_dir / "pg")
    return home if home.path.is_dir() else None


def make_home(data_dir: Path, user: Account) -> Home:
    """Return the home of this data folder, made where missing, with everything to start it.

    Folders that were there keep their rights; where root's system user cannot reach the data
    folder, a place that it can reach is taken and noted.
    """
    make_folder(data_dir, 0o711 if user.switch else 0o700)
    home = find_home(data_dir)
    if home is None:
        home = Home(data_dir / "pg") if user.reaches(data_dir) else _elsewhere(data_dir)
    _make_private(home.path, user)
    if not user.reaches(home.path):
        raise Unavailable(
            f"The system user that runs PostgreSQL can no longer reach {home.path}. "
            "Give it the right to pass through the folders above, or set DATABASE_URL."
        )
    return home


def _elsewhere(data_dir: Path) -> Home:
    home = Home(system_home() / new_id())
    _write(data_dir / "pg.location", f"{home.path}\n", 0o600)
    return home


def _make_private(path: Path, user: Account) -> None:
    """Make a folder that only we may use; root's system user may pass through it, no more."""
    if path.is_dir():
        return
    if not user.switch:
        make_folder(path, 0o700)
        return
    path.mkdir(mode=0o700, parents=True)
    os.chown(path, 0, user.gid)
    path.chmod(0o710)


def write_secrets(home: Home) -> None:
    """Make the passwords where missing."""
    for name in ("password", "admin_password"):
        path = home.path / name
        if not path.exists():
            _write(path, new_secret() + "\n", 0o600)


def write_configuration(home: Home, user: Account) -> None:
    """Write the server's configuration, and choose a folder for its socket.

    These files are ours, outside of PostgreSQL's folder, so that its user can never lead a
    root process to write through a link.
    """
    sockets = str(_socket_folder(home, user)).replace('"', '""').replace("'", "''")
    configuration = _CONFIGURATION.format(port=PORT, sockets=f'"{sockets}"')
    for name, text in (("postgresql.conf", configuration), ("pg_hba.conf", _HBA)):
        path = home.path / name
        _write(path, text, 0o600)
        if user.switch:
            os.chown(path, 0, user.gid)
            path.chmod(0o640)


def _socket_folder(home: Home, user: Account) -> Path:
    if home.takes_socket or (home.sockets != home.cluster and _is_private(home.sockets, user)):
        return home.sockets
    runtime = Path(f"/run/user/{user.uid}")
    parent = runtime if _is_private(runtime, user) else Path(tempfile.gettempdir())
    folder = Path(tempfile.mkdtemp(prefix="graphwright-", dir=parent))
    user.give(folder)
    _write(home.path / "sockets", f"{folder}\n", 0o600)
    return folder


def _is_private(path: Path, user: Account) -> bool:
    """Tell whether the path is a folder, no link, that this user alone may use."""
    try:
        info = path.lstat()
    except OSError:
        return False
    return (
        stat.S_ISDIR(info.st_mode)
        and info.st_uid == user.uid
        and stat.S_IMODE(info.st_mode) == stat.S_IRWXU
    )


def _write(path: Path, text: str, mode: int) -> None:
    """Replace a file in one step; it never exists with other rights."""
    draft = path.with_name(f".{path.name}-{new_id()}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
