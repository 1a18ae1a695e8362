"""Front matter: what is sound is read, anything else is a fault with a cure, never a crash."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.skills import SkillFault
from tools.skills.matter import NAME, BrokenSkill, Manifest, check_name, read_manifest

pytestmark = pytest.mark.req("SKILL-01")


def written(*fields: str, body: str = "Do it.") -> bytes:
    return "\n".join(["---", *fields, "---", body]).encode()


def fault(content: bytes, folder: str = "a") -> str:
    with pytest.raises(BrokenSkill) as broken:
        read_manifest(content, folder)
    assert broken.value.fault.cure
    return broken.value.fault.cause


@pytest.mark.parametrize(
    ("content", "description", "body", "first_line"),
    [
        (written("name: a", "description: Says hi."), "Says hi.", "Do it.", 5),
        (written("name: a", "description: >", "  Two", "  lines."), "Two lines.", "Do it.", 7),
        (b"---\r\nname: a\r\ndescription: x\r\n---\r\nb\r\nc\r\n", "x", "b\nc", 5),
        (b"\xef\xbb\xbf" + written("name: a", "description: x"), "x", "Do it.", 5),
        ("---\nname: a\ndescription: 写报告\n---\n正文".encode("gb18030"), "写报告", "正文", 5),
        ("---\nname: a\ndescription: 写报告\n---\n正文".encode("utf-16"), "写报告", "正文", 5),
        (written("description: x", "name: 'a'", "license: MIT"), "x", "Do it.", 6),
        (written("name: a", "description: 2020-99-99"), "2020-99-99", "Do it.", 5),
        (written("name: a", "description: x", "metadata: {v: 1.0}"), "x", "Do it.", 6),
        (written("name: a", 'description: "a\\0b\\ud800\\u202ec"'), "a\ufffdb\ufffdc", "Do it.", 5),
        (b"---\nname: a\ndescription: x\n---", "x", "", 5),
    ],
)
def test_sound_front_matter_is_read(content, description, body, first_line):
    assert read_manifest(content, "a") == Manifest("a", description, body, first_line)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "no front matter"),
        (b"# Title\n---\nname: a\n---\n", "no front matter"),
        (b"---\nname: a\ndescription: x\n", "never ends"),
        (b"---\n" + b"x: y\n" * 2_000 + b"---\n", "more than 8,000"),
        (b"---\nname: a\ndescription: x\n---\n" + b"x" * 100_000, "more than 100,000 bytes"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "not a text file"),
        (written("name: b", "description: x"), "its folder is 'a'"),
        (written("name: A", "description: x"), "its folder is 'a'"),
        (written("description: x"), "no name"),
        (written("name: a"), "no description"),
        (written("name: a", "description:"), "description is empty"),
        (written("name: a", "description: '  '"), "description is empty"),
        (written("name: a", "description: " + "x" * 1_025), "more than 1,024"),
        (written("name: a", "description: [x]"), "not a text"),
        (written("name: [a]", "description: x"), "not a text"),
        (written("name: a", "description: see: this"), "not valid YAML"),
        (written("name: a", "description: x", "name: a"), "there twice"),
        (written("a: &b [x]", "c: *b"), "anchors are not allowed"),
        (written("a: *b"), "anchors are not allowed"),
        (written("a: " + "[" * 4_000), "too deeply nested"),
        (b"---\n" + b"- " * 3_000 + b"\n---\n", "too deeply nested"),
        (written("? [a, b]", ": c"), "no plain name"),
        (written("- name"), "holds no fields"),
        (written("name"), "holds no fields"),
        (written(), "holds no fields"),
        (written("name: a", "...", "name: b"), "not valid YAML"),
    ],
)
def test_faulty_front_matter_says_what_is_wrong(content, said):
    assert said in fault(content)


def test_tags_make_no_objects(tmp_path):
    made = tmp_path / "made"
    content = written("name: a", f"description: !!python/object/apply:os.mkdir [{made}]")
    assert "not a text" in fault(content)
    assert not made.exists()


@pytest.mark.parametrize(
    "name",
    ["", "-a", "a-", "a--b", "A", "a_b", "a b", "a.b", "..", "../a", "技能", "a\n", "a" * 65],
)
def test_names_outside_the_standard_are_refused(name):
    with pytest.raises(BrokenSkill):
        check_name(name)


def tried(content: bytes, folder: str) -> Manifest | SkillFault:
    try:
        return read_manifest(content, folder)
    except BrokenSkill as broken:
        return broken.fault


@given(st.binary(max_size=400))
def test_any_bytes_are_read_or_have_a_fault(content: bytes):
    found = tried(b"---\n" + content + b"\n---\nbody", "a")
    assert isinstance(found, Manifest) or (found.cause and found.cure)


_YAML = st.text("{}[]&*!|>'\"%@`#:-?,~ \n\tnameb0123.\\u", max_size=120)


@given(_YAML)
def test_any_yaml_is_read_or_has_a_fault(text: str):
    found = tried(f"---\nname: a\ndescription: x\n{text}\n---\nbody".encode(), "a")
    if isinstance(found, SkillFault):
        assert found.cause.encode()
    else:
        assert found.name == "a"
        assert found.description.startswith("x")


@given(st.from_regex(NAME, fullmatch=True), st.text(max_size=1_000))
def test_whatever_is_quoted_comes_back_on_one_line(name: str, text: str):
    plain = "".join(char for char in text if char.isprintable() and char not in '\\"')
    found = tried(written(f"name: {name}", f'description: "d {plain}"'), name)
    expected = " ".join(f"d {plain}".split())
    assert isinstance(found, Manifest)
    assert found.name == name
    assert found.description == expected
