"""No secret gets into text that people or other programs read (OPS-06, P18)."""

from pathlib import Path

import pytest

from core import ids, masking

CANARY = "hunter2hunter2Canary"

SHAPES = {
    "bearer header": f"Authorization: Bearer {CANARY}",
    "bearer alone": f"sent bearer {CANARY} upstream",
    "basic header": f"Proxy-Authorization: Basic {CANARY}",
    "provider key": f"Incorrect API key provided: sk-proj-{CANARY}.",
    "our own key": f"key gwk_{CANARY} was refused",
    "assignment": f"OPENAI_API_KEY={CANARY} PORT=8000",
    "json field": f'{{"password": "{CANARY}", "user": "ann"}}',
    "json field with escaped quote": f'{{"client_secret": "a\\"{CANARY}"}}',
    "python dict": f"{{'api_key': '{CANARY}', 'n': 1}}",
    "camel case": f'"accessToken":"{CANARY}"',
    "colon": f"access_token: {CANARY}",
    "query": f"GET /x?token={CANARY}&page=2",
    "url": f"https://ann:{CANARY}@host.example/path",
    "database url": f"postgresql+psycopg://ann:{CANARY}@127.0.0.1:5432/db",
    "database url, slash in password": f"postgresql://ann:a/{CANARY}@127.0.0.1/db",
    "database url, at sign in password": f"postgresql://ann:a@{CANARY}@127.0.0.1/db",
    "libpq": f"host=/tmp user=ann password={CANARY} dbname=x",
    "libpq quoted": f"password='{CANARY} with space'",
    "cookie": f"Cookie: theme=dark; gw_session={CANARY}; x=y",
    "set-cookie": f"set-cookie: gw_session={CANARY}; HttpOnly",
    "one-time link": f"open http://127.0.0.1:8000/login/{CANARY} once",
    "one-time query": f"http://127.0.0.1:8000/login?token={CANARY}",
    "github": f"remote: ghp_{CANARY}",
    "jwt": f"eyJhbGciOi.eyJzdWIi{CANARY}.sig",
    "private key": f"-----BEGIN RSA PRIVATE KEY-----\n{CANARY}\n-----END RSA PRIVATE KEY-----",
    "cut private key": f"-----BEGIN PRIVATE KEY-----\n{CANARY}",
    "pydantic": f"[type=int_parsing, input_value='{CANARY}', input_type=str]",
    "sqlalchemy": f"[SQL: insert into t values (%s)]\n[parameters: ('{CANARY}',)]\n",
    "postgres": f"duplicate key\nDETAIL:  Key (name)=({CANARY}) already exists.",
}


@pytest.mark.req("OPS-06")
@pytest.mark.parametrize("text", SHAPES.values(), ids=SHAPES.keys())
def test_secret_shape_is_hidden_and_masking_again_changes_nothing(text):
    masked = masking.mask(text)
    assert CANARY not in masked
    assert masking.mask(masked) == masked


@pytest.mark.req("OPS-06")
@pytest.mark.parametrize(
    "text",
    [
        "run ended status=success input_tokens=512 output_tokens=9",
        "GET /api/sessions/0199d0ff-7c1f-7d2a-b1c2-2f6c3f0a1b2c 200",
        "ready http://127.0.0.1:8000",
        "sha256 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "http://127.0.0.1:8000/mail?to=ann@host.example",
        "the token was refused",
        "tokenizer=cl100k max_tokens=5",
        "key: value",
    ],
)
def test_ordinary_text_stays_as_it_is(text):
    assert masking.mask(text) == text


@pytest.mark.req("OPS-06")
def test_what_follows_a_secret_stays_readable():
    masked = masking.mask(f"postgresql://ann:{CANARY}@127.0.0.1:5432/db failed")
    assert masked == "postgresql://ann:***@127.0.0.1:5432/db failed"
    assert masking.mask(f"OPENAI_API_KEY={CANARY} PORT=8000") == "OPENAI_API_KEY=*** PORT=8000"


@pytest.mark.req("OPS-06")
def test_random_secret_is_hidden_without_any_name():
    secret = ids.new_secret()
    assert secret not in masking.mask(f"could not use {secret} for this")


@pytest.mark.req("OPS-06")
def test_learnt_value_is_hidden_wherever_it_stands(monkeypatch):
    monkeypatch.setattr(masking, "_literals", set())
    masking.learn("plain words as key", "postgresql://u:p%40ssw0rd-9@h/db", "short")
    assert masking.mask("<plain words as key>") == "<***>"
    assert masking.mask("tried p@ssw0rd-9 in vain") == "tried *** in vain"
    assert masking.mask("a short text") == "a short text"


@pytest.mark.req("OPS-06")
def test_value_under_a_secret_name_is_hidden_whole_at_any_depth():
    value = {
        "user": "ann",
        "password": 12345678,
        "headers": [{"Authorization": f"Token {CANARY}"}, {"x": f"Bearer {CANARY}"}],
        "nothing": None,
    }
    assert masking.mask_value(value) == {
        "user": "ann",
        "password": "***",
        "headers": [{"Authorization": "***"}, {"x": "Bearer ***"}],
        "nothing": None,
    }


@pytest.mark.req("OPS-06")
def test_endless_value_ends():
    loop: list[object] = []
    loop.append(loop)
    assert "…" in str(masking.mask_value(loop))


@pytest.mark.req("OPS-04")
def test_hint_tells_two_secrets_apart_without_showing_them():
    shown = masking.hint(f"sk-{CANARY}")
    assert CANARY not in shown
    assert shown != masking.hint("sk-another-secret")
    assert masking.hint("short") == "*** (5)"


@pytest.mark.req("OPS-06", "EXT-09")
@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("'password': ['one', \"two\"], 'a': 1", "'password': ***, 'a': 1"),
        ("token = (1, 'x') and more", "token = *** and more"),
        ("credentials: {a: b} end", "credentials: *** end"),
    ],
)
def test_a_list_or_an_object_under_a_secret_name_is_hidden(text: str, masked: str):
    assert masking.mask(text) == masked
    assert masking.mask(masked) == masked


@pytest.mark.req("EXT-09", "OPS-06")
def test_the_data_folder_is_a_word_in_logs_and_what_lies_in_it_is_told_nobody(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr(masking, "_folders", {})
    masking.learn_folder(Path("/"))
    masking.learn_folder(tmp_path / "data")
    told = f"open('{tmp_path}/data/w/a b.txt'), {tmp_path}/data, not {tmp_path}/database"
    assert masking.mask(told) == f"open('<data>/w/a b.txt'), <data>, not {tmp_path}/database"
    assert masking.mask_told(told) == f"open('<data> b.txt'), <data>, not {tmp_path}/database"
    assert masking.mask_told("root is /") == "root is /"


@pytest.mark.req("EXT-09")
def test_only_known_values_are_taken_out_of_results(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(masking, "_literals", set())
    masking.learn("plain words as key")
    value = {"password: x": [1, None, "as plain words as key"], "plain words as key": True}
    assert masking.mask_known_value(value) == {"password: x": [1, None, "as ***"], "***": True}
