"""The embedded cluster is nobody else's, and changes no right of what was there."""

from __future__ import annotations

import os
import pwd
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from core.errors import Unavailable
from storage.postgres import binaries as programs
from storage.postgres.account import account
from tests.storage.cluster import PROJECT, home_of, rights_above, server_of
from tests.support.postgres import execute

ROOT = os.geteuid() == 0
ORDINARY = pwd.getpwnam("nobody")


@pytest.mark.req("OPS-02", "P14")
def test_nothing_listens_on_tcp_and_the_password_is_asked_for(data: Path, member):
    one = member("join", data).ready()
    assert execute(one.url, "SHOW listen_addresses") == [("",)]
    assert execute(one.url, "SELECT rolsuper FROM pg_roles WHERE rolname = current_user") == [
        (False,)
    ]
    user, _, rest = one.url.partition("://")[2].partition(":")
    without = f"postgresql://{user}@{rest.partition('@')[2]}"
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(without)
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(without.replace("@", ":wrong@", 1))


@pytest.mark.req("OPS-02", "P14")
def test_another_local_user_can_neither_connect_nor_read(data: Path, member):
    one = member("join", data).ready()
    home = home_of(data)
    assert stat.S_IMODE(home.path.stat().st_mode) & 0o067 == 0
    assert stat.S_IMODE(home.cluster.stat().st_mode) == 0o700
    for name in ("password", "admin_password"):
        assert stat.S_IMODE((home.path / name).stat().st_mode) == 0o600
    for spy in ["nobody"] if ROOT else []:
        seen = subprocess.run(
            [sys.executable, "-m", "tests.support.cluster_member", "spy", data, spy, one.url],
            cwd=PROJECT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()
        assert seen[0] == "refused True"
        assert {line.split()[0] for line in seen[1:]} == {"hidden"}


@pytest.mark.req("OPS-02")
@pytest.mark.parametrize("mode", [0o700, 0o755])
def test_rights_of_folders_that_were_there_stay_as_they_were(place: Path, member, mode: int):
    private = place / "private"
    private.mkdir(mode=mode)
    data = private / "data"
    data.mkdir(mode=0o750)
    before = rights_above(data / "pg")
    one = member("join", data).ready()
    assert execute(one.url, "SELECT 1") == [(1,)]
    assert rights_above(data / "pg") == before
    assert rights_above(programs.binaries(account())).keys() >= {"/"}
    elsewhere = data / "pg.location"
    assert elsewhere.exists() == ROOT
    assert one.leave()
    again = member("join", data).ready()
    assert again.url == one.url
    assert rights_above(data / "pg") == before


@pytest.mark.req("OPS-02")
@pytest.mark.parametrize("name", [ORDINARY.pw_name] if ROOT else [])
def test_an_ordinary_user_runs_a_cluster_of_their_own(place: Path, member, name: str):
    data = place / "data"
    data.mkdir(mode=0o700)
    os.chown(data, ORDINARY.pw_uid, ORDINARY.pw_gid)
    one = member("join", data, name).ready()
    assert execute(one.url, "SELECT 1") == [(1,)]
    pid = server_of(data)
    assert Path(f"/proc/{pid}").stat().st_uid == ORDINARY.pw_uid
    assert (data / "pg").stat().st_uid == ORDINARY.pw_uid
    assert stat.S_IMODE((data / "pg").stat().st_mode) == 0o700
    assert one.leave()


@pytest.mark.req("OPS-02")
def test_the_server_is_apart_from_our_terminal_and_files(data: Path, member):
    one = member("join", data).ready()
    pid = server_of(data)
    assert pid is not None
    assert os.getsid(pid) != os.getsid(one.process.pid)
    ours = {str(Path(f"/proc/{one.process.pid}/fd/{n}").readlink()) for n in range(2)}
    theirs = {str(fd.readlink()) for fd in Path(f"/proc/{pid}/fd").iterdir()}
    assert all(path.startswith("pipe:") for path in ours)
    assert not ours & theirs


@pytest.mark.req("OPS-02")
@pytest.mark.parametrize("hidden", [True] if ROOT else [])
def test_programs_in_a_hidden_folder_are_copied_to_where_the_system_user_may_read(
    place: Path, monkeypatch: pytest.MonkeyPatch, hidden: bool
):
    package = programs.binaries(account()).parents[1]
    private = place / "private"
    private.mkdir(mode=0o700)
    shutil.copytree(package, private / package.name)
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.exists():
        shutil.copytree(libraries, private / libraries.name)
    monkeypatch.syspath_prepend(str(private))
    monkeypatch.delitem(sys.modules, programs.PACKAGE, raising=False)
    monkeypatch.setattr(programs, "SYSTEM_HOME", place / "system")
    before = rights_above(private / "x")
    found = programs.binaries(account())
    assert found.is_relative_to(place / "system")
    assert rights_above(private / "x") == before
    version = account().run([found / "postgres", "--version"], cwd=Path("/"))
    assert version.stdout.startswith("postgres (PostgreSQL) 18")
    assert programs.binaries(account()) == found


@pytest.mark.req("OPS-02")
@pytest.mark.parametrize("mode", [0o777] if ROOT else [])
def test_a_system_folder_that_others_could_change_is_refused(
    place: Path, monkeypatch: pytest.MonkeyPatch, mode: int
):
    (place / "system").mkdir()
    (place / "system").chmod(mode)
    monkeypatch.setattr(programs, "SYSTEM_HOME", place / "system")
    with pytest.raises(Unavailable, match="belong to root alone"):
        programs.system_home()
