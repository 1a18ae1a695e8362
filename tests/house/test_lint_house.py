"""The house lint finds what it is for, and the tree passes it."""

import pytest

from scripts import lint_house
from scripts.lint_house import Allowed, Source

NOTHING = Allowed({}, {})


def check(path: str, text: str, allowed: Allowed = NOTHING) -> list[str]:
    found = lint_house.check(Source.parse(path, text), allowed)
    return [finding.rule for finding in found]


def test_the_whole_tree_passes(capsys):
    assert lint_house.main() == 0, capsys.readouterr().out


@pytest.mark.parametrize(
    ("path", "text", "rule"),
    [
        ("runtime/a.py", "x = 1\n" * 401, "long-file"),
        ("runtime/a.py", "def f():\n" + "    x = 1\n" * 50, "long-function"),
        ("tests/a.py", "class A:\n    def f(self):\n" + "        x = 1\n" * 50, "long-function"),
        ("runtime/a.py", "async def f(c):\n    await c.commit()", "commit-outside-storage"),
        ("api/a.py", "def f(c):\n    c.db.rollback()", "commit-outside-storage"),
        ("api/a.py", "try:\n    f()\nexcept Exception:\n    pass", "blind-except"),
        ("api/a.py", "try:\n    f()\nexcept (OSError, BaseException):\n    pass", "blind-except"),
        ("api/a.py", "try:\n    f()\nexcept:\n    pass", "blind-except"),
        ("api/a.py", "with contextlib.suppress(Exception):\n    f()", "blind-except"),
        ("api/a.py", "import os\nx = os.environ['A']", "environment"),
        ("tests/a.py", "import os\nx = os.getenv('A')", "environment"),
        ("api/a.py", "from os import environ", "environment"),
        ("tests/a.py", "@pytest.mark.skipif(True)\ndef test_a(): ...", "skipped-test"),
        ("tests/a.py", "def test_a():\n    pytest.skip('later')", "skipped-test"),
        ("tests/a.py", "@pytest.mark.xfail\ndef test_a(): ...", "skipped-test"),
    ],
)
def test_what_is_against_a_rule_is_found(path, text, rule):
    assert check(path, text) == [rule]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("storage/work.py", "async def f(c):\n    await c.commit()"),
        (
            "api/a.py",
            "try:\n    f()\nexcept Exception:  # boundary: a line must not be lost\n    pass",
        ),
        ("api/a.py", "try:\n    f()\n# boundary: it may be anything\nexcept Exception:\n    pass"),
        ("api/a.py", "try:\n    f()\nexcept BaseException:\n    clean()\n    raise"),
        ("api/a.py", "try:\n    f()\nexcept OSError:\n    pass"),
        ("core/settings.py", "import os\nx = os.environ['A']"),
        ("runtime/a.py", "def f():\n" + "    x = 1\n" * 49),
        ("storage/migrations/versions/a.py", "def upgrade():\n" + "    x = 1\n" * 80),
        ("tests/a.py", "def test_a(log):\n    log.skip()"),
    ],
)
def test_what_follows_the_rules_is_left_alone(path, text):
    assert check(path, text) == []


@pytest.mark.parametrize(
    ("lines", "entry", "rules"),
    [
        (410, 410, []),
        (411, 410, ["long-file"]),
        (405, 410, ["long-file"]),
        (400, 410, ["long-file"]),
    ],
)
def test_allow_list_may_only_shrink(lines, entry, rules):
    assert check("runtime/a.py", "x = 1\n" * lines, Allowed({"runtime/a.py": entry}, {})) == rules


def test_entry_of_the_allow_list_for_what_is_gone_is_found():
    source = Source.parse("runtime/a.py", "")
    allowed = Allowed({"runtime/b.py": 500}, {"runtime/a.py:f": 60})
    assert len(list(lint_house.stale([source], allowed))) == 2


def test_each_finding_names_place_rule_and_decision():
    (finding,) = lint_house.check(Source.parse("api/a.py", "from os import getenv"), NOTHING)
    assert str(finding).startswith("api/a.py:1: [environment] ")
    assert str(finding).endswith("(ADR-0010)")
