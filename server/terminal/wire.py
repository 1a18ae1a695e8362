"""The HTTP side of the terminal client: sends, follows, and attaches again after a break."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import httpx

from core.clock import Clock
from core.errors import Unavailable
from core.ids import new_id
from server.listen import is_loopback

_RECONNECTS: Final = 8
_LAST: Final = frozenset({"done", "error", "interrupt"})
"""Nothing follows an event of these types."""

Frame = dict[str, Any]


class Refused(Exception):
    """The server answered with an error; the text is its own sentence."""

    def __init__(self, status: int, error: Mapping[str, Any]) -> None:
        self.status = status
        self.code = str(error.get("code", ""))
        cure = (error.get("details") or {}).get("cure", "")
        super().__init__(f"{error.get('message', status)} {cure}".strip())


class Wire:
    """One connection to a server, with the key that opens it."""

    def __init__(self, url: str, key: str, clock: Clock) -> None:
        self._clock = clock
        self._http = httpx.AsyncClient(
            base_url=url,
            headers={"Authorization": f"Bearer {key}"},
            # A stream may be quiet for as long as a tool works; heartbeats come every 15 s.
            timeout=httpx.Timeout(60, connect=10),
            # A proxy cannot reach a server on our own loopback.
            trust_env=not is_loopback(urlsplit(url).hostname or ""),
        )

    async def close(self) -> None:
        """Hang up."""
        await self._http.aclose()

    def send(self, message: str, session_id: str | None, **fields: str) -> AsyncIterator[Frame]:
        """Send a message and give the frames of the run that answers it."""
        form = {"message": message, "request_id": new_id(), **fields}
        if session_id:
            form["session_id"] = session_id
        # As files, so that the form is multipart even without any upload.
        parts = {name: (None, value) for name, value in form.items()}
        return self._followed("POST", "/api/chat", files=parts)

    def resume(self, frame: Frame, answer: Mapping[str, Any]) -> AsyncIterator[Frame]:
        """Answer an `interrupt` frame and give the frames that follow."""
        body = {
            "session_id": frame["session_id"],
            "interrupt_token": frame["interrupt_token"],
            **answer,
        }
        return self._followed("POST", "/api/chat/resume", json=body)

    async def cancel(self, run_id: str) -> None:
        """Ask the server to stop a run."""
        await self._http.post(f"/api/runs/{run_id}/cancel")

    async def pending(self, session_id: str) -> Frame | None:
        """Return the question that the session waits on, if there is one."""
        answer = await self._http.get("/api/chat/interrupt", params={"session_id": session_id})
        if answer.status_code == httpx.codes.NO_CONTENT:
            return None
        _raise_for(answer)
        return {**answer.json(), "session_id": session_id}

    async def _followed(self, method: str, path: str, **request: Any) -> AsyncIterator[Frame]:
        """Give frames until the last one, attaching to the run again when the line breaks."""
        run_id, seq, tries = "", 0, 0
        while True:
            try:
                async for frame in self._frames(method, path, **request):
                    run_id, seq, tries = frame["run_id"], frame["seq"], 0
                    yield frame
                    if frame["type"] in _LAST:
                        return
            except httpx.TransportError as error:
                if not run_id and isinstance(error, httpx.ConnectError):
                    raise Unavailable(f"No server answers at {self._http.base_url}.") from error
                if not run_id:
                    raise Unavailable(f"The connection broke: {type(error).__name__}.") from error
            tries += 1
            if tries > _RECONNECTS or not run_id:
                raise Unavailable("The stream ended too early, and could not be attached again.")
            await self._clock.sleep(min(0.25 * 2**tries, 5))
            method, path = "GET", f"/api/runs/{run_id}/events"
            request = {"params": {"after": str(seq)}}

    async def _frames(self, method: str, path: str, **request: Any) -> AsyncIterator[Frame]:
        async with self._http.stream(method, path, **request) as answer:
            if answer.status_code != httpx.codes.OK:
                await answer.aread()
                _raise_for(answer)
            async for line in answer.aiter_lines():
                if line.startswith("data:"):
                    yield json.loads(line[5:])


def _raise_for(answer: httpx.Response) -> None:
    if answer.is_success:
        return
    try:
        error = answer.json()["error"]
    except (ValueError, KeyError, TypeError):
        error = {"message": f"The server answers with status {answer.status_code}."}
    raise Refused(answer.status_code, error)
