"""Which requirement is proven by which test can be read off the marks, and nothing is missing."""

import textwrap

import pytest

from scripts import check_requirements


def written(tmp_path, text: str) -> dict[str, list[str]]:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_a.py").write_text(textwrap.dedent(text))
    return check_requirements.marks(tmp_path / "tests")


@pytest.mark.req("OPS-01")
def test_every_needed_id_has_a_test_and_every_mark_is_a_known_id(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["check"])
    assert check_requirements.main() == 0, capsys.readouterr().out


def test_marks_of_functions_classes_and_modules_are_read(tmp_path):
    found = written(
        tmp_path,
        """
        import pytest
        pytestmark = [pytest.mark.req("A-1")]

        @pytest.mark.req("A-2", "A-3")
        async def test_one(): ...

        @pytest.mark.req("A-4")
        class TestGroup:
            @pytest.mark.req("A-5")
            def test_two(self): ...

        @pytest.mark.req("A-6")
        def no_test(): ...
        """,
    )
    assert found == {
        "A-1": ["tests/test_a.py::test_one", "tests/test_a.py::test_two"],
        "A-2": ["tests/test_a.py::test_one"],
        "A-3": ["tests/test_a.py::test_one"],
        "A-4": ["tests/test_a.py::test_two"],
        "A-5": ["tests/test_a.py::test_two"],
    }


def test_id_without_test_and_test_with_unknown_id_are_found():
    said = check_requirements.problems(["A-1", "A-2"], {"A-1", "A-2"}, {"A-1": ["t"], "B-9": ["u"]})
    assert said == [
        "A-2 has no test (ADR-0015)",
        "u names 'B-9', which tests/requirements.toml does not list (ADR-0015)",
    ]
