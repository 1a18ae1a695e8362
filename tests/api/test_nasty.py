"""The list of nasty inputs: none ends in a fault, all are answered in the one shape."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from core.ids import new_id
from tests.api.conftest import Settled
from tests.api.test_routes import BODIES, QUERIES, filled, operations
from tests.support.app import Served

pytestmark = pytest.mark.req("OPS-13", "CHAT-12", "P13")

DEEP = 10_000

VALUES: dict[str, bytes] = {
    "NUL": b'"a\\u0000b"',
    "lone surrogate": b'"\\ud800"',
    "lone surrogate, other half": b'"\\udc00x"',
    "empty": b'""',
    "white space": b'" \\t\\n"',
    "10 MB": b'"' + b"x" * 10_000_000 + b'"',
    "control characters": b'"\\u0001\\u001b[31m\\u202e"',
    "null": b"null",
    "number": b"5",
    "negative": b"-1",
    "fraction": b"1.5",
    "NaN": b"NaN",
    "infinity": b"Infinity",
    "huge float": b"1e999",
    "huge int": b"9" * 400,
    "very huge int": b"9" * 10_000,
    "64 bits": b"9223372036854775807",
    "true": b"true",
    "list": b"[]",
    "list of lists": b"[[[]]]",
    "100k list": b"[" + b"1," * 99_999 + b"1]",
    "100k texts": b"[" + b'"a",' * 99_999 + b'"a"]',
    "object": b"{}",
    "odd object": b'{"__proto__": {"a": 1}, "$ne": null}',
    "depth": b"[" * DEEP + b"]" * DEEP,
    "object depth": b'{"a":' * DEEP + b"1" + b"}" * DEEP,
    "depth 60": b"[" * 60 + b"]" * 60,
    "sql": b'"\'; DROP TABLE users; --"',
    "html": b'"<script>alert(1)</script>"',
    "bad UTF-8": b'"\xff\xfe\x80"',
    "overlong UTF-8": b'"\xc0\x80"',
    "byte order mark": b'"\xef\xbb\xbf"',
    "format": b'"%s%n{0}${jndi:ldap://x}"',
}

WHOLE: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "application/json"),
    "no JSON": (b"{", "application/json"),
    "two values": (b"{}{}", "application/json"),
    "trailing comma": (b'{"a": 1,}', "application/json"),
    "single quotes": (b"{'a': 1}", "application/json"),
    "comment": (b"{} // hi", "application/json"),
    "UTF-16": ('{"text": "x"}'.encode("utf-16"), "application/json; charset=utf-16"),
    "byte order mark": (b'\xef\xbb\xbf{"text": "x"}', "application/json"),
    "list": (b"[]", "application/json"),
    "text": (b'"approved"', "application/json"),
    "null": (b"null", "application/json"),
    "number": (b"1", "application/json"),
    "depth": (b"[" * DEEP, "application/json"),
    "XML": (b"<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>", "application/xml"),
    "multipart without boundary": (b"--b--", "multipart/form-data"),
    "multipart cut": (b"--b\r\nContent-Disp", "multipart/form-data; boundary=b"),
    "multipart with odd boundary": (b"--b--", "multipart/form-data; boundary=" + "b" * 5_000),
    "multipart nested": (
        b"--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n--c--\r\n--b--",
        "multipart/form-data; boundary=b",
    ),
    "multipart charset": (
        b'--b\r\nContent-Disposition: form-data; name="message"\r\n\r\n\xff\xfe\r\n--b--',
        "multipart/form-data; boundary=b; charset=utf-16",
    ),
    "gzip": (b"\x1f\x8b\x08\x00", "application/gzip"),
    "no kind": (b"{}", ""),
    "kind is junk": (b"{}", ";;;=,"),
}


def check(response: httpx.Response, what: str) -> None:
    """Check that an answer is a success or a refusal in the one shape."""
    assert response.status_code < 500, (what, response.status_code, response.text[:300])
    if response.status_code >= 400:
        assert set(response.json()) == {"error"}, what
        assert len(response.content) < 10_000, what


def with_body(house: Served) -> list[tuple[str, str, dict[str, Any]]]:
    return [found for found in operations(house) if "requestBody" in found[2]]


def fields_of(house: Served, operation: dict[str, Any]) -> list[str]:
    """Return the fields of a body, from the description."""
    content = operation["requestBody"]["content"]
    ref = content["application/json"]["schema"]["$ref"].rpartition("/")[2]
    return list(house.product.app.openapi()["components"]["schemas"][ref]["properties"])


@pytest.mark.timeout(300)
@pytest.mark.parametrize("value", VALUES)
async def test_a_nasty_value_in_any_field_of_any_body(
    house: Served, settled: Settled, settler: httpx.AsyncClient, value: str
):
    ids = settled.ids
    for method, path, operation in with_body(house):
        good = BODIES[f"{method} {path}"]
        base = filled(good.get("json") or good.get("data"), ids)
        # Nothing may start: each run would only cost time.
        if path == "/api/chat":
            base["session_id"] = new_id()
        for field in fields_of(house, operation):
            others = json.dumps({k: v for k, v in base.items() if k != field})[1:-1]
            body = b'{"%s": %b%b}' % (
                field.encode(),
                VALUES[value],
                f", {others}".encode() if others else b"",
            )
            answer = await settler.request(
                method,
                filled(path, ids),
                content=body,
                headers={"Content-Type": "application/json"},
            )
            check(answer, f"{method} {path} {field}={value}")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("whole", WHOLE)
async def test_a_nasty_body_of_any_route(
    house: Served, settled: Settled, settler: httpx.AsyncClient, whole: str
):
    ids = settled.ids
    body, kind = WHOLE[whole]
    for method, path, _ in with_body(house):
        answer = await settler.request(
            method, filled(path, ids), content=body, headers={"Content-Type": kind}
        )
        check(answer, f"{method} {path} {whole}")
        assert answer.status_code >= 400, (method, path, answer.text)


@pytest.mark.timeout(300)
async def test_a_field_that_nobody_knows_is_refused_by_any_route(
    house: Served, settled: Settled, settler: httpx.AsyncClient
):
    ids = settled.ids
    before = (await settler.get("/api/keys")).json()
    for method, path, _ in with_body(house):
        good = BODIES[f"{method} {path}"]
        base = filled(good.get("json") or good.get("data"), ids)
        for name in (
            "id",
            "user_id",
            "workspace_id",
            "role",
            "secret_hash",
            "created_at",
            "x" * 9_000,
        ):
            answer = await settler.request(method, filled(path, ids), json=base | {name: "x"})
            check(answer, f"{method} {path} {name}")
            assert answer.status_code == 422, (method, path, name, answer.text[:200])
    after = (await settler.get("/api/keys")).json()
    assert len(after["items"]) == len(before["items"])


@pytest.mark.parametrize(
    "value",
    [
        "%00", "a%00b", "%FF%FE", "%ED%A0%80", "%", "%zz", "-1", "0", "1.5", "NaN", "9" * 400, "1e9",
        "", "%20", "null", "[]", "'", '"', "\\", "%25", "_", "a" * 3_000, "%F0%9F%97%BA", "../..",
        "%0D%0AX-Evil:%201",
    ],
)  # fmt: skip
async def test_a_nasty_value_in_any_query(
    house: Served, settled: Settled, settler: httpx.AsyncClient, value: str
):
    ids = settled.ids
    for method, path, operation in operations(house):
        if method != "GET" or path == "/login":
            continue
        needed = filled(QUERIES.get(f"{method} {path}", {}), ids)
        for parameter in operation.get("parameters", []):
            if parameter["in"] != "query":
                continue
            name = parameter["name"]
            others = "".join(f"&{k}={v}" for k, v in needed.items() if k != name)
            answer = await settler.get(f"{filled(path, ids)}?{name}={value}{others}")
            check(answer, f"{path} {name}={value}")
            assert "x-evil" not in answer.headers


@pytest.mark.parametrize(
    "path",
    ["/api/sessions", "/api/sessions/search?q=hello", "/api/chat/history/{session_id}"],
)
async def test_a_cursor_that_was_tampered_with_is_refused(
    settled: Settled, settler: httpx.AsyncClient, path: str
):
    ids = settled.ids
    at = filled(path, ids) + ("&" if "?" in path else "?")
    first = (await settler.get(f"{at}limit=1")).json()
    cursor = first["next_cursor"]
    assert cursor
    good = await settler.get(f"{at}limit=1&cursor={cursor}")
    assert good.status_code == 200
    assert good.json()["items"][0]["id"] != first["items"][0]["id"]
    swapped = cursor[:8] + ("A" if cursor[8] != "A" else "B") + cursor[9:]
    for tampered in (cursor[:-1], cursor[1:], cursor + "A", swapped, cursor[::-1], "A" * 40, "W10"):
        answer = await settler.get(f"{at}limit=1&cursor={tampered}")
        check(answer, tampered)
        assert answer.status_code == 400, tampered
    other = (await settler.get("/api/sessions?limit=1")).json()["next_cursor"]
    if path != "/api/sessions":
        assert (await settler.get(f"{at}cursor={other}")).status_code == 400


async def test_anothers_cursor_shows_only_ones_own(house: Served, settler: httpx.AsyncClient):
    cursor = (await settler.get("/api/sessions?limit=1")).json()["next_cursor"]
    async with house.client(await house.key_of("stranger-to-cursors")) as other:
        answer = await other.get("/api/sessions", params={"cursor": cursor})
    assert answer.status_code in (200, 400)
    assert answer.status_code == 400 or answer.json()["items"] == []
