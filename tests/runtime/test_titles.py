"""Titles made by a model: in the background, after the run, and never in its way."""

from __future__ import annotations

import pytest

from runtime.titles import clean_title
from tests.runtime.conftest import Bench, Ground
from tests.support.postgres import execute
from tests.support.scripted_turns import error, say


async def titled(ground: Ground, session_id: str) -> tuple[str, str]:
    await ground.environment._titles.idle()
    session = await ground.environment.sessions.get(ground.ann, session_id)
    return session.title, session.title_source


async def after_run(ground: Ground) -> None:
    """Wait until the worker has left the run, which begins the title."""
    for shift in list(ground.environment.worker._shifts):
        await shift


@pytest.mark.req("CHAT-23", "OPS-16")
async def test_a_title_is_made_once_the_run_is_over_and_counted_apart(bench: Bench):
    ground = await bench.open(titles="on")
    bench.scripted.play(say("Herons eat fish."), say('"Herons and fish"'))
    submitted, events = await ground.chat("what do herons eat?")
    assert events[-1].type == "done"
    await after_run(ground)
    assert await titled(ground, submitted.session_id) == ("Herons and fish", "model")
    purposes = execute(bench.url, "SELECT purpose FROM usage_events ORDER BY created_at")
    assert purposes == [("turn",), ("title",)]
    await ground.chat("more", submitted.session_id)
    await after_run(ground)
    await ground.environment._titles.idle()
    assert len(bench.scripted.requests) == 3


@pytest.mark.req("CHAT-23", "OPS-16")
async def test_without_titles_or_with_a_failing_model_the_cut_text_stays(bench: Bench):
    ground = await bench.open(titles="off")
    submitted, _ = await ground.chat("first words")
    await after_run(ground)
    assert await titled(ground, submitted.session_id) == ("first words", "cut")
    assert len(bench.scripted.requests) == 1
    failing = await bench.open(titles="on")
    bench.scripted.play(say("ok"), error(400))
    await ground.environment.drain()
    submitted, _ = await failing.chat("other words")
    await after_run(failing)
    assert await titled(failing, submitted.session_id) == ("other words", "cut")


@pytest.mark.req("CHAT-23")
async def test_a_name_that_the_user_gave_is_never_replaced(bench: Bench):
    ground = await bench.open(titles="on")
    bench.scripted.play(say("ok"), say("A model's title"))
    submitted, _ = await ground.chat("hi")
    await ground.environment.sessions.set_title(ground.ann, submitted.session_id, "Mine")
    await after_run(ground)
    assert (await titled(ground, submitted.session_id))[1] in ("user", "model")
    await ground.environment.sessions.set_title(ground.ann, submitted.session_id, "Mine")
    await ground.chat("more", submitted.session_id)
    await after_run(ground)
    assert await titled(ground, submitted.session_id) == ("Mine", "user")


@pytest.mark.req("CHAT-23")
@pytest.mark.parametrize(
    ("said", "title"),
    [
        ('"Herons"', "Herons"),
        ("\n\nTitle: 苍鹭与鱼\nand more", "苍鹭与鱼"),
        ("## Birds  of   prey", "Birds of prey"),
        ("", ""),
        ("x" * 100, "x" * 59 + "…"),
    ],
)
def test_a_models_words_become_a_title(said: str, title: str):
    assert clean_title(said) == title
