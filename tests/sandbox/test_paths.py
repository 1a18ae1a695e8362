"""Which virtual paths exist at all."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import PathRefused
from sandbox.names import numbered, upload_name
from sandbox.paths import parse

pytestmark = pytest.mark.req("WORK-02", "F01")

REFUSED = [
    "",
    "/",
    ".",
    "..",
    "./notes.md",
    "../x",
    "../../x",
    "..\\x",
    "a/../../x",
    "/workspace/../x",
    "/workspace/a/../../../etc/passwd",
    "/etc/x",
    "/etc/passwd",
    "//workspace/x",
    "/workspace//x",
    "/Workspace/x",
    "/workspaces/x",
    "/proc/self/environ",
    "%2e%2e%2fx",
    "%2E%2E/x",
    "a%00b",
    "x\x00.txt",
    "a\r\nX-Evil: 1.txt",
    "a\tb",
    "CON",
    "con.txt",
    "/workspace/nul",
    "LPT1.md",
    "com¹",
    "AUX .txt",
    "-rf",
    "/workspace/-rf",
    "C:\\x",
    "C:x",
    "c:/x",
    "x.",
    "x ",
    " x",
    "dir./x",
    "a\u202etxt.exe",
    "zero\u200bwidth",
    "\ufeffbom",
    "\ud800",
    "a\ufffe",
    "\uff0e\uff0e/x",
    "\u2025/x",
    "a\uff0fb",
    "a\u2028b",
    "x" * 256,
    "界" * 86,
    "/workspace/" + "d/" * 33 + "x",
    "/workspace/" + "/".join(["d" * 250] * 9),
    "x" * 5_000_000,
]


@pytest.mark.parametrize("path", REFUSED, ids=lambda path: ascii(path)[:40])
def test_a_path_that_could_mean_something_else_is_refused(path: str) -> None:
    with pytest.raises(PathRefused):
        parse(path)


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("notes.md", "/workspace/notes.md"),
        ("/workspace/notes.md", "/workspace/notes.md"),
        ("/workspace", "/workspace"),
        ("/workspace/", "/workspace"),
        ("a/b/c.txt", "/workspace/a/b/c.txt"),
        ("/conversation_history/x.md", "/conversation_history/x.md"),
        ("/workspace/.gitignore", "/workspace/.gitignore"),
        ("季度总结.docx", "/workspace/季度总结.docx"),
        ("map-🗺.csv", "/workspace/map-🗺.csv"),
        ('a"b.txt', '/workspace/a"b.txt'),
        ("100 %.txt", "/workspace/100 %.txt"),
        ("concept.md", "/workspace/concept.md"),
        ("nai\u0308ve.csv", "/workspace/na\u00efve.csv"),
        ("x" * 255, "/workspace/" + "x" * 255),
    ],
)
def test_a_plain_path_is_taken_in_its_one_form(path: str, place: str) -> None:
    assert str(parse(path)) == place


DEVICES = {"CON", "PRN", "AUX", "NUL", "CLOCK$", "CONIN$", "CONOUT$"}
DEVICES |= {f"{port}{digit}" for port in ("COM", "LPT") for digit in "0123456789¹²³"}


def slow_name(name: str) -> bool:
    """Say by other means than the product whether a name is allowed."""
    try:
        size = len(name.encode("utf-8"))
    except UnicodeEncodeError:
        return False
    plain = unicodedata.normalize("NFKC", name)
    stem = name.split(".", maxsplit=1)[0].rstrip().upper()
    lowered = name.lower()
    return (
        1 <= size <= 255
        and not any(unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp") for c in name)
        and not any(0xFDD0 <= ord(c) <= 0xFDEF or ord(c) % 0x10000 >= 0xFFFE for c in name)
        and "/" not in plain
        and "\\" not in plain
        and set(plain) - {".", " "} != set()
        and name == name.strip()
        and not name.endswith(".")
        and not name.startswith("-")
        and stem not in DEVICES
        and not (len(name) > 1 and name[1] == ":" and name[0].isascii() and name[0].isalpha())
        and not any(code in lowered for code in ("%2f", "%5c", "%00", "%2e%2e"))
    )


def slow_parse(path: str) -> str | None:
    """Return the place a path names, or nothing where it must be refused."""
    if path.startswith("/"):
        rest = path[1:]
    else:
        rest = "workspace/" + path
        if path == "":
            return None
    rest = rest.removesuffix("/")
    names = [unicodedata.normalize("NFC", name) for name in rest.split("/")]
    if not all(slow_name(name) for name in names):
        return None
    if not all(slow_name(name) for name in rest.split("/")):
        return None
    if names[0] not in ("workspace", "conversation_history") or len(names) > 33:
        return None
    found = "/" + "/".join(names)
    return found if len(found.encode()) <= 2048 and len(path) <= 2048 else None


PIECES = st.sampled_from(
    [
        "workspace",
        "conversation_history",
        "a",
        "b.md",
        "..",
        ".",
        "",
        "CON",
        "com1.x",
        "nul ",
        "%2e",
        *(
            "%2F",
            "-",
            "\u0308",
            "e",
            "\u200d",
            "\uff0e",
            "\uff0f",
            "\\",
            ":",
            "C",
            " ",
            "\x00",
            "界",
        ),
    ]
)
PATHS = st.one_of(
    st.text(max_size=40),
    st.lists(st.one_of(PIECES, st.just("/"), st.text(max_size=3)), max_size=12).map("".join),
)


@given(PATHS)
@settings(max_examples=600, deadline=None)
def test_the_parser_agrees_with_a_slow_reference(path: str) -> None:
    try:
        found = str(parse(path))
    except PathRefused:
        found = None
    assert found == slow_parse(path)


@given(PATHS)
@settings(max_examples=300, deadline=None)
def test_what_the_parser_gives_it_takes_again_unchanged(path: str) -> None:
    try:
        place = parse(path)
    except PathRefused:
        return
    assert parse(str(place)) == place
    assert all(part not in ("", ".", "..") and "/" not in part for part in place.parts)


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        (".bashrc", "bashrc"),
        ("-rf", "rf"),
        ("report.pdf. ", "report.pdf"),
        ("a\u202egpj.exe", "agpj.exe"),
        ("👨\u200d👩.png", "👨👩.png"),
        ("季度 总结.docx", "季度 总结.docx"),
        ("...", None),
        ("", None),
        (".", None),
        ("..", None),
        ("../../x", None),
        ("..\\x", None),
        ("/etc/x", None),
        ("a/../../x", None),
        ("%2e%2e%2fx", None),
        ("x\x00.txt", None),
        ("CON", None),
        ("a\r\nX-Evil: 1.txt", None),
        ("x" * 300, None),
    ],
)
def test_an_upload_gets_a_safe_name_or_none(name: str, safe: str | None) -> None:
    if safe is None:
        with pytest.raises(PathRefused):
            upload_name(name)
    else:
        assert upload_name(name) == safe


@given(st.text(max_size=300), st.integers(2, 9999))
@settings(max_examples=300, deadline=None)
def test_upload_names_and_their_numbered_twins_are_plain_names(name: str, number: int) -> None:
    try:
        safe = upload_name(name)
    except PathRefused:
        return
    for candidate in (safe, numbered(safe, number)):
        assert slow_name(candidate)
        assert not candidate.startswith(".")
