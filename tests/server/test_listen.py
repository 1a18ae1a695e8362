"""Which addresses the server takes, and what it says where it cannot."""

from __future__ import annotations

import os
import socket
from contextlib import closing
from pathlib import Path

import pytest

from core.errors import ConfigError, Unavailable
from core.settings import Settings
from server import listen, place


@pytest.mark.req("IDENT-02")
@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.9.8.7", "localhost", "LOCALHOST", "::1", "[::1]"]
)
def test_loopback_is_allowed_in_local_mode(host: str) -> None:
    listen.check_address(host, "local")


@pytest.mark.req("IDENT-02")
@pytest.mark.parametrize(
    "host",
    [
        "0.0.0.0",
        "",
        "::",
        "[::]",
        "10.0.0.1",
        "::ffff:10.0.0.1",
        "example.org",
        "localhost.example.org",
        "127.0.0.1.nip.io",
        "2130706433",
        "0x7f.1",
    ],
)
def test_everything_else_is_refused_in_local_mode_with_its_cure(host: str) -> None:
    with pytest.raises(ConfigError) as refused:
        listen.check_address(host, "local")
    assert "ssh -L" in refused.value.faults[0].cure


@pytest.mark.req("OPS-01")
def test_port_0_takes_a_free_port_and_nobody_can_connect_before_we_listen() -> None:
    with closing(listen.bind("localhost", 0)) as taken:
        url = listen.url_of(taken)
        port = int(url.rpartition(":")[2])
        assert url == f"http://127.0.0.1:{port}"
        assert port > 0
        with socket.socket() as visitor, pytest.raises(ConnectionRefusedError):
            visitor.connect(("127.0.0.1", port))


@pytest.mark.req("OPS-01")
def test_a_taken_port_is_named_with_another_one_to_try() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(ConfigError) as refused:
            listen.bind("127.0.0.1", port)
    assert refused.value.faults[0].where == "PORT"
    assert str(port + 1) in refused.value.faults[0].cure


@pytest.mark.req("OPS-01")
def test_an_address_of_another_machine_is_said_to_be_none_of_ours() -> None:
    with pytest.raises(ConfigError) as refused:
        listen.bind("192.0.2.1", 0)
    assert refused.value.faults[0].where == "HOST"


@pytest.mark.req("OPS-03")
def test_commands_find_the_newest_living_server_of_the_folder(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path)
    with pytest.raises(Unavailable):
        place.url_of_running(settings)
    with place.noted(tmp_path, "http://127.0.0.1:1"):
        dead = tmp_path / "servers" / "dead.json"
        dead.write_text('{"url": "http://127.0.0.1:2", "pid": 4194305}')  # above any pid
        (tmp_path / "servers" / "torn.json").write_text("{")
        os.utime(dead, (4_000_000_000, 4_000_000_000))
        assert place.url_of_running(settings) == "http://127.0.0.1:1"
    with pytest.raises(Unavailable):
        place.url_of_running(settings)
