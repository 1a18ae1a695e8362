"""Tells reasoning in `<think>` tags from the answer, wherever the deltas are cut."""

from __future__ import annotations

from typing import Final

_OPEN: Final = ("<think>", "<thinking>")


class ThinkSplitter:
    """Splits a text that may begin with `<think>…</think>`.

    Only a tag at the very beginning counts: an answer that talks about the tag keeps it.
    """

    def __init__(self) -> None:
        self._held = ""
        self._close = ""
        self._thought = False
        self._state = "start"

    def feed(self, text: str) -> tuple[str, str]:
        """Take more text; return what of it is reasoning and what is answer."""
        if self._state == "answer":
            return "", text
        self._held += text
        thinking = ""
        if self._state == "start" and not self._begin():
            return "", self._answer() if self._state == "answer" else ""
        if self._state == "thinking":
            thinking = self._think()
        return thinking, self._answer() if self._state in ("after", "answer") else ""

    def close(self) -> tuple[str, str]:
        """Return what was held back when the text ended."""
        held, self._held = self._held, ""
        return (held, "") if self._state == "thinking" else ("", held)

    def _begin(self) -> bool:
        """Look for an opening tag; False as long as nothing but an answer may follow."""
        text = self._held.lstrip()
        for tag in _OPEN:
            if text.startswith(tag):
                self._state, self._close = "thinking", f"</{tag[1:]}"
                self._held = text[len(tag) :]
                return True
        if not any(tag.startswith(text) for tag in _OPEN):
            self._state = "answer"
        return False

    def _think(self) -> str:
        if not self._thought:
            self._held = self._held.lstrip("\n")
            self._thought = bool(self._held)
        before, closed, after = self._held.partition(self._close)
        if closed:
            self._state, self._held = "after", after
            return before
        keep = _overlap(self._held, self._close)
        thinking, self._held = self._held[: len(self._held) - keep], self._held[-keep or None :]
        if not keep:
            self._held = ""
        return thinking

    def _answer(self) -> str:
        """Give out what is held; blank lines between reasoning and answer belong to neither."""
        if self._state == "after":
            self._held = self._held.lstrip()
            if not self._held:
                return ""
            self._state = "answer"
        held, self._held = self._held, ""
        return held


def _overlap(text: str, tag: str) -> int:
    """Return how many characters at the end of the text may be the beginning of the tag."""
    for length in range(min(len(tag) - 1, len(text)), 0, -1):
        if text.endswith(tag[:length]):
            return length
    return 0
