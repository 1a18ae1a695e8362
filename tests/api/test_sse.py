"""Frames are exact, places are understood, and a stream leaves nothing behind."""

import json
import random
from datetime import UTC, datetime

import anyio
import pytest

from api.sse import RECHECK_SECONDS, EventStream, Stream, frame, place_in
from core.clock import FakeClock, SystemClock
from core.errors import BadRequest, Unauthenticated
from core.events import StoredEvent
from identity import cache

RUN = "019b2f4e-7d1e-7c02-b6a1-54c1f0e2ab90"
OTHER = "019b2f4e-7d1e-7c02-b6a1-54c1f0e2ab91"
SESSION = "019b2f4e-7d1c-7a40-9c55-3f0e8b6a1d27"
SCOPE = {"type": "http", "method": "GET", "headers": [], "path": "/"}


def event(seq: int, text: str = "hi", trace_id: str | None = "t-1") -> StoredEvent:
    return StoredEvent(
        session_id=SESSION,
        run_id=RUN,
        seq=seq,
        at=datetime(2026, 1, 1, tzinfo=UTC),
        trace_id=trace_id,
        data={"type": "token", "content": text, "message_id": "m"},
    )


@pytest.mark.req("CHAT-05", "CHAT-06")
@pytest.mark.parametrize("text", ["hi", "two\nlines\r\nand\rmore", "你好 🗺", "data: x\n\nid: y"])
def test_a_frame_is_an_id_line_and_one_data_line_whatever_the_text(text: str):
    first, second, *rest = frame(event(7, text)).decode().split("\n")
    assert rest == ["", ""]
    assert first == f"id: {RUN}:7"
    assert json.loads(second.removeprefix("data: ")) == {
        "type": "token",
        "session_id": SESSION,
        "run_id": RUN,
        "seq": 7,
        "trace_id": "t-1",
        "content": text,
        "message_id": "m",
    }


@pytest.mark.req("CHAT-05")
def test_a_frame_without_trace_id_does_not_name_one():
    assert b"trace_id" not in frame(event(1, trace_id=None))


@pytest.mark.req("CHAT-07", "S01")
@pytest.mark.parametrize(
    ("header", "after", "expected"),
    [
        (None, 0, 0),
        ("", 4, 4),
        (f"{RUN}:12", 0, 12),
        (f"{RUN}:12", 3, 12),
        (f"{RUN.upper()}:12", 0, 12),
        (f"{RUN}:999999999999999", 0, 999999999999999),
        (f"{OTHER}:12", 5, 0),
    ],
)
def test_a_place_is_read_and_that_of_another_run_replays_all(header, after, expected):
    assert place_in(RUN, header, after) == expected


@pytest.mark.req("CHAT-07", "S01")
@pytest.mark.parametrize(
    "junk",
    ["abc", "-1", "12", f"{RUN}:-1", f"{RUN}:", f"{RUN}:1.5", f"{RUN}:1:2", f"{RUN} :1", f"{RUN}:٣",
     f"{'-' * 36}:1", f"{RUN}:" + "9" * 40],
)  # fmt: skip
def test_a_junk_place_is_refused(junk: str):
    with pytest.raises(BadRequest):
        place_in(RUN, junk, 0)


class Counted:
    """Events that count how often they were begun and ended."""

    def __init__(self, count: int, endless: bool = False) -> None:
        self.open = 0
        self.begun = 0
        self._count = count
        self._endless = endless

    async def events(self):
        self.open += 1
        self.begun += 1
        try:
            for seq in range(1, self._count + 1):
                yield event(seq)
            if self._endless:
                await anyio.sleep_forever()
        finally:
            self.open -= 1


async def allowed() -> None:
    return None


async def answer(stream: EventStream, *, gone_after: int | None = None) -> list[dict]:
    """Serve a stream to a client that leaves after so many messages."""
    sent: list[dict] = []
    left = anyio.Event()

    async def receive():
        await left.wait()
        return {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)
        if gone_after is not None and len(sent) > gone_after:
            left.set()
            await anyio.lowlevel.checkpoint()

    if gone_after == 0:
        left.set()
    with anyio.fail_after(5):
        await stream(dict(SCOPE), receive, send)
    return sent


def stream_to(counted: Counted, check=allowed, on_gone=None, clock=None) -> EventStream:
    place = Stream(
        session_id=SESSION,
        run_id=RUN,
        clock=clock or SystemClock(),
        check=check,
        on_gone=on_gone,
    )
    return EventStream(counted.events(), place)


@pytest.mark.req("CHAT-02", "CHAT-05")
async def test_a_stream_has_the_promised_headers_and_all_frames():
    sent = await answer(stream_to(Counted(2)))
    headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    assert sent[0]["status"] == 200
    assert headers["content-type"].startswith("text/event-stream")
    assert headers["x-session-id"] == SESSION
    assert headers["x-run-id"] == RUN
    assert headers["x-accel-buffering"] == "no"
    assert headers["cache-control"] == "no-store"
    assert [message["body"] for message in sent[1:]] == [frame(event(1)), frame(event(2)), b""]


@pytest.mark.req("S03", "CHAT-08")
@pytest.mark.parametrize("gone_after", [0, 1, 2, 3])
async def test_a_client_that_leaves_at_any_moment_leaves_nothing_open(gone_after: int):
    order = random.Random(gone_after)
    for _ in range(20):
        counted = Counted(gone_after + order.randint(1, 4), endless=True)
        gone: list[str] = []

        async def on_gone(gone: list[str] = gone) -> None:
            await anyio.lowlevel.checkpoint()
            gone.append("told")

        await answer(stream_to(counted, on_gone=on_gone), gone_after=gone_after)
        assert counted.open == 0
        assert gone == ["told"]


@pytest.mark.req("CHAT-08")
async def test_a_stream_that_ended_by_itself_tells_nobody_that_its_client_left():
    gone: list[str] = []

    async def on_gone() -> None:
        gone.append("told")

    await answer(stream_to(Counted(1), on_gone=on_gone))
    assert gone == []


@pytest.mark.req("IDENT-03", "Z02")
async def test_an_open_stream_ends_once_its_credential_is_withdrawn():
    clock, checks = FakeClock(), 0

    async def check() -> None:
        nonlocal checks
        checks += 1
        if checks == 2:
            raise Unauthenticated

    counted = Counted(1, endless=True)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(answer, stream_to(counted, check=check, clock=clock))
        await anyio.wait_all_tasks_blocked()
        await clock.advance(RECHECK_SECONDS)
        await anyio.wait_all_tasks_blocked()
        assert counted.open == 1
        await clock.advance(RECHECK_SECONDS)
    assert counted.open == 0


@pytest.mark.req("CHAT-05")
async def test_a_quiet_stream_sends_a_comment_that_clients_skip():
    stream = stream_to(Counted(1, endless=True))
    stream.ping_interval = 0.01
    sent: list[bytes] = []
    beat = anyio.Event()

    async def receive():
        await beat.wait()
        return {"type": "http.disconnect"}

    async def send(message):
        sent.append(message.get("body", b""))
        if message.get("body", b"").startswith(b":"):
            beat.set()

    with anyio.fail_after(5):
        await stream(dict(SCOPE), receive, send)
    assert sent[-1].startswith(b":")
    assert b"data" not in sent[-1]


@pytest.mark.req("Z02")
def test_a_withdrawn_credential_ends_its_stream_within_five_seconds():
    assert RECHECK_SECONDS + cache.SECONDS < 5


@pytest.mark.req("CHAT-05")
def test_the_heartbeat_comes_every_fifteen_seconds():
    assert stream_to(Counted(1)).ping_interval == 15
