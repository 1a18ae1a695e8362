"""Log lines carry their ids, in text and JSON, and no secret (OPS-06)."""

import asyncio
import io
import json
import logging
import sys
import threading
import warnings

import pytest

from core import log

CANARY = "hunter2hunter2Canary"


@pytest.fixture
def lines(request):
    """Set logging up for one test and give its lines; everything is put back afterwards."""
    root = logging.getLogger()
    before = list(root.handlers), root.level, sys.excepthook, threading.excepthook
    showwarning = warnings.showwarning
    stream = io.StringIO()
    log.setup_logging("INFO", getattr(request, "param", "json"), stream)
    yield lambda: stream.getvalue().splitlines()
    logging.captureWarnings(False)
    root.handlers[:], root.level, sys.excepthook, threading.excepthook = before
    warnings.showwarning = showwarning


def entries(lines):
    return [json.loads(line) for line in lines()]


@pytest.mark.req("OPS-06")
def test_json_line_has_time_with_milliseconds_and_zone_level_logger_and_values(lines):
    log.get_logger("runtime.engine").info("run ended", extra={"kv": {"status": "success", "n": 3}})
    (entry,) = entries(lines)
    time = entry.pop("ts")
    assert entry == {
        "level": "INFO",
        "logger": "runtime.engine",
        "message": "run ended",
        "status": "success",
        "n": 3,
    }
    assert time[19] == "." and time[23] in "+-Z" and len(time) == 29


@pytest.mark.req("OPS-06")
@pytest.mark.parametrize("lines", ["text"], indirect=True)
def test_text_line_shows_values_and_quotes_what_has_spaces(lines):
    with log.bind(trace_id="t1", run_id="r1"):
        log.get_logger("api").warning("slow", extra={"kv": {"path": "/x", "why": "two words"}})
    (line,) = lines()
    assert line.split(" ", 1)[1] == 'WARNING api slow trace_id=t1 run_id=r1 path=/x why="two words"'


@pytest.mark.req("OPS-06")
@pytest.mark.parametrize("lines", ["text"], indirect=True)
def test_line_break_in_a_message_cannot_forge_a_line(lines):
    log.get_logger("api").info("name %s", "x\n2026-01-01 ERROR server all lost")
    (line,) = lines()
    assert "\\n2026" in line


@pytest.mark.req("OPS-06")
async def test_bound_ids_go_through_tasks_and_threads_and_do_not_mix(lines):
    logger = log.get_logger("runtime")

    async def work(name: str) -> None:
        with log.bind(run_id=name):
            await asyncio.to_thread(logger.info, "thread")
            await asyncio.create_task(asyncio.to_thread(logger.info, "task"))

    with log.bind(trace_id="t"):
        await asyncio.gather(work("a"), work("b"))
    logger.info("after")
    seen = {(e["message"], e.get("run_id"), e.get("trace_id")) for e in entries(lines)}
    assert seen == {
        ("thread", "a", "t"),
        ("task", "a", "t"),
        ("thread", "b", "t"),
        ("task", "b", "t"),
        ("after", None, None),
    }


@pytest.mark.req("OPS-06")
async def test_binding_in_a_generator_that_another_task_closes_does_no_harm():
    async def stream():
        with log.bind(run_id="r"):
            yield 1
            yield 2

    opened = stream()
    await asyncio.create_task(anext(opened))
    await asyncio.create_task(opened.aclose())
    assert "run_id" not in log.bound()


@pytest.mark.req("OPS-06")
def test_only_known_ids_can_be_bound():
    with pytest.raises(TypeError, match="user_name"), log.bind(user_name="ann"):
        pass


@pytest.mark.req("OPS-06")
def test_kv_cannot_replace_reserved_fields_or_bound_ids(lines):
    with log.bind(session_id="s1"):
        log.get_logger("ext").info(
            "real", extra={"kv": {"message": "fake", "level": "fake", "session_id": "fake"}}
        )
    (entry,) = entries(lines)
    assert (entry["message"], entry["level"], entry["session_id"]) == ("real", "INFO", "s1")
    assert (entry["message_"], entry["level_"], entry["session_id_"]) == ("fake",) * 3


@pytest.mark.req("OPS-06")
@pytest.mark.parametrize("lines", ["text", "json"], indirect=True)
def test_no_canary_gets_through_messages_values_stacks_or_warnings(lines):
    foreign = logging.getLogger("some.library")
    foreign.error("connect to postgresql://u:%s@h/db failed", CANARY)
    foreign.error("request", extra={"kv": {"headers": {"Cookie": CANARY}, "note": f"sk-{CANARY}"}})
    try:
        raise ValueError(f"bad password={CANARY}")
    except ValueError:
        foreign.exception("broke")
    warnings.showwarning(f"api_key={CANARY}", UserWarning, "x.py", 1)
    written = "\n".join(lines())
    assert CANARY not in written
    assert written.count("***") >= 5
    assert "ValueError" in written


@pytest.mark.req("OPS-06")
def test_uncaught_error_is_logged_masked(lines):
    error = RuntimeError(f"Bearer {CANARY}")
    sys.excepthook(RuntimeError, error, None)
    thread = threading.Thread(target=lambda: 1 / 0, name="helper")
    thread.start()
    thread.join()
    first, second = entries(lines)
    assert CANARY not in first["exc"] and "RuntimeError" in first["exc"]
    assert second["thread"] == "helper" and "ZeroDivisionError" in second["exc"]


@pytest.mark.req("OPS-06")
def test_arguments_that_do_not_fit_or_cannot_be_shown_lose_no_line(lines):
    class Rude:
        def __str__(self):
            raise RuntimeError("no")

    root = logging.getLogger()  # pytest's own handlers would raise here
    root.handlers[:] = [handler for handler in root.handlers if isinstance(handler, log.Handler)]
    logger = log.get_logger("x")
    logger.info("%d things", "three")
    logger.info("rude", extra={"kv": {"value": Rude()}})
    first, second = entries(lines)
    assert first["message"] == "%d things (its arguments do not fit)"
    assert second["value"] == "<Rude>"


@pytest.mark.req("OPS-06")
def test_chatty_libraries_are_heard_from_warnings_on_and_uvicorn_uses_our_format(lines):
    logging.getLogger("httpx").info("GET http://h/?q=private")
    logging.getLogger("uvicorn.access").info("GET /?q=private")
    logging.getLogger("procrastinate.worker").info("job started")
    logging.getLogger("uvicorn.error").info("Shutting down")
    logging.getLogger("httpx").warning("retry")
    assert [(e["logger"], e["message"]) for e in entries(lines)] == [
        ("uvicorn.error", "Shutting down"),
        ("httpx", "retry"),
    ]


@pytest.mark.req("OPS-06")
def test_setting_up_twice_writes_each_line_once(lines):
    stream = io.StringIO()
    log.setup_logging("INFO", "json", stream)
    log.get_logger("x").info("once")
    assert lines() == []
    assert len(stream.getvalue().splitlines()) == 1


@pytest.mark.req("OPS-06")
def test_very_long_values_are_cut_and_say_their_length(lines):
    log.get_logger("x").info("long", extra={"kv": {"text": "a" * 5000}})
    (entry,) = entries(lines)
    assert entry["text"].endswith("… (5000 characters)")
