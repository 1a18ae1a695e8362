"""The reducer of messages: deterministic, and blind to batches."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage

from nodes.messages import REMOVE_ALL, reduce_messages

_ids = st.sampled_from(["a", "b", "c", "d", "e"])
_numbers = st.integers(0, 99).map(str)
_one = st.one_of(
    st.builds(lambda i, n: HumanMessage(n, id=i), _ids, _numbers),
    st.builds(lambda i, n: AIMessage(n, id=i), _ids, _numbers),
    st.builds(lambda i: RemoveMessage(id=i), _ids),
    st.just(RemoveMessage(id=REMOVE_ALL)),
)
_write = st.one_of(_one, st.lists(_one, max_size=4))
_writes = st.lists(_write, max_size=8)


@pytest.mark.req("EXEC-02")
@given(_writes, _writes, _writes)
def test_batches_make_no_difference(start, xs, ys):
    state = reduce_messages([], start)
    once = reduce_messages(state, [*xs, *ys])
    assert reduce_messages(reduce_messages(state, xs), ys) == once
    assert [m.id for m in once] == list(dict.fromkeys(m.id for m in once))


@given(_writes, _writes)
def test_the_given_state_is_left_as_it_was(start, writes):
    state = reduce_messages([], start)
    before = list(state)
    reduce_messages(state, writes)
    assert state == before


def test_a_known_id_takes_the_place_of_the_older_message():
    state = reduce_messages([], [[HumanMessage("1", id="a"), AIMessage("2", id="b")]])
    changed = reduce_messages(state, [HumanMessage("3", id="a")])
    assert [m.text for m in changed] == ["3", "2"]


def test_removing_all_keeps_what_comes_after():
    state = [HumanMessage("1", id="a")]
    kept = reduce_messages(state, [[RemoveMessage(id=REMOVE_ALL), AIMessage("2", id="b")]])
    assert [m.id for m in kept] == ["b"]


def test_removing_an_unknown_id_changes_nothing():
    state = [HumanMessage("1", id="a")]
    assert reduce_messages(state, [RemoveMessage(id="z")]) == state


def test_a_message_without_id_gets_the_same_one_in_every_batching():
    def make() -> list[HumanMessage]:
        return [HumanMessage("1"), HumanMessage("1"), HumanMessage("2", id="unstamped-2")]

    together = reduce_messages([], make())
    apart: list = []
    for message in make():
        apart = reduce_messages(apart, [message])
    assert [m.id for m in together] == [m.id for m in apart]
    assert len(together) == 3


@pytest.mark.req("EXEC-02")
def test_ten_thousand_messages_cost_a_bounded_amount_of_work():
    state = [HumanMessage(str(n), id=str(n)) for n in range(10_000)]
    writes = [AIMessage("new", id=str(n)) for n in range(0, 20_000, 2)]
    steps = 0

    def count(_frame, _event, _arg):
        nonlocal steps
        steps += 1

    sys.setprofile(count)
    try:
        result = reduce_messages(state, writes)
    finally:
        sys.setprofile(None)
    assert len(result) == 15_000
    # A search through the list for each message would be 10,000 times as much.
    assert steps < 40 * (len(state) + len(writes))
