"""Clients that send one message after the other and note everything they see."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

import httpx

from tests.chaos.checker import Sent
from tests.support.waiting import pause

PATIENCE: Final = 90.0
"""Seconds that one message may take, from the first try to the end of its run."""

_ENDS: Final = ("done", "error")


class Stuck(AssertionError):
    """A message did not come to its end."""


class Talker:
    """One person with one session."""

    def __init__(self, name: str, urls: list[str], key: str, seed: int) -> None:
        self.name, self._urls = name, urls
        self._random = random.Random(seed)
        self._headers = {"Authorization": f"Bearer {key}"}
        self._session = ""
        self.sent: list[Sent] = []
        self.failure: BaseException | None = None
        self._thread: threading.Thread | None = None

    def start(self, until: float) -> None:
        """Begin to talk, up to that moment."""
        self._thread = threading.Thread(target=self._talk, args=(until,), name=self.name)
        self._thread.start()

    def join(self) -> None:
        """Wait for the last message's end."""
        assert self._thread is not None
        self._thread.join()

    def _talk(self, until: float) -> None:
        try:
            number = 0
            while time.monotonic() < until:
                number += 1
                self._say(Sent(f"{self.name}-{number}"))
        except BaseException as failure:  # told by the test
            self.failure = failure

    def _say(self, one: Sent) -> None:
        self.sent.append(one)
        limit = time.monotonic() + PATIENCE
        while True:
            if time.monotonic() > limit:
                last = one.seen[-1]["type"] if one.seen else "nothing"
                raise Stuck(f"{one.text} (run {one.run_id or 'unknown'}) ended with {last}")
            with suppress(httpx.HTTPError, ConnectionError):
                self._go_on(one)
                if one.seen and one.seen[-1]["type"] in _ENDS:
                    return
            pause(0.1)

    def _go_on(self, one: Sent) -> None:
        url = self._random.choice(self._urls)
        with httpx.Client(base_url=url, headers=self._headers, timeout=5, trust_env=False) as http:
            if not one.run_id:
                fields = {"message": one.text, "request_id": one.text, "agent": "marker"}
                if self._session:
                    fields["session_id"] = self._session
                self._read(one, http, "POST", "/api/chat", data=fields)
            elif one.seen and one.seen[-1]["type"] == "interrupt":
                self._answer(one, http)
            else:
                path = f"/api/runs/{one.run_id}/events"
                self._read(one, http, "GET", path, params={"after": str(len(one.seen))})

    def _answer(self, one: Sent, http: httpx.Client) -> None:
        asked = one.seen[-1]
        again = self._random.random() < 0.3
        kind = "approve" if again else "reject"
        decisions = [
            {"tool_call_id": call["tool_call_id"], "type": kind}
            for call in asked["tool_approval"]["calls"]
        ]
        # Counted before: the reply may be lost.
        one.approved_again += again
        body = {
            "session_id": asked["session_id"],
            "interrupt_token": asked["interrupt_token"],
            "decisions": decisions,
        }
        self._read(one, http, "POST", "/api/chat/resume", json=body)

    def _read(self, one: Sent, http: httpx.Client, method: str, path: str, **options: Any) -> None:
        with http.stream(method, path, **options) as answer:
            if answer.status_code == httpx.codes.OK:
                one.run_id = one.run_id or answer.headers["X-Run-Id"]
                one.session_id = self._session = answer.headers["X-Session-Id"]
                for frame in _frames(answer):
                    if frame["seq"] == len(one.seen) + 1:
                        one.seen.append(frame)
                    elif frame["seq"] > len(one.seen):
                        one.seen.append(frame)  # a gap: the checker will tell
                return
            error = json.loads(answer.read())["error"]
        if error["code"] == "duplicate_request":
            one.run_id = error["details"]["run_id"]
            one.session_id = self._session = error["details"]["session_id"]
        elif path.endswith("/resume") and answer.status_code == httpx.codes.CONFLICT:
            # Answered already: by this very client, whose reply was lost.
            get = f"/api/runs/{one.run_id}/events"
            self._read(one, http, "GET", get, params={"after": str(len(one.seen))})


def _frames(answer: httpx.Response) -> Iterator[dict[str, Any]]:
    for line in answer.iter_lines():
        if line.startswith("data: "):
            yield json.loads(line[6:])
