"""The documents say what the code does: errors, events, routes, settings, decisions, links."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

import api.app
from core import errors, events
from core.clock import FakeClock
from core.settings import Settings, setting_names
from tests.house.tree import ROOT, files

DOCS = ROOT / "docs"
API = (DOCS / "api.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    """Return the text of one section of the API's document."""
    return re.split(r"^## ", API.partition(f"\n## {title}\n")[2], flags=re.MULTILINE)[0]


def first_cells(text: str) -> list[str]:
    return re.findall(r"^\| `([^`]+)` \|", text, flags=re.MULTILINE)


def kinds(of: type[errors.GraphwrightError]) -> list[type[errors.GraphwrightError]]:
    found = [kind for kind in of.__subclasses__() if kind.__module__.startswith("core.")]
    return found + [deeper for kind in found for deeper in kinds(kind)]


@pytest.mark.req("CHAT-12")
def test_every_error_code_is_in_the_document_and_no_other():
    text = section("Errors")
    named = {*first_cells(text), *re.findall(r"`(tool_\w+)`", text.rpartition("|")[2])}
    assert named - {"tool_result"} == {kind.code for kind in kinds(errors.GraphwrightError)}


@pytest.mark.req("CHAT-12")
def test_statuses_in_the_document_are_those_of_the_classes():
    rows = dict(re.findall(r"^\| `(\w+)` \| (\d+) \|", section("Errors"), flags=re.MULTILINE))
    known = {kind.code: kind.status for kind in kinds(errors.GraphwrightError)}
    assert len(rows) > 15
    assert {code: int(status) for code, status in rows.items()} == {c: known[c] for c in rows}


@pytest.mark.req("CHAT-06")
def test_every_event_is_in_the_document_with_each_of_its_fields():
    rows = dict(re.findall(r"^\| `(\w+)` \| (.+) \|$", section("Events"), flags=re.MULTILINE))
    union = events.Event.__origin__.__args__
    assert set(rows) == {kind.model_fields["type"].default for kind in union}
    for kind in union:
        for name, field in kind.model_fields.items():
            if name != "type":
                shown = field.serialization_alias or name
                assert f"`{shown}`" in rows[kind.model_fields["type"].default]


@pytest.mark.req("CHAT-01", "OPS-15")
def test_every_route_is_in_the_document_with_its_permission():
    services = SimpleNamespace(
        settings=Settings(), clock=FakeClock(), static=ROOT / "static", version="0"
    )
    described = api.app.create_app(services).openapi()["paths"]
    routes = {
        f"{method.upper()} {path}": operation.get("x-permission", "–")
        for path, operations in described.items()
        for method, operation in operations.items()
    }
    rows = re.findall(r"^\| `([A-Z]+ [^`]+)` \| `?([^|`]+)`? \|", section("Routes"), re.MULTILINE)
    assert {route: permission.strip() for route, permission in rows} == routes


@pytest.mark.req("OPS-04")
def test_every_setting_that_a_document_names_exists():
    known = {name for names in setting_names().values() for name in names}
    found = {
        (path.name, name)
        for path in files(".md")
        for name in re.findall(r"\bGW_[A-Z_]+\b", path.read_text(encoding="utf-8"))
        if name not in known
    }
    assert found == set()


def test_every_decision_that_code_and_documents_name_is_written_down():
    written = {path.name[:4] for path in (DOCS / "adr").glob("[0-9]*.md")}
    named = {
        number
        for path in files(".py", ".md", ".toml", ".example", ".sh")
        for number in re.findall(r"ADR-(\d{4})", path.read_text(encoding="utf-8"))
    }
    assert named <= written


def test_decisions_are_numbered_without_gaps_and_listed():
    names = sorted(path.name for path in (DOCS / "adr").glob("[0-9]*.md"))
    assert [int(name[:4]) for name in names] == list(range(len(names)))
    index = (DOCS / "adr" / "README.md").read_text(encoding="utf-8")
    for name in names[1:]:
        assert f"({name})" in index, name


@pytest.mark.parametrize("path", files(".md"), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_between_documents_lead_somewhere(path: Path):
    for target in re.findall(r"\]\((?!https?:|mailto:)([^)#\s]+)", path.read_text("utf-8")):
        assert (path.parent / target).exists(), f"{target} is not there"


def test_the_page_of_the_architecture_is_one_page():
    assert len((ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").splitlines()) <= 150
