"""`graphwright encryption`: a new key seals everything while servers go on (EXEC-40)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from core.errors import ConfigError
from core.ids import new_id
from core.settings import Settings
from runtime.keyrings import check_keys, keys_of
from storage.database import Database
from storage.sealing import FILE, SETTING, load_keys
from tests.storage.test_sealing import BUILDER, STATE
from tests.support.postgres import execute
from tests.support.process import command

pytestmark = [pytest.mark.req("EXEC-40"), pytest.mark.timeout(120)]


@pytest.fixture
def variables(database_url: str, tmp_path: Path) -> dict[str, str]:
    return {"DATABASE_URL": database_url, "GW_DATA_DIR": str(tmp_path)}


async def opened(variables: dict[str, str]) -> Database:
    """A server's database: it holds its keys as long as it lives."""
    settings = Settings(data_dir=Path(variables["GW_DATA_DIR"]))
    database = await Database.open(variables["DATABASE_URL"], pool_size=4, keys=keys_of(settings))
    try:
        await check_keys(database, settings)
    except ConfigError:
        await database.close()
        raise
    return database


async def written(database: Database) -> dict[str, Any]:
    """A thread with a state; returns its place."""
    config: dict[str, Any] = {"configurable": {"thread_id": new_id()}}
    await BUILDER.compile(checkpointer=database.checkpointer()).ainvoke(STATE, config)
    return config


async def read(database: Database, config: dict[str, Any]) -> Any:
    graph = BUILDER.compile(checkpointer=database.checkpointer())
    return (await graph.aget_state(config)).values["note"]


async def test_a_rotation_leaves_nothing_under_the_old_key_and_servers_go_on(
    variables: dict[str, str], tmp_path: Path
):
    server = await opened(variables)
    first = server.keys.current
    config = await written(server)
    # One of an earlier release, which sealed nothing.
    execute(
        variables["DATABASE_URL"],
        "UPDATE checkpoint_blobs SET type = 'msgpack', blob = '\\xa5636c656172' WHERE channel = 'note'",
    )
    shown = command("encryption", "status", settings=variables)
    assert f"{first}  seals" in shown.stdout
    assert "in clear, of an earlier release" in shown.stdout
    rotated = command("encryption", "rotate", settings=variables)
    assert rotated.returncode == 0, rotated.stderr
    second = load_keys("", tmp_path).current
    assert load_keys("", tmp_path).names == [second]
    assert second != first
    assert f"The key {second} seals everything now" in rotated.stderr
    shown = command("encryption", "status", settings=variables)
    assert f"{second}  seals" in shown.stdout
    assert first not in shown.stdout
    assert "in clear" not in shown.stdout
    assert await read(server, config) == "clear"
    later = await written(server)
    assert await read(server, later) == "canary-7d1f2a!"
    await server.close()
    again = await opened(variables)
    assert await read(again, later) == "canary-7d1f2a!"
    await again.close()


async def test_a_server_without_the_keys_of_its_database_does_not_start(
    variables: dict[str, str], tmp_path: Path
):
    first = await opened(variables)
    name = first.keys.current
    await first.close()
    other = variables | {"GW_DATA_DIR": str(tmp_path / "other")}
    refused = command("serve", "--port", "0", settings=other)
    assert refused.returncode == 3
    assert f"sealed with the key {name}" in refused.stderr
    assert f"copy {FILE} from another server or a backup, or set {SETTING}" in refused.stderr
    with pytest.raises(ConfigError):
        await opened(other)
    (tmp_path / "other" / FILE).write_bytes((tmp_path / FILE).read_bytes())
    joined = await opened(other)
    assert joined.keys.current == name
    await joined.close()
