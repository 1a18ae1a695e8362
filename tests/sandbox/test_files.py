"""The store of a project's files, on a real disk."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path

import pytest

from core.errors import FileChanged, FileMissing, PathRefused, TooLarge
from sandbox.files import LocalFileStore, LocalFileStores
from tests.sandbox.conftest import ALICE, BOB


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.mark.req("WORK-01")
async def test_what_was_written_is_read_back_under_its_virtual_path(
    store: LocalFileStore, tmp_path: Path
) -> None:
    entry = await store.write("notes/a.md", b"hello")
    content, read = await store.read("/workspace/notes/a.md")
    assert (content, entry, read) == (b"hello", read, entry)
    assert (entry.path, entry.kind, entry.size) == ("/workspace/notes/a.md", "file", 5)
    assert entry.sha256 == sha256(b"hello")
    real = tmp_path / "data/workspaces/w1/alice/p1/workspace/notes/a.md"
    assert real.read_bytes() == b"hello"
    assert str(tmp_path) not in repr(entry)


@pytest.mark.req("WORK-01")
async def test_nothing_is_created_before_the_first_write(
    store: LocalFileStore, tmp_path: Path
) -> None:
    assert await store.list("/workspace/") == []
    with pytest.raises(FileMissing):
        await store.read("a.md")
    with pytest.raises(FileMissing):
        await store.list("/workspace/none")
    await store.delete_all()
    assert names(tmp_path) == []


@pytest.mark.req("WORK-01")
async def test_projects_and_users_do_not_see_each_other(stores: LocalFileStores) -> None:
    await stores.open(ALICE, "p1", "s1").write("a.md", b"alice")
    assert (await stores.open(ALICE, "p1", "s2").read("a.md"))[0] == b"alice"
    for other in (stores.open(ALICE, "p2", "s1"), stores.open(BOB, "p1", "s1")):
        with pytest.raises(FileMissing):
            await other.read("a.md")


@pytest.mark.req("WORK-01", "F01")
@pytest.mark.parametrize("project_id", ["..", "", "a/b", "x" * 65, ".staging", "a\n"])
def test_a_project_id_that_is_not_an_id_opens_nothing(
    stores: LocalFileStores, project_id: str
) -> None:
    with pytest.raises(PathRefused):
        stores.open(ALICE, project_id, "s1")


@pytest.mark.req("WORK-01")
async def test_a_listing_is_sorted_and_goes_deeper_only_when_asked(store: LocalFileStore) -> None:
    for path in ("b.md", "a/2.md", "a/1.md", "a/c/3.md"):
        await store.write(path, b"x")
    shallow = [(entry.path, entry.kind) for entry in await store.list("/workspace/")]
    assert shallow == [("/workspace/a", "folder"), ("/workspace/b.md", "file")]
    deep = [entry.path for entry in await store.list("/workspace", recursive=True)]
    assert deep == [
        "/workspace/a",
        "/workspace/a/1.md",
        "/workspace/a/2.md",
        "/workspace/a/c",
        "/workspace/a/c/3.md",
        "/workspace/b.md",
    ]


@pytest.mark.req("WORK-01", "WORK-02")
async def test_tools_read_the_archive_that_only_the_server_writes(
    stores: LocalFileStores, store: LocalFileStore
) -> None:
    archive = stores.archive(ALICE, "p1")
    assert await archive.append("s1", "one\n") == "/conversation_history/s1.md"
    await archive.append("s1", "two\n")
    assert (await store.read("/conversation_history/s1.md"))[0] == b"one\ntwo\n"
    for attempt in (
        store.write("/conversation_history/s1.md", b"forged"),
        store.append("/conversation_history/s1.md", b"forged"),
    ):
        with pytest.raises(PathRefused, match="only be read"):
            await attempt
    with pytest.raises(PathRefused):
        await archive.append("../../x", "forged")


@pytest.mark.req("WORK-02")
async def test_a_conditional_write_fails_when_the_file_changed(store: LocalFileStore) -> None:
    first = await store.write("a.md", b"one", expected_sha256="")
    with pytest.raises(FileChanged):
        await store.write("a.md", b"two", expected_sha256="")
    second = await store.write("a.md", b"two", expected_sha256=first.sha256)
    with pytest.raises(FileChanged):
        await store.write("a.md", b"three", expected_sha256=first.sha256)
    with pytest.raises(FileChanged):
        await store.write("b/none.md", b"x", expected_sha256=second.sha256)
    assert (await store.read("a.md"))[0] == b"two"
    assert [entry.path for entry in await store.list("/workspace/")] == ["/workspace/a.md"]


@pytest.mark.req("WORK-02")
@pytest.mark.parametrize("expected", [sha256(b"start"), ""], ids=["changed", "created"])
async def test_of_many_conditional_writers_exactly_one_wins(
    stores: LocalFileStores, expected: str
) -> None:
    if expected:
        await stores.open(ALICE, "p1", "s1").write("a.md", b"start")
    # Stores of their own, as two processes would have: only the disk is shared.
    writers = [LocalFileStores(stores.data_dir, stores.limits) for _ in range(12)]
    results = await asyncio.gather(
        *(
            writer.open(ALICE, "p1", "s").write("a.md", b"%d" % index, expected_sha256=expected)
            for index, writer in enumerate(writers)
        ),
        return_exceptions=True,
    )
    won = [index for index, result in enumerate(results) if not isinstance(result, BaseException)]
    assert len(won) == 1
    assert sum(isinstance(result, FileChanged) for result in results) == 11
    content, _ = await stores.open(ALICE, "p1", "s1").read("a.md")
    assert content == b"%d" % won[0]


@pytest.mark.req("WORK-02")
async def test_readers_see_the_old_or_the_new_file_and_never_a_half(store: LocalFileStore) -> None:
    contents = {b"a" * 1000, b"b" * 1000}
    await store.write("a.md", b"a" * 1000)

    async def write() -> None:
        for _ in range(20):
            for content in sorted(contents):
                await store.write("a.md", content)

    async def read() -> set[bytes]:
        return {(await store.read("a.md"))[0] for _ in range(60)}

    _, seen = await asyncio.gather(write(), read())
    assert seen <= contents


@pytest.mark.req("WORK-02")
async def test_too_large_a_file_is_refused_and_leaves_nothing(
    store: LocalFileStore, workspace: Path
) -> None:
    with pytest.raises(TooLarge):
        await store.write("a.md", b"x" * 1001)
    with pytest.raises(TooLarge):
        await store.store_upload("a.md", b"x" * 1001)
    await store.append("b.md", b"x" * 600)
    with pytest.raises(TooLarge):
        await store.append("b.md", b"x" * 600)
    with pytest.raises(TooLarge):
        await store.append("c.md", b"x" * 1001)
    (workspace / "big.bin").write_bytes(b"x" * 1001)
    with pytest.raises(TooLarge):
        await store.read("big.bin")
    assert names(workspace) == ["b.md", "big.bin"]


@pytest.mark.req("WORK-02")
async def test_the_quota_counts_what_is_there_and_what_was_deleted(
    store: LocalFileStore, workspace: Path
) -> None:
    for index in range(5):
        await store.write(f"{index}.md", b"x" * 1000)
    with pytest.raises(TooLarge, match="5000"):
        await store.write("more.md", b"x")
    await store.write("0.md", b"y" * 1000)  # replacing needs no room
    (workspace / "1.md").unlink()
    await store.write("more.md", b"x" * 1000)
    assert names(workspace) == [
        "0.md",
        "2.md",
        "3.md",
        "4.md",
        "more.md",
    ]


@pytest.mark.req("WORK-02", "F01")
async def test_uploads_never_overwrite_and_get_a_free_name(store: LocalFileStore) -> None:
    entries = await asyncio.gather(
        *(store.store_upload("plan.md", b"%d" % index) for index in range(5))
    )
    assert sorted(entry.path for entry in entries) == [
        "/workspace/uploads/plan-2.md",
        "/workspace/uploads/plan-3.md",
        "/workspace/uploads/plan-4.md",
        "/workspace/uploads/plan-5.md",
        "/workspace/uploads/plan.md",
    ]
    contents = {(await store.read(entry.path))[0] for entry in entries}
    assert contents == {b"0", b"1", b"2", b"3", b"4"}


@pytest.mark.req("WORK-02")
async def test_a_project_is_deleted_whole_and_can_begin_anew(
    store: LocalFileStore, workspace: Path
) -> None:
    await store.write("a/b.md", b"x")
    outside = workspace.parents[3] / "outside"
    outside.mkdir()
    (outside / "keep.md").write_bytes(b"keep")
    (workspace / "link").symlink_to(outside)
    await store.delete_all()
    assert names(workspace.parents[1]) == []
    assert (outside / "keep.md").read_bytes() == b"keep"
    await store.write("a/b.md", b"y")
    assert (await store.read("a/b.md"))[0] == b"y"
