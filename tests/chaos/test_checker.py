"""The checker finds what it is there to find: bad histories, one fault each."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from tests.chaos.checker import Sent, Stored, findings

EVENTS = [
    {"seq": 1, "type": "user_message"},
    {"seq": 2, "type": "token"},
    {"seq": 3, "type": "done"},
]


def sound() -> tuple[list[Sent], Stored, list[str]]:
    """Two messages of one session, each with its effect."""
    sent = [Sent(text, "s", f"run-{text}", [dict(one) for one in EVENTS]) for text in ("a1", "b2")]
    stored = Stored(
        runs={"run-a1": "success", "run-b2": "success"},
        events={"run-a1": EVENTS, "run-b2": EVENTS},
        messages={
            "s": [
                ("user", "a1"),
                ("assistant", "echo a1"),
                ("user", "b2"),
                ("assistant", "echo b2"),
            ]
        },
        running_jobs=0,
        owners_of_resting=0,
    )
    return sent, stored, ["a1", "b2"]


def test_a_sound_history_has_no_findings() -> None:
    assert findings(*sound()) == []


def test_a_text_that_begins_like_another_is_another() -> None:
    sent = [Sent(text, "s", f"run-{text}", [dict(one) for one in EVENTS]) for text in ("a1", "a10")]
    said = [("user", "a1"), ("assistant", "echo a1"), ("user", "a10"), ("assistant", "echo a10")]
    _, stored, _ = sound()
    runs = {one.run_id: "success" for one in sent}
    events = {one.run_id: EVENTS for one in sent}
    stored = dataclasses.replace(stored, runs=runs, events=events, messages={"s": said})
    assert findings(sent, stored, ["a1", "a10"]) == []


def test_an_effect_that_never_happened_or_was_let_happen_again_is_no_finding() -> None:
    sent, stored, _ = sound()
    sent[0].approved_again = 1
    assert findings(sent, stored, ["a1", "a1"]) == []


def without(mapping: Any, key: str) -> dict[str, Any]:
    return {name: value for name, value in mapping.items() if name != key}


Spoil = Callable[[list[Sent], Stored, list[str]], Stored | None]


def _messages(*said: tuple[str, str]) -> Spoil:
    return lambda sent, stored, effects: dataclasses.replace(stored, messages={"s": list(said)})


def _events(*numbers: int) -> Spoil:
    wrong = [{"seq": number, "type": "token"} for number in numbers]
    return lambda sent, stored, effects: dataclasses.replace(
        stored, events={**stored.events, "run-a1": wrong}
    )


@pytest.mark.req("P1", "P3", "P5", "P7", "P8")
@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda s, d, e: dataclasses.replace(d, runs=without(d.runs, "run-a1")), "P1: the accepted"),
        (lambda s, d, e: dataclasses.replace(d, runs={**d.runs, "x": "running"}), "P1: run x"),
        (_events(1, 3), "has the numbers [1, 3]"),
        (_events(1, 1, 2), "has the numbers [1, 1, 2]"),
        (lambda s, d, e: s[0].seen.pop(1) and None, "saw the numbers [1, 3]"),
        (lambda s, d, e: s[0].seen.pop() and None, "saw 2 of 3 events"),
        (lambda s, d, e: s[0].seen[1].update(type="citations"), "saw citations 2, which is not"),
        (
            _messages(("user", "a1"), ("assistant", "echo a1"), ("assistant", "echo b2")),
            "P5: session s has ['a1'], not ['a1', 'b2']",
        ),
        (
            _messages(
                ("user", "a1"), ("user", "a1"), ("assistant", "echo a1"),
                ("user", "b2"), ("assistant", "echo b2"),
            ),
            "P5",
        ),
        (
            _messages(
                ("user", "b2"), ("assistant", "echo b2"), ("user", "a1"), ("assistant", "echo a1")
            ),
            "P5",
        ),
        (
            _messages(("user", "a1"), ("assistant", "echo"), ("user", "b2"), ("assistant", "echo b2")),
            "P8: 'a1' was answered with []",
        ),
        (lambda s, d, e: e.append("a1"), "P3: the effect of 'a1' happened 2 times"),
        (lambda s, d, e: e.append("never sent"), "P3: the effect of 'never sent'"),
        (lambda s, d, e: dataclasses.replace(d, owners_of_resting=1), "leak: 1 rested runs"),
        (lambda s, d, e: dataclasses.replace(d, running_jobs=2), "leak: 2 tickets"),
    ],
)  # fmt: skip
def test_each_kind_of_fault_is_found(spoil: Spoil, told: str) -> None:
    sent, stored, effects = sound()
    spoiled = spoil(sent, stored, effects)
    found = findings(sent, spoiled if isinstance(spoiled, Stored) else stored, effects)
    assert any(told in one for one in found), found
