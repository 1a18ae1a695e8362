"""Ids are new, recognisable and in order."""

from core import ids


def test_new_ids_are_uuids_that_sort_by_time():
    made = [ids.new_id() for _ in range(50)]
    assert len(set(made)) == 50
    assert made == sorted(made)
    assert all(ids.is_uuid(one) for one in made)


def test_derived_id_depends_on_every_part_and_nothing_else():
    assert ids.derived_id("a", "b") == ids.derived_id("a", "b")
    assert len({ids.derived_id("a", "b"), ids.derived_id("ab"), ids.derived_id("b", "a")}) == 3


def test_text_that_is_no_uuid_in_its_usual_form_is_told():
    good = ids.new_id()
    assert not any(map(ids.is_uuid, ("", "x", good[:-1], f"{{{good}}}", good.replace("-", ""))))
