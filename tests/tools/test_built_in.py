"""The built-in tools, called as plain functions and as the model calls them."""

from __future__ import annotations

import time

import pytest

from core.errors import PathRefused, ToolArgumentsInvalid, ToolFailed
from tests.tools.conftest import Context, tool
from tools.asking import ask_user, request_plan_approval
from tools.calculate import calculate
from tools.files import list_files, read_file, write_file
from tools.now import now
from tools.planning import update_plan


@pytest.mark.req("WORK-11")
@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("1 + 2 * 3", 7),
        ("(3 + 4.5) * sqrt(4)", 15.0),
        ("2 ** 100", 2**100),
        ("2^10", 1024),
        ("7 // 2 + 7 % 2", 4),
        ("6 × 7 ÷ 2", 21.0),
        ("-3 + +4", 1),
        ("round(2.567, 1)", 2.6),
        ("max(1, 2, 3) - min(4, 5)", -1),
        ("10 ** -2", 0.01),
    ],
)
def test_calculate_works_out(expression, value):
    assert calculate(expression)["value"] == pytest.approx(value)


@pytest.mark.req("WORK-11")
@pytest.mark.parametrize(
    "expression",
    [
        "9**9**9",
        "2**99999999",
        "(-8)**0.5",
        "10.0**400",
        "1/0",
        "exp(10000)",
        "__import__('os').system('true')",
        "(1).__class__",
        "x + 1",
        "'a' * 9",
        "[1] * 9",
        "True + 1",
        "1 if 1 else 2",
        "lambda: 1",
        "max(*[1, 2])",
        "round(1, ndigits=1)",
        "log(-1)",
        "sqrt()",
        "1j",
        "",
        "1 +",
        "(" * 300 + "1" + ")" * 300,
        "1" * 2_000,
    ],
)
def test_calculate_refuses_with_a_reason_and_at_once(expression):
    began = time.perf_counter()
    with pytest.raises(ToolFailed):
        calculate(expression)
    assert time.perf_counter() - began < 1


def test_calculate_bounds_what_grows_step_by_step():
    with pytest.raises(ToolFailed, match="large"):
        calculate("*".join(["(2**8000)"] * 50))


async def test_now_tells_the_time_of_a_zone(context: Context):
    result = await now(context, "Asia/Shanghai")
    assert result == {
        "time": "2026-01-01T08:00:00+08:00",
        "weekday": "Thursday",
        "timezone": "Asia/Shanghai",
    }


@pytest.mark.parametrize("zone", ["Mars/Base", "../../etc/passwd", "/etc/passwd", "", "\x00"])
async def test_now_refuses_an_unknown_zone(zone, context: Context):
    with pytest.raises(ToolFailed, match="time zone"):
        await now(context, zone)


@pytest.mark.req("EXEC-07")
async def test_update_plan_replaces_the_list(context: Context):
    spec = tool(update_plan)
    todos = [{"content": "read", "status": "completed"}, {"content": "write"}]
    result = await spec.call(spec.validate({"todos": todos}), context)
    assert result["todos"] == [todos[0], {"content": "write", "status": "pending"}]
    assert context.todos == result["todos"]
    assert spec.side_effect == "none"


@pytest.mark.req("EXEC-08")
@pytest.mark.parametrize(
    "questions",
    [
        [],
        [{"question": "a"}] * 4,
        [{"question": ""}],
        [{"question": "a", "kind": "single"}],
        [{"question": "a", "kind": "multiple", "options": ["x", "x"]}],
        [{"question": "a", "kind": "text", "options": ["x", "y"]}],
        [{"question": "a", "kind": "riddle"}],
        [{"question": "a", "colour": "red"}],
    ],
)
def test_ask_user_takes_one_to_three_well_formed_questions(questions):
    with pytest.raises(ToolArgumentsInvalid):
        tool(ask_user).validate({"questions": questions})


@pytest.mark.req("EXEC-08")
def test_ask_user_takes_text_and_choices():
    questions = [
        {"question": "Why?"},
        {"question": "Which?", "kind": "single", "options": ["a", "b"]},
        {"question": "Which ones?", "kind": "multiple", "options": ["a", "b"]},
    ]
    assert len(tool(ask_user).validate({"questions": questions})["questions"]) == 3
    assert (tool(ask_user).kind, tool(request_plan_approval).kind) == ("question", "plan")


async def test_a_file_is_written_listed_and_read(context: Context):
    assert (await list_files(context))["entries"] == []
    written = await write_file(context, "/workspace/a/b.txt", "one\ntwo\nthree")
    assert (written["path"], written["size"]) == ("/workspace/a/b.txt", 13)
    listed = await list_files(context, "/workspace", recursive=True)
    assert [entry["path"] for entry in listed["entries"]] == ["/workspace/a", "/workspace/a/b.txt"]
    part = await read_file(context, "/workspace/a/b.txt", first_line=2, lines=1)
    assert (part["content"], part["next_line"], part["total_lines"]) == ("two", 3, 3)
    assert "next_line" not in await read_file(context, "/workspace/a/b.txt", first_line=3)
    with pytest.raises(ToolFailed, match="only 3 lines"):
        await read_file(context, "/workspace/a/b.txt", first_line=4)


async def test_reading_a_long_file_gives_as_much_as_fits_and_where_to_go_on(context: Context):
    await write_file(context, "/workspace/long.txt", "\n".join(["x" * 99] * 900))
    part = await read_file(context, "/workspace/long.txt", lines=2_000)
    assert len(part["content"]) <= 15_000
    assert part["next_line"] == 151


async def test_an_archive_is_readable_but_not_writable(context: Context):
    path = await context.archive.append("s", "what was said")
    assert (await read_file(context, path))["content"] == "what was said"
    for place in (path, "/conversation_history/x.md", "/etc/passwd", "relative.txt"):
        with pytest.raises(PathRefused):
            await write_file(context, place, "changed")
    assert tool(write_file).side_effect == "write"


async def test_a_binary_file_is_not_read_as_text(context: Context):
    await context.files.write("/workspace/x.bin", b"\x00\x01\xff\xfe" * 9)
    with pytest.raises(ToolFailed, match="not a text file"):
        await read_file(context, "/workspace/x.bin")


async def test_a_file_in_gbk_is_read_right(context: Context):
    await context.files.write("/workspace/g.txt", "季度总结".encode("gbk"))
    assert (await read_file(context, "/workspace/g.txt"))["content"] == "季度总结"
