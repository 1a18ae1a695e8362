"""What a run looks like in a terminal: text as it comes, one line for each call and result."""

from __future__ import annotations

import json
import sys
from typing import Any, Final, TextIO

_CONTROLS: Final = {code: None for code in (*range(32), *range(127, 160)) if code not in (9, 10)}
"""A model must not be able to move our cursor or change our colours."""
_DIM, _BOLD, _RED, _CYAN, _PLAIN = "\x1b[2m", "\x1b[1m", "\x1b[31m", "\x1b[36m", "\x1b[0m"
_MARKS: Final = {"completed": "[x]", "in_progress": "[>]", "pending": "[ ]"}
_WIDEST: Final = 200


class Screen:
    """Writes frames as text. Answers go to `out`, everything about them to `notes`."""

    def __init__(self, out: TextIO = sys.stdout, notes: TextIO = sys.stderr) -> None:
        self._out, self._notes = out, notes
        self._colours = notes.isatty()
        self._shared = out.isatty() and notes.isatty()
        self._open = ""
        """What the unfinished line on the screen is: `token`, `thinking_token` or nothing."""

    def show(self, frame: dict[str, Any]) -> None:
        """Show one frame; unknown types are passed over."""
        kind = frame["type"]
        if kind in ("token", "thinking_token"):
            self._stream(kind, clean(frame["content"]))
            return
        showing = getattr(self, f"_show_{kind}", None)
        if showing is not None:
            self.end_line()
            showing(frame)

    def note(self, text: str, colour: str = _DIM) -> None:
        """Say something that is not part of the answer."""
        self.end_line()
        shown = clean(text)
        line = f"{colour}{shown}{_PLAIN}" if self._colours else shown
        self._notes.write(f"{line}\n")
        self._notes.flush()

    def headline(self, text: str) -> None:
        """Say something that asks for attention."""
        self.note(text, _BOLD)

    def problem(self, text: str) -> None:
        """Say that something failed."""
        self.note(text, _RED)

    def end_line(self) -> None:
        """Begin a new line unless we are at the beginning of one."""
        if self._open == "token":
            self._out.write("\n")
            self._out.flush()
        elif self._open == "thinking_token":
            self._notes.write(f"{_PLAIN}\n" if self._colours else "\n")
            self._notes.flush()
        self._open = ""

    def _stream(self, kind: str, text: str) -> None:
        if self._open != kind:
            self.end_line()
            if kind == "thinking_token" and self._colours:
                self._notes.write(_DIM)
        self._open = kind
        stream = self._out if kind == "token" else self._notes
        stream.write(text)
        stream.flush()

    def _show_tool_call(self, frame: dict[str, Any]) -> None:
        self.note(f"> {frame['tool']} {compact(frame['args'])}", _CYAN)

    def _show_tool_result(self, frame: dict[str, Any]) -> None:
        if frame.get("error"):
            self.problem(f"! {frame['tool']}: {_cut(frame['error'])}")
        else:
            self.note(f"< {frame['tool']}: {_cut(frame['content'])} ({frame['duration_ms']} ms)")

    def _show_updated_todo_list(self, frame: dict[str, Any]) -> None:
        for todo in frame["todos"]:
            self.note(f"{_MARKS.get(todo['status'], '[ ]')} {todo['content']}")

    def _show_progress(self, frame: dict[str, Any]) -> None:
        fraction = frame.get("fraction")
        share = f" {fraction:.0%}" if fraction is not None else ""
        self.note(f". {frame['message']}{share}")

    def _show_message_reset(self, frame: dict[str, Any]) -> None:
        self.note(f"(the text above is written anew: {frame['reason']})")

    def _show_citations(self, frame: dict[str, Any]) -> None:
        for number, item in enumerate(frame["items"], 1):
            self.note(f"[{number}] {item.get('title', '')} {item.get('url') or ''}".rstrip())

    def _show_error(self, frame: dict[str, Any]) -> None:
        self.problem(f"{frame['message']} ({frame['code']})")

    def _show_done(self, frame: dict[str, Any]) -> None:
        usage = frame["usage"]
        if frame["status"] == "cancelled":
            self.note("(cancelled)")
        if self._shared:
            tokens = f"{usage['input_tokens']} + {usage['output_tokens']} tokens"
            self.note(f"({tokens}, {frame['duration_ms']} ms)")


def clean(text: str) -> str:
    """Return the text without control characters but tabs and line ends."""
    return text.translate(_CONTROLS)


def compact(value: Any) -> str:
    """Return a value as one short line of JSON."""
    return _cut(json.dumps(value, ensure_ascii=False))


def _cut(text: str) -> str:
    line = " ".join(str(text).split())
    return line if len(line) <= _WIDEST else f"{line[:_WIDEST]}…"
