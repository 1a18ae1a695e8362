"""What comes from outside is refused where it could not be kept as it was sent."""

import json
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.datastructures import Headers

from api import parsing
from core.errors import BadRequest, GraphwrightError, Invalid, RequestError, TooLarge

pytestmark = pytest.mark.req("CHAT-01", "CHAT-12", "OPS-13")


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"", BadRequest),
        (b"{", BadRequest),
        (b"nul", BadRequest),
        (b"NaN", BadRequest),
        (b"[Infinity]", BadRequest),
        (b'{"a": -Infinity}', BadRequest),
        (b'{"a": 1, "a": 2}', BadRequest),
        (b'{"b": {"a": 1, "a": 2}}', BadRequest),
        (b'"\xff\xfe"', BadRequest),
        (b'"\xed\xa0\x80"', BadRequest),
        (b"[" * 10_000 + b"]" * 10_000, BadRequest),
        (b"[" * 100 + b"]" * 100, BadRequest),
        (b"9" * 5_000, BadRequest),
        (b'"\\u0000"', Invalid),
        (b'{"\\u0000": 1}', Invalid),
        (b'"\\ud800"', Invalid),
        (b'{"a": ["\\udfff"]}', Invalid),
        (b"1e999", Invalid),
        (b"9" * 30, Invalid),
        (b"[" + b"1," * 500_000 + b"1]", TooLarge),
        (b"[" + b"1," * 250_000 + b"1]", TooLarge),
    ],
)
def test_json_that_cannot_be_kept_is_refused(body: bytes, error: type[GraphwrightError]):
    with pytest.raises(error):
        parsing.parse_json(body)


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63) + 1, 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00")),
    lambda inner: st.lists(inner) | st.dictionaries(st.text("abc"), inner),
    max_leaves=20,
)


@given(JSON_VALUES)
@settings(deadline=None, derandomize=True)
def test_everything_else_comes_through_unchanged(value: object):
    assert parsing.parse_json(json.dumps(value).encode()) == value


@given(st.binary(max_size=200))
@settings(deadline=None, derandomize=True)
def test_no_bytes_at_all_raise_anything_but_a_named_error(body: bytes):
    for parse in (parsing.parse_json, parsing.parse_urlencoded, parsing.check_query):
        with suppress(RequestError):
            parse(body)


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"message=%FF", BadRequest),
        (b"message=\xff", BadRequest),
        (b"message=%00", Invalid),
        (b"message=a&message=b", BadRequest),
        (b"&".join(b"f%d=1" % number for number in range(60)), BadRequest),
    ],
)
def test_plain_forms_that_would_be_misread_are_refused(body: bytes, error: type[GraphwrightError]):
    with pytest.raises(error):
        parsing.parse_urlencoded(body)


def test_a_plain_form_keeps_its_letters():
    form = parsing.parse_urlencoded("message=%E4%BD%A0好+x".encode())
    assert dict(form) == {"message": "你好 x"}


def multipart(*parts: bytes) -> bytes:
    return b"".join(b"--b\r\n" + part + b"\r\n" for part in parts) + b"--b--\r\n"


def field(name: bytes, value: bytes) -> bytes:
    return b'Content-Disposition: form-data; name="' + name + b'"\r\n\r\n' + value


async def parse_multipart(body: bytes):
    async def stream():
        yield body[: len(body) // 2]
        yield body[len(body) // 2 :]

    headers = Headers({"content-type": "multipart/form-data; boundary=b"})
    return await parsing.parse_multipart(headers, stream())


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (multipart(field(b"message", b"\xff")), BadRequest),
        (multipart(field(b"m\xff", b"x")), BadRequest),
        (multipart(field(b"message", b"\x00")), Invalid),
        (multipart(field(b"message", b"a"), field(b"message", b"b")), BadRequest),
        (multipart(field(b"message", b"x" * (parsing.FIELD_BYTES + 1))), TooLarge),
        (multipart(*(field(b"f%d" % number, b"x") for number in range(60))), BadRequest),
        (
            multipart(b'Content-Disposition: form-data; name="file"; filename="\xff"\r\n\r\nx'),
            BadRequest,
        ),
        (b"no boundary at all", BadRequest),
        (multipart(b"Content-Disposition: form-data\r\n\r\nx"), BadRequest),
    ],
)
async def test_multipart_forms_that_would_be_misread_are_refused(
    body: bytes, error: type[GraphwrightError]
):
    with pytest.raises(error):
        await parse_multipart(body)


async def test_a_multipart_form_keeps_letters_files_and_their_names():
    name = 'Content-Disposition: form-data; name="file"; filename="季度总结.docx"\r\n\r\n'.encode()
    form = await parse_multipart(
        multipart(field(b"message", "好".encode()), name + b"\x00\xff", name + b"2")
    )
    files = [(file.filename, await file.read()) for file in form.getlist("file")]
    await form.close()
    assert form["message"] == "好"
    assert files == [("季度总结.docx", b"\x00\xff"), ("季度总结.docx", b"2")]
