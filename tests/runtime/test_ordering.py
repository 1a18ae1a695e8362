"""Names come after those they need, and circles are named."""

from __future__ import annotations

import pytest

from runtime.ordering import arranged

pytestmark = pytest.mark.req("EXT-05", "EXT-06")


def test_names_come_after_what_they_need_and_otherwise_by_the_alphabet():
    assert arranged({"a": ["z"], "b": [], "z": ["b"], "c": ["unknown"]}) == (
        ["b", "c", "z", "a"],
        [],
    )


def test_each_circle_is_named_once_from_its_first_name_on():
    needs = {"a": ["b"], "b": ["c"], "c": ["a"], "s": ["s"], "after": ["a"], "free": []}
    order, circles = arranged(needs)
    assert order == ["free"]
    assert sorted(circles) == [["a", "b", "c", "a"], ["s", "s"]]
