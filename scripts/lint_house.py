"""House rules that no ready-made linter knows. Each message names the decision behind it.

`python scripts/lint_house.py` checks the whole tree; `scripts/house_allow.toml` lists files and
functions that are larger than allowed. That list may only shrink: an entry that is too generous
is a finding too.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
ALLOW: Final = ROOT / "scripts" / "house_allow.toml"

ROOMS: Final = (
    "api", "client", "core", "extensions", "graphs", "identity", "nodes", "providers", "runtime",
    "sandbox", "scheduler", "server", "storage", "tools",
)  # fmt: skip
ALSO: Final = ("benchmarks", "scripts", "tests")

MAX_FILE: Final = 400
MAX_FUNCTION: Final = 50
BOUNDARY: Final = "# boundary:"

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is against a rule."""

    path: str
    line: int
    rule: str
    why: str
    adr: int

    def __str__(self) -> str:
        """Return the line that is printed."""
        return f"{self.path}:{self.line}: [{self.rule}] {self.why} (ADR-{self.adr:04})"


@dataclass(frozen=True, slots=True)
class Source:
    """One Python file."""

    path: str
    """Relative to the root, with forward slashes."""
    text: str
    nodes: tuple[ast.AST, ...]
    functions: tuple[tuple[str, Function], ...]

    @classmethod
    def parse(cls, path: str, text: str) -> Source:
        """Walk the tree once, for all rules."""
        tree = ast.parse(text, path)
        return cls(path, text, tuple(ast.walk(tree)), tuple(_functions(tree)))

    @property
    def room(self) -> str:
        """The folder at the top."""
        return self.path.partition("/")[0]

    def comment(self, line: int) -> str:
        """Return the text of a line together with the comment lines right above and below it."""
        lines = self.text.splitlines()
        first = end = line - 1
        while first > 0 and lines[first - 1].lstrip().startswith("#"):
            first -= 1
        while end + 1 < len(lines) and lines[end + 1].lstrip().startswith("#"):
            end += 1
        return "\n".join(lines[first : end + 1])


@dataclass(slots=True)
class Allowed:
    """Sizes above the limit that are tolerated for now, and which of them were needed."""

    files: Mapping[str, int]
    functions: Mapping[str, int]

    @classmethod
    def read(cls, path: Path = ALLOW) -> Allowed:
        """Read the list."""
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        return cls(data.get("files", {}), data.get("functions", {}))


# The rules --------------------------------------------------------------------------------


def sizes(source: Source, allowed: Allowed) -> Iterator[Finding]:
    """Files and functions stay small enough to be read at once."""
    found = _size(len(source.text.splitlines()), MAX_FILE, allowed.files.get(source.path))
    if found:
        yield Finding(source.path, 1, "long-file", found, 13)
    for name, function in source.functions:
        if source.path.startswith("storage/") and "/versions/" in source.path:
            continue  # a migration is one list of steps
        lines = (function.end_lineno or function.lineno) - function.lineno + 1
        found = _size(lines, MAX_FUNCTION, allowed.functions.get(f"{source.path}:{name}"))
        if found:
            yield Finding(source.path, function.lineno, "long-function", f"{name} {found}", 13)


def commits(source: Source) -> Iterator[Finding]:
    """Only storage ends transactions, so that a unit of work has one owner."""
    if source.room in ("storage", *ALSO):
        return
    for node in source.nodes:
        called = node.func if isinstance(node, ast.Call) else None
        if isinstance(called, ast.Attribute) and called.attr in ("commit", "rollback"):
            why = f".{called.attr}() outside storage; leave the unit of work instead"
            yield Finding(source.path, called.lineno, "commit-outside-storage", why, 14)


def blind_excepts(source: Source) -> Iterator[Finding]:
    """An error is caught by its class, or at a boundary that says why it is one.

    Cleaning up and raising again needs no reason.
    """
    if source.room == "tests":
        return
    for node in source.nodes:
        blind = (
            isinstance(node, ast.ExceptHandler)
            and _is_blind(node.type)
            and not isinstance(node.body[-1], ast.Raise)
        ) or (
            isinstance(node, ast.Call)
            and _dotted(node.func).endswith("suppress")
            and any(_is_blind(arg) for arg in node.args)
        )
        if blind and BOUNDARY not in source.comment(getattr(node, "lineno", 1)):
            why = f"catches everything; name the class, or write `{BOUNDARY} why` beside it"
            yield Finding(source.path, getattr(node, "lineno", 1), "blind-except", why, 9)


def environment(source: Source) -> Iterator[Finding]:
    """The environment is read in one place."""
    if source.path == "core/settings.py" or source.room == "benchmarks":
        return
    for node in source.nodes:
        names: list[str] = []
        if isinstance(node, ast.Attribute):
            names = [_dotted(node)]
        elif isinstance(node, ast.ImportFrom) and node.module == "os":
            names = [f"os.{alias.name}" for alias in node.names]
        if any(name in ("os.environ", "os.getenv", "os.putenv", "os.environb") for name in names):
            why = "reads the environment; take a setting from core/settings.py"
            yield Finding(source.path, getattr(node, "lineno", 1), "environment", why, 10)


def skipped_tests(source: Source) -> Iterator[Finding]:
    """A test runs or is deleted; a skipped one proves nothing and looks as if it did."""
    if source.room != "tests":
        return
    banned = ("skip", "skipif", "xfail", "importorskip", "skipTest")
    for node in source.nodes:
        if not isinstance(node, ast.Attribute) or node.attr not in banned:
            continue
        if _dotted(node).startswith(("pytest.", "unittest.", "self.")):
            why = f"{_dotted(node)}: tests are neither skipped nor expected to fail"
            yield Finding(source.path, node.lineno, "skipped-test", why, 15)


# Running them -----------------------------------------------------------------------------


def check(source: Source, allowed: Allowed) -> list[Finding]:
    """Return everything in one file that is against a rule."""
    findings = list(sizes(source, allowed))
    for rule in (commits, blind_excepts, environment, skipped_tests):
        findings += rule(source)
    return findings


def stale(sources: list[Source], allowed: Allowed) -> Iterator[Finding]:
    """An entry of the allow-list whose file or function is gone is taken out."""
    paths = {source.path for source in sources}
    names = {f"{source.path}:{name}" for source in sources for name, _ in source.functions}
    for entry in [*(set(allowed.files) - paths), *(set(allowed.functions) - names)]:
        why = f"{entry} is no longer there; take the entry out"
        yield Finding("scripts/house_allow.toml", 1, "allow-list", why, 13)


def read(path: Path, root: Path = ROOT) -> Source:
    """Parse one file."""
    return Source.parse(path.relative_to(root).as_posix(), path.read_text(encoding="utf-8"))


def files(root: Path = ROOT) -> list[Path]:
    """Return every Python file that the rules hold for."""
    found = [path for folder in (*ROOMS, *ALSO) for path in (root / folder).rglob("*.py")]
    own = own_extensions(root)
    kept = [path for path in found if own.isdisjoint(path.parents)]
    return sorted([*kept, root / "main.py"])


def own_extensions(root: Path = ROOT) -> set[Path]:
    """Return the folders in `extensions/` that whoever works here has put there for themselves.

    They are no part of the project: `.gitignore` names those that are.
    """
    room = root / "extensions"
    kept = (root / ".gitignore").read_text(encoding="utf-8").splitlines()
    folders = [place for place in room.iterdir() if place.is_dir()] if room.is_dir() else []
    return {place for place in folders if f"!/extensions/{place.name}/" not in kept}


def main() -> int:
    """Check the tree, print what is wrong, and return the exit code."""
    allowed = Allowed.read()
    sources = [read(path) for path in files()]
    findings = [finding for source in sources for finding in check(source, allowed)]
    findings += stale(sources, allowed)
    for finding in findings:
        print(finding)
    print(f"house: {len(sources)} files, {len(findings)} findings")
    return 1 if findings else 0


# Helpers ----------------------------------------------------------------------------------


def _size(lines: int, limit: int, allowed: int | None) -> str | None:
    """Say what is wrong with a size, if anything."""
    if allowed is None:
        return f"has {lines} lines, {limit} are allowed" if lines > limit else None
    if lines > allowed:
        return f"grew to {lines} lines; the list allows {allowed} and may only shrink"
    if lines <= limit:
        return "is small enough now; take it off scripts/house_allow.toml"
    return f"has {lines} lines now; lower its entry from {allowed}" if lines < allowed else None


def _functions(node: ast.AST, prefix: str = "") -> Iterator[tuple[str, Function]]:
    """Return every function with its dotted name."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{prefix}{child.name}"
            if not isinstance(child, ast.ClassDef):
                yield name, child
            yield from _functions(child, f"{name}.")
        else:
            yield from _functions(child, prefix)


def _is_blind(node: ast.expr | None) -> bool:
    if isinstance(node, ast.Tuple):
        return any(_is_blind(part) for part in node.elts)
    return node is None or (
        isinstance(node, ast.Name) and node.id in ("Exception", "BaseException")
    )


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "?"


if __name__ == "__main__":
    sys.exit(main())
