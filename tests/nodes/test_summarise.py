"""What a summary may take away, and how it is fed."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.tokens import estimate_text
from nodes.digest import pieces, todo_text, transcript
from nodes.summarise import oldest
from nodes.tokens import size_of_all
from nodes.view import build_view, group
from tests.nodes.histories import fault_of, histories


@pytest.mark.req("C01", "EXEC-10", "P10")
@settings(max_examples=300, deadline=None)
@given(histories(), st.integers(0, 8_000))
def test_whole_groups_go_and_never_one_that_waits(history, room):
    groups = group(history)
    sizes = [size_of_all(list(one.members())) for one in groups]
    removed = oldest(groups, sizes, room)
    assert not any(one.pending for one in removed)
    assert removed == groups[: len(removed)]
    assert len(removed) < len(groups) or not groups
    gone = {message.id for one in removed for message in one.members()}
    kept = [message for message in history if message.id not in gone]
    view = build_view(kept, "s", {"text": "Earlier.", "path": "p"} if removed else {})
    assert fault_of(view) is None
    assert len(gone) + len(kept) == len(history)


@pytest.mark.req("C01", "EXEC-10")
@settings(deadline=None)
@given(histories())
def test_what_stays_fits_unless_it_waits_or_is_the_last(history):
    groups = group(history)
    sizes = [size_of_all(list(one.members())) for one in groups]
    removed = oldest(groups, sizes, 500)
    kept = sizes[len(removed) :]
    waits = any(one.pending for one in groups[len(removed) : len(removed) + 1])
    assert sum(kept) <= 500 or len(kept) == 1 or waits


@pytest.mark.req("C03")
@settings(deadline=None)
@given(st.lists(st.text(max_size=400), max_size=30), st.integers(60, 300))
def test_pieces_hold_everything_in_order_and_none_is_too_large(entries, room):
    made = list(pieces(entries, room))
    assert "".join(made).replace("\n\n", "") == "".join(entries).replace("\n\n", "")
    assert all(estimate_text(piece) <= room * 1.5 + 10 for piece in made)


@pytest.mark.req("EXEC-11")
@settings(deadline=None)
@given(histories())
def test_the_archive_holds_every_text_that_is_removed(history):
    whole = "\n".join(transcript(group(history)))
    assert all(message.text in whole for message in history if message.text.strip())


def test_the_plan_is_written_with_marks():
    todos = [{"content": "a", "status": "completed"}, {"content": "b"}]
    assert todo_text(todos) == "- [x] a\n- [ ] b"
