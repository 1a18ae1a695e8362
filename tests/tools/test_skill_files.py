"""Files of skills by virtual path: readable, never writable, never anything else of the disk."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from core.errors import FileMissing, Invalid, NotFound, PathRefused, ToolFailed
from sandbox.files import FileLimits, LocalFileStores
from tests.tools.conftest import Context
from tests.tools.skill_folders import ANN, Places, put
from tools.carry_out import carry_out
from tools.files import list_files, read_file, write_file
from tools.resolve import resolve
from tools.skills.files import SkilledFiles
from tools.skills.tool import load_skill

pytestmark = pytest.mark.req("SKILL-01")


@pytest.fixture
def places(tmp_path: Path) -> Places:
    made = Places(tmp_path)
    report = put(made.built_in, "report", body="Read the reference.")
    (report / "references").mkdir()
    (report / "references" / "format.md").write_text("one\ntwo\n")
    put(made.of(ANN), "mine")
    return made


@pytest.fixture
async def context(tmp_path: Path, places: Places) -> Context:
    made = Context(tmp_path)
    made.skills = await places.library.shelf(ANN)
    stores = LocalFileStores(places.data, FileLimits(file=100_000, project=1_000_000))
    made.files = SkilledFiles(stores.open(ANN, "p1", "s"), made.skills)
    return made


async def test_all_three_levels_can_be_read(context):
    loaded = await load_skill(context, "report")
    assert loaded == {
        "name": "report",
        "source": "built-in",
        "instructions": "Read the reference.",
        "files": [{"path": "/skills/report/references/format.md", "size": 8}],
    }
    read = await read_file(context, "/skills/report/references/format.md", 2)
    assert (read["path"], read["content"]) == ("/skills/report/references/format.md", "two")


async def test_a_long_skill_says_where_to_read_on(context, places):
    body = "\n".join(f"line {number}" for number in range(5_000))
    put(places.of(ANN), "mine", body=body)
    context.skills = await places.library.shelf(ANN)
    context.files = SkilledFiles(context.files, context.skills)
    loaded = await load_skill(context, "mine")
    more = await read_file(context, **loaded["read_on"], lines=1)
    last = loaded["instructions"].rpartition("\n")[2]
    assert int(more["content"].split()[1]) == int(last.split()[1]) + 1


async def test_folders_can_be_listed(context):
    top = await list_files(context, "/skills")
    assert [one["path"] for one in top["entries"]] == ["/skills/mine", "/skills/report"]
    whole = await list_files(context, "/skills", recursive=True)
    assert [one["path"] for one in whole["entries"]] == [
        "/skills/mine",
        "/skills/mine/SKILL.md",
        "/skills/report",
        "/skills/report/SKILL.md",
        "/skills/report/references",
        "/skills/report/references/format.md",
    ]
    below = await list_files(context, "/skills/report/references/")
    assert [one["path"] for one in below["entries"]] == ["/skills/report/references/format.md"]


async def test_files_of_the_project_are_where_they_were(context):
    await write_file(context, "/workspace/skills/report/SKILL.md", "a draft")
    assert (await read_file(context, "skills/report/SKILL.md"))["content"] == "a draft"
    assert (await read_file(context, "/skills/report/SKILL.md"))["total_lines"] == 5


@pytest.mark.parametrize(
    "path",
    [
        "/skills/report/SKILL.md",
        "/skills/report/new.md",
        "/skills/new/SKILL.md",
        "/skills",
        "/skills/",
    ],
)
async def test_nothing_can_be_written(context, places, path):
    for attempt in (
        context.files.write(path, b"evil"),
        context.files.append(path, b"evil"),
        context.files.remove(path),
    ):
        with pytest.raises(PathRefused, match="can only be read"):
            await attempt
    with pytest.raises(PathRefused):
        await write_file(context, path, "evil")
    await context.files.delete_all()
    assert (places.built_in / "report" / "SKILL.md").read_text().startswith("---")
    assert (places.of(ANN) / "mine" / "SKILL.md").exists()


@pytest.mark.parametrize(
    "path",
    [
        "/skills/../built-in/report/SKILL.md", "/skills/report/../mine/SKILL.md",
        "/skills/report/./SKILL.md", "/skills//report/SKILL.md", "/skills/report\\SKILL.md",
        "/skills/report/%2e%2e/mine", "/skills/report/SKILL.md\0", "//skills/report/SKILL.md",
        "/skills/report/．．/mine", "/skills/-rf/x", "/skills/report", "/skills", "/skills/report/",
        "/SKILLS/report/SKILL.md", "/etc/passwd",
    ],
)  # fmt: skip
async def test_paths_that_try_to_leave_are_refused(context, path):
    with pytest.raises(PathRefused) as refused:
        await context.files.read(path)
    assert "built-in" not in refused.value.message


async def test_what_is_not_there_is_missing(context):
    for path in ("/skills/report/none.md", "/skills/report/references/none/x"):
        with pytest.raises(FileMissing):
            await context.files.read(path)
    with pytest.raises(NotFound, match="Did you mean report"):
        await context.files.read("/skills/reports/SKILL.md")
    with pytest.raises(NotFound):
        await context.files.list("/skills/none")


async def test_links_and_devices_inside_a_skill_are_neither_listed_nor_read(
    context, places, tmp_path
):
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("SECRET")
    mine = places.of(ANN) / "mine"
    (mine / "link.md").symlink_to(secret / "key")
    (mine / "references").symlink_to(secret)
    os.link(secret / "key", mine / "twin.md")
    os.mkfifo(mine / "pipe.md")
    listed = await context.files.list("/skills/mine", recursive=True)
    assert [entry.path for entry in listed] == ["/skills/mine/SKILL.md"]
    for name in ("link.md", "references/key", "twin.md", "pipe.md"):
        with pytest.raises(PathRefused):
            await context.files.read(f"/skills/mine/{name}")


@pytest.mark.parametrize(
    "name", ["../../etc", "report/SKILL.md", "/skills/report", "\0", "..", "REPORT"]
)
async def test_the_tool_takes_names_and_no_paths(context, name):
    spec, _ = resolve(load_skill, "test")
    outcome = await carry_out(spec, {"name": name}, context, timeout=5)
    assert outcome.status == "failed"
    assert "There is no skill named" in outcome.error


async def test_a_broken_skill_tells_the_model_what_is_wrong(context, places):
    put(places.of(ANN), "mine").joinpath("SKILL.md").write_text("broken")
    context.skills = await places.library.shelf(ANN)
    with pytest.raises(Invalid, match=r"The skill mine is broken: SKILL\.md has no front matter\."):
        await load_skill(context, "mine")


async def test_a_binary_file_is_no_text(context, places):
    (places.of(ANN) / "mine" / "logo.png").write_bytes(b"\x89PNG\0\0")
    with pytest.raises(ToolFailed):
        await read_file(context, "/skills/mine/logo.png")
    content, entry = await context.files.read("/skills/mine/logo.png")
    assert (content, entry.size, entry.path) == (b"\x89PNG\0\0", 6, "/skills/mine/logo.png")
