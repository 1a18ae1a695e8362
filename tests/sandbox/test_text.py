"""Texts keep their encoding (WORK-05)."""

from __future__ import annotations

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import FileRefused
from sandbox.text import decode, encode

pytestmark = pytest.mark.req("WORK-05")

TEXT = "季度总结: naïve\r\nline two\n"


@pytest.mark.parametrize(
    "content",
    [
        TEXT.encode(),
        codecs.BOM_UTF8 + TEXT.encode(),
        TEXT.encode("utf-16"),
        codecs.BOM_UTF16_BE + TEXT.encode("utf-16-be"),
        TEXT.encode("utf-16-le"),
        TEXT.encode("utf-16-be"),
        TEXT.encode("utf-32"),
        "季度总结\n".encode("gbk"),
        b"",
        b"plain",
    ],
)
def test_a_text_is_read_right_and_written_back_byte_by_byte(content: bytes) -> None:
    text, encoding = decode(content)
    assert text in (TEXT, "季度总结\n", "", "plain")
    assert encode(text, encoding) == content


@pytest.mark.parametrize(
    "content",
    [b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\1\0", bytes(range(256)), b"\xff\xfe\0", b"\0" * 64],
)
def test_what_is_not_text_is_refused(content: bytes) -> None:
    with pytest.raises(FileRefused):
        decode(content)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_and_restored_or_refused(content: bytes) -> None:
    try:
        text, encoding = decode(content)
    except FileRefused:
        return
    assert encode(text, encoding) == content


def test_a_text_its_encoding_cannot_hold_becomes_utf8() -> None:
    _, encoding = decode("naïve".encode("utf-16"))
    assert encode("plain 🗺", encoding).decode("utf-16") == "plain 🗺"
    with pytest.raises(FileRefused):
        encode("\ud800")
