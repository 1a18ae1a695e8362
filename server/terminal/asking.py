"""Asks the person at the terminal what a waiting run wants to know."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Awaitable, Callable
from typing import Any, Final

from server.terminal.screen import Screen

Read = Callable[[str], Awaitable[str]]
"""Shows a prompt and returns one line; raises `EOFError` where nobody is there."""

_LETTERS: Final = {
    "a": "approve",
    "e": "edit",
    "r": "reject",
    "s": "respond",
    "l": "always",
}


async def read_line(prompt: str) -> str:
    """Read a line from the terminal without holding up the event loop.

    Raises:
        EOFError: the input has ended.
    """
    loop = asyncio.get_running_loop()
    line: asyncio.Future[str] = loop.create_future()

    def settle(text: str, error: EOFError | None) -> None:
        if not line.done():
            line.set_exception(error) if error else line.set_result(text)

    def work() -> None:
        text, error = "", None
        try:
            text = input(prompt)
        except EOFError as ended:
            error = ended
        with contextlib.suppress(RuntimeError):  # the loop is gone: nobody waits any more
            loop.call_soon_threadsafe(settle, text, error)

    # Not `to_thread`: its threads are waited for at the end, and this one may wait for a key
    # that nobody presses.
    threading.Thread(target=work, daemon=True).start()
    return (await line).strip()


async def answer_to(frame: dict[str, Any], screen: Screen, read: Read) -> dict[str, Any]:
    """Return the answer to an `interrupt` frame in the form that the API takes."""
    screen.headline(frame["message"])
    if card := frame.get("tool_approval"):
        return {"decisions": [await _decision(call, screen, read) for call in card["calls"]]}
    if card := frame.get("ask_user"):
        return {"answers": [await _reply(item, screen, read) for item in card["questions"]]}
    return await _plan(frame["plan_approval"], screen, read)


async def _decision(call: dict[str, Any], screen: Screen, read: Read) -> dict[str, Any]:
    screen.headline(f"  {call['tool']}")
    screen.note(json.dumps(call["args"], ensure_ascii=False, indent=2))
    if call.get("reason"):
        screen.note(f"  why it is asked: {call['reason']} (effect: {call['side_effect']})")
    allowed = [word for word in _LETTERS.values() if word in call["allowed_decisions"]]
    if "approve" in allowed:
        allowed.append("always")
    kind = await _choice(_menu(allowed), allowed, screen, read)
    if kind == "always":
        return {"tool_call_id": call["tool_call_id"], "type": "approve", "always": "session"}
    decision: dict[str, Any] = {"tool_call_id": call["tool_call_id"], "type": kind}
    if kind == "edit":
        decision["args"] = await _object("  new arguments as JSON: ", screen, read)
    elif kind == "reject":
        if reason := await read("  reason (may be empty): "):
            decision["message"] = reason
    elif kind == "respond":
        decision["message"] = await _words("  what the model is told instead: ", read)
    return decision


async def _reply(question: dict[str, Any], screen: Screen, read: Read) -> Any:
    screen.headline(f"  {question['question']}")
    options = question.get("options") or []
    for number, option in enumerate(options, 1):
        screen.note(f"  {number}. {option}")
    if question["kind"] == "text" or not options:
        return await _words("  answer: ", read)
    several = question["kind"] == "multiple"
    prompt = "  numbers, separated by commas: " if several else "  number: "
    while True:
        chosen = _chosen(await read(prompt), options)
        if chosen and (several or len(chosen) == 1):
            return chosen if several else chosen[0]
        screen.problem(f"  Write {'numbers' if several else 'a number'} from 1 to {len(options)}.")


async def _plan(card: dict[str, Any], screen: Screen, read: Read) -> dict[str, Any]:
    screen.note(card["plan"])
    allowed = ["approve", "edit", "reject"]
    kind = await _choice(_menu(allowed), allowed, screen, read)
    if kind == "edit":
        return {"type": "edit", "plan": await _words("  the plan as it should be: ", read)}
    if kind == "reject":
        reason = await read("  what should be different (may be empty): ")
        return {"type": "reject", **({"message": reason} if reason else {})}
    return {"type": "approve"}


def _menu(allowed: list[str]) -> str:
    letters = {word: letter for letter, word in _LETTERS.items()}
    shown = {"always": "always in this session"}
    return "  " + ", ".join(f"{letters[word]} = {shown.get(word, word)}" for word in allowed) + ": "


async def _choice(prompt: str, allowed: list[str], screen: Screen, read: Read) -> str:
    while True:
        typed = (await read(prompt)).lower()
        word = _LETTERS.get(typed, typed)
        if word in allowed:
            return word
        screen.problem("  That is none of them.")


async def _object(prompt: str, screen: Screen, read: Read) -> dict[str, Any]:
    while True:
        try:
            value = json.loads(await read(prompt))
        except ValueError as error:
            screen.problem(f"  This is no JSON: {error}")
            continue
        if isinstance(value, dict):
            return value
        screen.problem("  It must be an object: {…}")


async def _words(prompt: str, read: Read) -> str:
    while not (text := await read(prompt)):
        pass
    return text


def _chosen(typed: str, options: list[str]) -> list[str]:
    numbers = [part.strip() for part in typed.split(",") if part.strip()]
    valid = all(part.isdigit() and 1 <= int(part) <= len(options) for part in numbers)
    return [options[int(part) - 1] for part in numbers] if valid else []
