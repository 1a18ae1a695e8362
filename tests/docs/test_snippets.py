"""Every snippet of the guides and of docs/extensions.md is what it claims to be, and works."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import tomllib
from pathlib import Path

import pytest

from core.settings import load_settings
from extensions.testing import load
from tests.house.tree import ROOT
from tests.support.extension_folders import forgotten
from tests.support.snippets import Example, blocks_of, examples_in

pytestmark = pytest.mark.req("EXT-12", "EXT-13")

GUIDES = sorted((ROOT / "docs" / "howto").glob("extension*.md"))
DOCUMENTS = [*GUIDES, ROOT / "docs" / "extensions.md"]
EXAMPLES = [
    pytest.param(example, id=f"{document.stem}-{example.section}-{number}")
    for document in DOCUMENTS
    for number, example in enumerate(examples_in(document))
]
LANGUAGES = {"python", "bash", "text", "json", "toml", "markdown", "env"}
"""What a test runs or reads; a block of another kind would only look as if it were checked."""

SETTINGS = {"WEATHER_URL": "http://127.0.0.1:9"}
"""What the examples want to be told, by any document."""


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_is_loaded_with_all_checks_of_a_start_and_its_tests_pass(
    example: Example, tmp_path: Path
) -> None:
    place = tmp_path / "shown_example"
    for file, code in {"__init__.py": "", **example.files}.items():
        (place / file).parent.mkdir(parents=True, exist_ok=True)
        (place / file).write_text(code, encoding="utf-8")
    with forgotten():
        assert load(place, settings=SETTINGS).names == ("core", "shown_example")
        for module in example.tests:
            run_tests(f"extensions.shown_example.{module}")


def run_tests(name: str) -> None:
    """Run the tests of a module as pytest would, without its help."""
    module = importlib.import_module(name)
    tests = [one for said, one in vars(module).items() if said.startswith("test_")]
    assert tests, f"{name} has no test"
    for test in tests:
        outcome = test()
        if inspect.iscoroutine(outcome):
            asyncio.run(outcome)


def test_the_guide_shows_every_kind_of_thing_and_tests_most_of_them() -> None:
    shown = examples_in(ROOT / "docs" / "howto" / "extension.md")
    assert len(shown) >= 7
    assert sum(bool(example.tests) for example in shown) >= 6
    code = "\n".join(text for example in shown for text in example.files.values())
    for door in ("agent", "service", "skills", "router", "subgraph", "tool"):
        assert f"registry.register_{door}(" in code


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_block_is_of_a_kind_that_is_run_or_read(document: Path) -> None:
    blocks = blocks_of(document)
    assert blocks
    for block in blocks:
        assert block.language in LANGUAGES, block
        match block.language:
            case "json":
                json.loads(block.code)
            case "toml":
                tomllib.loads(block.code)
            case "markdown":
                assert block.file, block
            case "env":
                given = dict(line.split("=", 1) for line in block.code.splitlines() if line)
                assert load_settings(None, given).warnings() == []
            case "bash" | "text":
                # tests/docs/test_howto.py runs these, and no others.
                assert document in GUIDES, block


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_a_block_that_is_a_whole_file_is_announced_by_its_name(document: Path) -> None:
    """The name behind the backticks is for the tests; readers do not see it.

    That a section begins with its `extension.py` is said once.
    """
    for block in blocks_of(document):
        if block.file not in ("", "extension.py"):
            said = block.before[-700:].rpartition("```")[2]
            assert f"`{block.file}`" in said, block.file


def test_translated_guides_show_nothing_that_the_english_one_does_not() -> None:
    english = ROOT / "docs" / "howto" / "extension.md"
    known = {(block.language, block.code) for block in blocks_of(english)}
    for document in GUIDES:
        if document.suffixes == [".zh-CN", ".md"]:
            for block in blocks_of(document):
                assert (block.language, block.code) in known, block.code
    assert {path.name for path in GUIDES} >= {"extension.md", "extension.zh-CN.md"}
