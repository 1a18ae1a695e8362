"""What surrounds every request: trace id, headers, host, size, unknown addresses, error shape."""

import json
import socket
from urllib.parse import urlsplit

import pytest

from tests.api.conftest import Guest
from tests.support.app import Served


def assert_error(response, status: int, code: str) -> dict:
    """Check that an answer is in the one shape of errors."""
    assert (response.status_code, response.headers["content-type"]) == (status, "application/json")
    body = response.json()
    assert set(body) == {"error"}
    assert {"code", "message", "details"} <= set(body["error"])
    assert body["error"]["code"] == code
    assert body["error"]["message"]
    return body["error"]


@pytest.mark.req("OPS-07")
@pytest.mark.parametrize("given", ["a", "trace-1.2:3_x", "A" * 128])
async def test_a_good_trace_id_is_taken(house: Served, given: str):
    async with house.anonymous() as client:
        response = await client.get("/health/live", headers={"X-Trace-Id": given})
    assert response.headers["x-trace-id"] == given


@pytest.mark.req("OPS-07")
@pytest.mark.parametrize("given", ["", "A" * 129, "a b", "a/b", "ä", "<script>"])
async def test_a_bad_trace_id_is_replaced(house: Served, given: str):
    async with house.anonymous() as client:
        response = await client.get("/health/live", headers={"X-Trace-Id": given.encode()})
    assert response.headers["x-trace-id"] != given
    assert len(response.headers["x-trace-id"]) == 36


@pytest.mark.req("IDENT-08")
@pytest.mark.parametrize("path", ["/", "/health/live", "/api/sessions", "/nothing", "/docs"])
async def test_every_answer_has_the_security_headers(house: Served, path: str):
    async with house.anonymous() as client:
        headers = (await client.get(path)).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "same-origin"
    policy = headers["content-security-policy"]
    assert "frame-ancestors 'none'" in policy
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy


@pytest.mark.req("IDENT-02", "IDENT-08")
@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:80", "localhost.evil.example", "127.0.0.1.nip.io", "", "[", "0"],
)
async def test_a_foreign_host_name_is_refused_even_with_a_key(house: Served, host: str):
    async with house.client() as client:
        response = await client.get("/api/sessions", headers={"Host": host})
    assert_error(response, 421, "host_refused")


@pytest.mark.req("IDENT-02")
@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1234", "127.0.0.1:1", "[::1]:99"])
async def test_every_name_of_this_machine_is_let_in(house: Served, host: str):
    async with house.client() as client:
        response = await client.get("/api/sessions", headers={"Host": host})
    assert response.status_code == 200


@pytest.mark.req("OPS-13", "CHAT-12")
async def test_unknown_addresses_and_methods_answer_in_the_one_shape(house: Served):
    async with house.client() as client:
        assert_error(await client.get("/api/nothing"), 404, "not_found")
        assert_error(await client.get("/nothing"), 404, "not_found")
        wrong = await client.patch("/api/sessions")
        assert_error(wrong, 405, "method_not_allowed")
        assert "GET" in wrong.headers["allow"]
        assert_error(await client.get("/static/../../etc/passwd"), 404, "not_found")


@pytest.mark.req("CHAT-12", "OPS-13")
@pytest.mark.parametrize("stated", [True, False])
async def test_a_body_above_the_limit_is_refused_with_and_without_a_stated_length(
    house: Served, stated: bool
):
    megabyte = b"x" * (1024 * 1024)
    count = house.product.app.state.services.settings.max_upload_mb + 2

    head = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'

    async def chunks():
        yield head
        for _ in range(count):
            yield megabyte

    headers = {"Content-Type": "multipart/form-data; boundary=b"}
    if stated:
        headers["Content-Length"] = str(count * len(megabyte) + len(head))
    async with house.client() as client:
        response = await client.post("/api/chat", content=chunks(), headers=headers)
    assert_error(response, 413, "too_large")


@pytest.mark.req("CHAT-12")
async def test_an_anonymous_upload_is_refused_before_it_is_read(house: Served):
    async with house.anonymous() as client:
        response = await client.post("/api/chat", files={"file": ("a.txt", b"x" * 100_000)})
    assert_error(response, 401, "unauthenticated")
    assert response.headers["www-authenticate"] == "Bearer"


@pytest.mark.req("OPS-13")
@pytest.mark.parametrize("length", ["-1", "abc", "5, 6", "99999999999999999999999"])
async def test_a_wrong_content_length_never_ends_in_a_fault(house: Served, length: str):
    address = urlsplit(house.url)
    with socket.create_connection((address.hostname, address.port), timeout=5) as wire:
        wire.sendall(
            f"POST /api/preferences HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {length}\r\n"
            f"Authorization: Bearer {house.key}\r\nConnection: close\r\n\r\n{{}}".encode()
        )
        wire.shutdown(socket.SHUT_WR)
        first = wire.makefile("rb").readline()
    assert not first or first.split()[1].startswith(b"4")


@pytest.mark.req("OPS-13", "CHAT-12")
async def test_a_wrong_field_is_named_and_its_value_is_not_repeated(guest: Guest):
    secret = "gwk_0123456789ab_" + "S" * 43
    response = await guest.client.put(
        "/api/preferences", json={"text": 5, secret * 100: secret, "\n": 1}
    )
    error = assert_error(response, 422, "invalid")
    assert "text" in [field["field"] for field in error["details"]["fields"]]
    assert len(response.content) < 2_000
    assert secret not in json.dumps(error)


@pytest.mark.req("OPS-13")
async def test_an_unknown_or_repeated_query_name_is_refused(guest: Guest):
    unknown = await guest.client.get("/api/sessions", params={"pinned": "true"})
    error = assert_error(unknown, 422, "invalid")
    assert error["details"]["unknown"] == ["pinned"]
    assert "limit" in error["details"]["known"]
    twice = await guest.client.get("/api/sessions?limit=1&limit=2")
    assert_error(twice, 400, "bad_request")


@pytest.mark.req("OPS-13")
@pytest.mark.parametrize("query", ["q=%FF", "q=%00", "q=%ED%A0%80", "q=%", "q", "q=%20", "q="])
async def test_a_query_that_is_no_text_is_refused(guest: Guest, query: str):
    response = await guest.client.get(f"/api/sessions/search?{query}")
    assert response.status_code in (200, 400, 422)
    assert response.status_code == 200 or response.json()["error"]["code"]


@pytest.mark.req("OPS-13")
@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("text/plain", b'{"text": "x"}'),
        ("application/xml", b"<a/>"),
        ("application/x-www-form-urlencoded", b"text=x"),
        ("multipart/form-data; boundary=b", b"--b--"),
        ("", b'{"text": "x"}'),
        ("application/json;charset=latin-1 ; x", b""),
        ("application/jsonx", b"{}"),
    ],
)
async def test_a_body_of_another_kind_is_refused(guest: Guest, kind: str, body: bytes):
    response = await guest.client.put(
        "/api/preferences", content=body, headers={"Content-Type": kind}
    )
    assert response.status_code in (400, 415)
    assert response.json()["error"]["code"] in ("unsupported_media_type", "bad_request")


@pytest.mark.req("OPS-13")
async def test_the_description_is_served_without_anything_from_elsewhere(house: Served):
    async with house.anonymous() as client:
        page = await client.get("/docs")
        description = (await client.get("/openapi.json")).json()
    assert page.status_code == 200
    for path in description["paths"]:
        assert path in page.text
    assert "<script" not in page.text
    assert "src=" not in page.text
    assert "http://" not in page.text


@pytest.mark.req("OPS-05")
async def test_health_names_every_part_with_cause_and_cure(house: Served):
    async with house.anonymous() as client:
        health = (await client.get("/health")).json()
        live = await client.get("/health/live")
        ready = await client.get("/health/ready")
    assert {"database", "migrations", "worker", "scheduler"} <= {p["id"] for p in health["parts"]}
    for part in health["parts"]:
        assert part["status"] == "ok" or part["cause"], part
    assert (live.status_code, live.json()) == (200, {"status": "ok"})
    assert (ready.status_code, ready.json()) == (200, {"ready": True, "missing": []})


@pytest.mark.req("OPS-05")
async def test_health_is_503_with_the_cause_once_a_needed_part_is_down(
    scripted_house: Served, database_url: str
):
    await scripted_house.product.environment.worker.stop()
    async with scripted_house.anonymous() as client:
        health = await client.get("/health")
        ready = await client.get("/health/ready")
        live = await client.get("/health/live")
    assert (health.status_code, ready.status_code, live.status_code) == (503, 503, 200)
    missing = ready.json()["missing"]
    assert [part["id"] for part in missing] == ["worker"]
    assert missing[0]["cause"]
    assert missing[0]["cure"]
