"""Every requirement has a test, and every id that a test names is a requirement.

Reads the marks from the source of `tests/` (nothing is imported or run) and compares them with
`tests/requirements.toml`.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
LIST: Final = ROOT / "tests" / "requirements.toml"
ADR: Final = "(ADR-0015)"


def listed(path: Path = LIST) -> tuple[list[str], set[str]]:
    """Return the ids that need a test, and all that may be named."""
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    needed = [name for group in data["needed"].values() for name in group]
    known = [name for group in data["known"].values() for name in group]
    return needed, {*needed, *known}


def marks(tests: Path = ROOT / "tests") -> dict[str, list[str]]:
    """Return for each id the tests that name it, as `path::test`."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for path in sorted(tests.rglob("test_*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
        for test, names in _marked(tree):
            for name in names:
                found[name].append(f"{path.relative_to(tests.parent).as_posix()}::{test}")
    return dict(found)


def problems(needed: list[str], known: set[str], found: dict[str, list[str]]) -> list[str]:
    """Return one sentence for each id without a test and for each unknown id."""
    missing = [f"{name} has no test {ADR}" for name in needed if name not in found]
    unknown = [
        f"{tests[0]} names {name!r}, which tests/requirements.toml does not list {ADR}"
        for name, tests in sorted(found.items())
        if name not in known
    ]
    return missing + unknown


def main() -> int:
    """Print what is wrong and return the exit code. `--list` shows the tests of each id."""
    needed, known = listed()
    found = marks()
    if "--list" in sys.argv:
        for name in sorted(found):
            print(name, *found[name], sep="\n  ")
    wrong = problems(needed, known, found)
    for line in wrong:
        print(line)
    covered = sum(name in found for name in needed)
    print(f"requirements: {covered} of {len(needed)} have a test, {len(wrong)} problems")
    return 1 if wrong else 0


# Helpers ----------------------------------------------------------------------------------


def _marked(tree: ast.Module) -> Iterator[tuple[str, set[str]]]:
    """Return every test with the ids of its own marks, its class's and its module's."""
    module = _ids(
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and _is_named(node.targets[0], "pytestmark")
    )
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            shared = module | _ids(node.decorator_list)
            for inner in node.body:
                yield from _test(inner, shared)
        yield from _test(node, module)


def _test(node: ast.stmt, shared: set[str]) -> Iterator[tuple[str, set[str]]]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test"):
        yield node.name, shared | _ids(node.decorator_list)


def _ids(nodes: Iterator[ast.expr] | list[ast.expr]) -> set[str]:
    """Return the texts given to `pytest.mark.req(...)` anywhere inside."""
    return {
        str(arg.value)
        for node in nodes
        for call in ast.walk(node)
        if isinstance(call, ast.Call) and _is_req(call.func)
        for arg in call.args
        if isinstance(arg, ast.Constant)
    }


def _is_req(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "req"


def _is_named(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


if __name__ == "__main__":
    sys.exit(main())
