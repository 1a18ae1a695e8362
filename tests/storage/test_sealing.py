"""What is stored of states is sealed, with keys that can be changed (EXEC-40)."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langgraph.channels.delta import DeltaChannel
from langgraph.graph import END, START, StateGraph
from psycopg import sql

from core.errors import CheckpointDamaged, ConfigError, EncryptionKeyMissing
from core.ids import new_id
from storage.checkpointer import StrictSerializer
from storage.database import Database
from storage.sealing import FILE, Keys, add_key, drop_keys, key_id, load_keys

CANARY = "canary-7d1f2a"
NUMBER = 918_273_645


def joined(state: list[str], writes: list[list[str]]) -> list[str]:
    """Put lists one behind the other."""
    return [*state, *(text for write in writes for text in write)]


class Open(TypedDict, total=False):
    """A state as an extension's own graph may have it: plain values at the top."""

    note: str
    number: int
    share: float
    flag: bool
    nothing: None
    nested: dict[str, Any]
    lines: Annotated[list[str], DeltaChannel(joined)]


STATE: Open = {
    "note": CANARY,
    "number": NUMBER,
    "share": 0.918273645,
    "flag": True,
    "nothing": None,
    "nested": {CANARY: [CANARY]},
    "lines": [CANARY],
}

BUILDER = StateGraph(Open)
BUILDER.add_node("step", lambda state: {"note": f"{CANARY}!", "lines": [CANARY]})
BUILDER.add_edge(START, "step")
BUILDER.add_edge("step", END)


def keys(*letters: bytes) -> Keys:
    return Keys([letter * 32 for letter in letters], lambda: None)


async def stored_text(database: Database) -> str:
    """Return every row of every table as the database shows it, bytes as bytes."""
    texts: list[str] = []
    async with database.work() as work:
        found = await work.connection.execute(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'"
        )
        names = [row[0] for row in await found.fetchall()]
        for name in names:
            query = sql.SQL("SELECT one::text FROM {} AS one").format(sql.Identifier(name))
            texts += [row[0] for row in await (await work.connection.execute(query)).fetchall()]
        blobs = await work.connection.execute(
            "SELECT blob FROM checkpoint_blobs UNION ALL SELECT blob FROM checkpoint_writes"
        )
        texts += [bytes(row[0] or b"").decode("latin-1") for row in await blobs.fetchall()]
    assert len(names) > 20
    return "\n".join(texts)


@pytest.mark.req("EXEC-40", "P18")
async def test_nothing_of_a_state_is_readable_in_any_table(database: Database):
    graph = BUILDER.compile(checkpointer=database.checkpointer())
    config: Any = {"configurable": {"thread_id": new_id()}}
    await graph.ainvoke(STATE, config)
    text = await stored_text(database)
    assert config["configurable"]["thread_id"] in text
    for secret in (CANARY, str(NUMBER), "0.918273645", base64.b64encode(CANARY.encode()).decode()):
        assert secret not in text
    values = (await graph.aget_state(config)).values
    assert values == {**STATE, "note": f"{CANARY}!", "lines": [CANARY, CANARY]}
    assert values["flag"] is True
    assert type(values["number"]) is int


@pytest.mark.req("EXEC-40")
def test_changed_bytes_and_a_changed_form_are_noticed():
    serializer = StrictSerializer(keys(b"a"))
    form, sealed = serializer.dumps_typed(["text"])
    assert serializer.loads_typed((form, sealed)) == ["text"]
    kind, _, name = form.partition("+")
    for bad in (sealed[:-1], sealed[:5], b"", bytes([sealed[0] ^ 1]) + sealed[1:]):
        with pytest.raises(CheckpointDamaged):
            serializer.loads_typed((form, bad))
    assert kind == "msgpack"
    with pytest.raises(CheckpointDamaged):
        serializer.loads_typed((f"bytes+{name}", sealed))
    with pytest.raises(EncryptionKeyMissing, match="1234abcd is not here"):
        serializer.loads_typed(("msgpack+1234abcd", sealed))


@pytest.mark.req("EXEC-40")
def test_the_first_key_seals_and_all_of_them_open():
    old, both = StrictSerializer(keys(b"a")), StrictSerializer(keys(b"b", b"a"))
    form, sealed = old.dumps_typed({"x": 1})
    assert both.loads_typed((form, sealed)) == {"x": 1}
    assert both.dumps_typed({"x": 1})[0] == f"msgpack+{key_id(b'b' * 32)}"
    assert old.dumps_typed({"x": 1})[1] != sealed
    with pytest.raises(EncryptionKeyMissing):
        StrictSerializer(keys(b"b")).loads_typed((form, sealed))


@pytest.mark.req("EXEC-40", "EXEC-42")
def test_values_in_clear_of_an_earlier_release_are_read():
    form, data = "msgpack", b"\x91\xa4text"
    assert StrictSerializer(keys(b"a")).loads_typed((form, data)) == ["text"]


@pytest.mark.req("EXEC-40")
def some_keys_are_made_once_in_a_file_for_its_owner_alone(tmp_path: Path):
    data = tmp_path / "data"
    made = load_keys("", data)
    assert (data / FILE).stat().st_mode & 0o777 == 0o600
    assert load_keys("", data).names == made.names
    assert [path.name for path in data.iterdir()] == [FILE]
    (data / FILE).chmod(0o640)
    with pytest.raises(ConfigError, match=r"Others may read .* chmod 600"):
        load_keys("", data)


@pytest.mark.req("EXEC-40")
@pytest.mark.parametrize(
    "text", ["short", "a" * 44, "ü" * 43, base64.b64encode(b"x" * 31).decode()]
)
def test_what_is_no_key_is_told_with_the_way_to_make_one(tmp_path: Path, text: str):
    with pytest.raises(ConfigError, match=r"GW_ENCRYPTION_KEYS: Key 2 .* openssl rand -base64 32"):
        load_keys(f"{base64.b64encode(b'x' * 32).decode()},{text}", tmp_path)
    (tmp_path / FILE).write_text("# nothing\n\n")
    (tmp_path / FILE).chmod(0o600)
    with pytest.raises(ConfigError, match=r"There is no key in it"):
        load_keys("", tmp_path)
    assert load_keys(base64.urlsafe_b64encode(b"\xff" * 32).decode(), tmp_path).names == [
        key_id(b"\xff" * 32)
    ]


@pytest.mark.req("EXEC-40")
def test_a_new_key_reaches_a_server_that_runs(tmp_path: Path):
    running = load_keys("", tmp_path)
    (first,) = running.names
    sealed = running.seal(b"text", about=b"")
    add_key(tmp_path)
    assert running.names == [running.current, first]
    assert running.current != first
    assert running.open(*sealed, about=b"") == b"text"
    drop_keys(tmp_path, [first])
    assert first not in running.names
    with pytest.raises(EncryptionKeyMissing):
        running.open(*sealed, about=b"")
    (tmp_path / FILE).unlink()
    assert len(running.names) == 1
