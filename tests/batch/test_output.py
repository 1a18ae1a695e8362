"""The file of results: durable, mended after a kill, never somebody else's (BATCH-04)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from core.errors import BatchUnwritten, Invalid
from runtime import ExecutionResult, execute_many
from runtime.batch_output import ResultsFile
from tests.batch.conftest import Desk

pytestmark = pytest.mark.req("BATCH-04")


def result(number: int) -> ExecutionResult:
    return ExecutionResult(f"run-{number}", "session", "success", f"输出 {number}")


async def write(path: Path, *numbers: int) -> None:
    file = await ResultsFile.open(path)
    await asyncio.gather(*(file.add(f"k{number}", result(number)) for number in numbers))
    await file.close()


async def test_what_is_written_is_read_back(tmp_path: Path):
    await write(tmp_path / "out.jsonl", 1, 2, 3)
    again = await ResultsFile.open(tmp_path / "out.jsonl")
    assert again.known == {f"k{number}": result(number) for number in (1, 2, 3)}
    await again.close()


async def test_a_file_cut_at_any_byte_is_mended_without_losing_a_whole_line(tmp_path: Path):
    path = tmp_path / "out.jsonl"
    await write(path, 1, 2)
    whole = path.read_bytes()
    ends = {at for at, byte in enumerate(whole, start=1) if byte == 10}
    for cut in range(len(whole) + 1):
        path.write_bytes(whole[:cut])
        await write(path, 9)
        mended = path.read_bytes()
        kept = mended.splitlines()[:-1]
        # A line that only lacks its end is whole.
        expected = sum(end <= cut + 1 for end in ends)
        assert [json.loads(line)["key"] for line in kept] == ["k1", "k2"][:expected], cut


async def test_zeros_that_a_power_cut_leaves_at_the_end_are_taken_off(tmp_path: Path):
    path = tmp_path / "out.jsonl"
    await write(path, 1)
    whole = path.read_bytes()
    path.write_bytes(whole + bytes(300))
    await write(path, 2)
    assert path.read_bytes().count(b"\x00") == 0


@pytest.mark.parametrize(
    "content",
    [
        b'{"message": "hello"}\n',
        b"my notes",
        b"my notes\n",
        b'{"key": "a"}\n{"key"',
        b"\xff\xfe\x00",
        b'"text"',
    ],
)
async def test_a_file_that_is_something_else_is_refused_and_left_as_it_is(
    tmp_path: Path, content: bytes
):
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(Invalid, match="no file of results"):
        await ResultsFile.open(path)
    assert path.read_bytes() == content


async def test_a_file_that_another_batch_writes_is_refused(tmp_path: Path):
    held = await ResultsFile.open(tmp_path / "out.jsonl")
    with pytest.raises(Invalid, match="written by another batch"):
        await ResultsFile.open(tmp_path / "out.jsonl")
    await held.close()
    await (await ResultsFile.open(tmp_path / "out.jsonl")).close()


async def test_a_place_that_cannot_be_written_is_told(tmp_path: Path):
    with pytest.raises(Invalid, match="cannot be opened"):
        await ResultsFile.open(tmp_path)


@pytest.mark.req("L25")
async def test_a_lone_surrogate_is_written_as_text(tmp_path: Path):
    file = await ResultsFile.open(tmp_path / "out.jsonl")
    await file.add("k", ExecutionResult("r", "s", "success", "x\ud83d\x00"))
    await file.close()
    assert json.loads((tmp_path / "out.jsonl").read_text("utf-8"))["output"] == "x\ufffd\ufffd"


async def test_a_full_disk_ends_the_batch_with_the_cure_and_the_next_start_has_everything(
    desk: Desk,
):
    items = [f"item {at}" for at in range(8)]
    async with desk.environment():
        with pytest.raises(BatchUnwritten, match=r"No space left.*kept in the database"):
            await execute_many(items, out="/dev/full", concurrency=2, progress=False)
        done = desk.count("FROM runs")
        assert 1 <= done <= 4
        assert desk.count("FROM runs WHERE status = 'success'") == done
        out = desk.folder / "out.jsonl"
        report = await execute_many(items, out=out, progress=False)
    assert report.ok
    assert [desk.asked(item) for item in items] == [1] * 8
    assert len(out.read_text().splitlines()) == 8
