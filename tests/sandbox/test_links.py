"""What a sandbox may plant in its folder, and that the store does not fall for it (F01)."""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from core.errors import FileChanged, FileMissing, PathRefused
from sandbox.files import LocalFileStore

pytestmark = pytest.mark.req("WORK-02", "F01")

SECRET = b"secret of another user"


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A file outside of the project that must be neither read nor changed."""
    folder = tmp_path / "data" / "u2"
    folder.mkdir(parents=True)
    plan = folder / "plan.md"
    plan.write_bytes(SECRET)
    return plan


def untouched(victim: Path) -> bool:
    return victim.read_bytes() == SECRET


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def replace_by_link(folder: Path, target: Path) -> None:
    folder.rmdir()
    folder.symlink_to(target)


async def refuses_everything(store: LocalFileStore, path: str) -> None:
    for attempt in (
        store.read(path),
        store.write(path, b"evil"),
        store.write(path, b"evil", expected_sha256="0" * 64),
        store.append(path, b"evil"),
    ):
        with pytest.raises(PathRefused):
            await attempt


async def test_an_upload_beside_a_planted_link_gets_another_name(
    store: LocalFileStore, workspace: Path, victim: Path
) -> None:
    (workspace / "uploads").mkdir()
    (workspace / "uploads" / "plan.md").symlink_to(victim)
    entry = await store.store_upload("plan.md", b"mine")
    assert entry.path == "/workspace/uploads/plan-2.md"
    assert untouched(victim)


async def test_an_upload_through_a_linked_folder_is_refused(
    store: LocalFileStore, workspace: Path, victim: Path
) -> None:
    (workspace / "uploads").symlink_to(victim.parent)
    with pytest.raises(PathRefused):
        await store.store_upload("new.md", b"mine")
    assert names(victim.parent) == ["plan.md"]


async def test_links_to_files_are_neither_read_nor_written(
    store: LocalFileStore, workspace: Path, victim: Path
) -> None:
    (workspace / "plan.md").symlink_to(victim)
    (workspace / "environ").symlink_to("/proc/self/environ")
    (workspace / "dangling").symlink_to(victim.parent / "not-yet")
    for name in ("plan.md", "environ", "dangling"):
        await refuses_everything(store, name)
    assert untouched(victim)
    assert names(victim.parent) == ["plan.md"]


async def test_links_to_folders_are_not_walked_through(
    store: LocalFileStore, workspace: Path, victim: Path
) -> None:
    (workspace / "d").symlink_to(victim.parent)
    await refuses_everything(store, "d/plan.md")
    with pytest.raises(PathRefused):
        await store.write("d/new/deep.md", b"evil")
    with pytest.raises(PathRefused):
        await store.list("d")
    assert names(victim.parent) == ["plan.md"]


async def test_a_hard_link_is_neither_read_nor_written(
    store: LocalFileStore, workspace: Path, victim: Path
) -> None:
    os.link(victim, workspace / "plan.md")
    await refuses_everything(store, "plan.md")
    assert untouched(victim)


async def test_pipes_and_folders_are_not_files_and_nothing_hangs(
    store: LocalFileStore, workspace: Path
) -> None:
    os.mkfifo(workspace / "pipe")
    (workspace / "d").mkdir()
    async with asyncio.timeout(10):
        await refuses_everything(store, "pipe")
        await refuses_everything(store, "d")


async def test_a_listing_leaves_out_what_could_not_be_opened(
    store: LocalFileStore, workspace: Path, victim: Path
) -> None:
    (workspace / "real.md").write_bytes(b"x")
    (workspace / "link.md").symlink_to(victim)
    os.link(victim, workspace / "hard.md")
    os.mkfifo(workspace / "pipe")
    (workspace / "a\r\nX-Evil: 1.txt").write_bytes(b"x")
    (workspace / "loop").symlink_to(workspace)
    entries = await store.list("/workspace/", recursive=True)
    assert [entry.path for entry in entries] == ["/workspace/real.md"]


async def test_the_project_folder_itself_may_not_be_a_link(
    store: LocalFileStore, workspace: Path, victim: Path
) -> None:
    replace_by_link(workspace, victim.parent)
    await refuses_everything(store, "plan.md")
    assert untouched(victim)


@pytest.fixture
def swapping(workspace: Path, victim: Path) -> Iterator[threading.Event]:
    """Somebody who swaps `/workspace/d` for a link and back, as fast as the disk allows."""
    swapped, real = workspace / "d", workspace / "real"
    swapped.mkdir()
    (swapped / "plan.md").write_bytes(b"mine")
    stop = threading.Event()

    def swap() -> None:
        # A write may make a folder of its own in between; then the next round begins anew.
        while not stop.is_set():
            with suppress(OSError):
                swapped.rename(real)
            with suppress(OSError):
                swapped.symlink_to(victim.parent)
            with suppress(OSError):
                swapped.unlink()
            with suppress(OSError):
                real.rename(swapped)
            shutil.rmtree(real, ignore_errors=True)

    thread = threading.Thread(target=swap)
    thread.start()
    yield stop
    stop.set()
    thread.join(timeout=10)


async def test_a_folder_swapped_for_a_link_never_leads_outside(
    store: LocalFileStore, victim: Path, swapping: threading.Event
) -> None:
    refused = 0
    for _ in range(300):
        try:
            content, _ = await store.read("d/plan.md")
            assert content in (b"mine", b"written")
        except (PathRefused, FileMissing):
            refused += 1
        try:
            await store.write("d/plan.md", b"written")
            await store.list("/workspace/", recursive=True)
        except (PathRefused, FileMissing, FileChanged):
            refused += 1
    assert not swapping.is_set()
    assert refused > 0  # the race did happen
    assert untouched(victim)
    assert names(victim.parent) == ["plan.md"]
