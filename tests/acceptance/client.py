"""A plain HTTP client of a server process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx

from tests.support.process import ServerProcess, command

Frame = dict[str, Any]


class Client:
    """Speaks to one server with one key."""

    def __init__(self, url: str, key: str) -> None:
        self.http = httpx.Client(
            base_url=url,
            headers={"Authorization": f"Bearer {key}"},
            timeout=30,
            trust_env=False,
        )

    def chat(self, message: str, **fields: str) -> list[Frame]:
        """Send a message and return all frames of its stream."""
        return list(self.stream("POST", "/api/chat", data={"message": message, **fields}))

    def resume(self, frame: Frame, **answer: Any) -> list[Frame]:
        """Answer an interrupt and return all frames of its stream."""
        body = {
            "session_id": frame["session_id"],
            "interrupt_token": frame["interrupt_token"],
            **answer,
        }
        return list(self.stream("POST", "/api/chat/resume", json=body))

    def stream(self, method: str, path: str, **options: Any) -> Iterator[Frame]:
        """Give frames as they come; checks their numbers and SSE ids."""
        with self.http.stream(method, path, **options) as answer:
            if answer.status_code != 200:
                answer.read()
                raise AssertionError(f"{answer.status_code}: {answer.text}")
            identifier = ""
            for line in answer.iter_lines():
                if line.startswith("id: "):
                    identifier = line[4:]
                elif line.startswith("data: "):
                    frame = json.loads(line[6:])
                    assert identifier == f"{frame['run_id']}:{frame['seq']}"
                    yield frame

    def get(self, path: str, **params: str) -> Any:
        """Return the JSON of an address."""
        answer = self.http.get(path, params=params)
        assert answer.status_code == 200, f"{answer.status_code}: {answer.text}"
        return answer.json()

    def history(self, session_id: str) -> list[dict[str, Any]]:
        """Return the visible messages, oldest first."""
        return self.get(f"/api/chat/history/{session_id}")["items"]

    def run_status(self, session_id: str) -> str:
        """Return the status of the newest run."""
        return self.get(f"/api/sessions/{session_id}/runs")["items"][0]["status"]

    def close(self) -> None:
        """Hang up."""
        self.http.close()


def new_key(started: ServerProcess, name: str = "test") -> str:
    """Make a key by command while the server runs."""
    made = command("key", "create", "--name", name, "--data-dir", str(started.data_dir))
    assert made.returncode == 0, made.stderr
    return made.stdout.strip()


def text_of(frames: list[Frame]) -> str:
    """Return the answer's text."""
    return "".join(frame["content"] for frame in frames if frame["type"] == "token")


def types_of(frames: list[Frame]) -> list[str]:
    """Return the kinds of the frames."""
    return [frame["type"] for frame in frames]


def parts_of(messages: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    """Return all parts of one kind, in order."""
    return [part for message in messages for part in message["parts"] if part["type"] == kind]
