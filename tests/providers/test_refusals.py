"""Refusals and silence: which named error they become, and what they never carry."""

from __future__ import annotations

import json

import pytest
from langchain_core.messages import HumanMessage

from core import errors
from core.ports import ModelHandle
from tests.providers.conftest import KEY, MakeModel, Shown
from tests.support.scripted_server import ScriptedServer
from tests.support.scripted_turns import (
    Raw,
    Turn,
    answer,
    drip,
    error,
    frame,
    html,
    raw_frames,
    say,
    silent,
    stall,
)

ASK = [HumanMessage("hello")]
LONG = [HumanMessage("word " * 8000)]


def said(status: int, message: str, code: object = None) -> Turn:
    return error(status, {"error": {"message": message, "code": code}})


OVERFLOWS = {
    "code": said(400, "too much", "context_length_exceeded"),
    "number as code": said(400, "9001 tokens sent, window is 8192", 400),
    "message only": said(400, "input too long by 809 tokens"),
    "413 without body": error(413, ""),
    "500": said(500, "input too long by 809 tokens"),
    "429": said(429, "request larger than the per-minute token budget"),
    "in a stream": raw_frames([{"error": {"message": "input too long by 809 tokens"}}]),
    "openai": said(
        400,
        "This model's maximum context length is 8192 tokens. However, you requested 9001 tokens"
        " (8001 in the messages, 1000 in the completion).",
    ),
    "llama.cpp": error(
        400,
        {
            "error": {
                "code": 400,
                "message": "the request exceeds the available context size",
                "type": "exceed_context_size_error",
            }
        },
    ),
    "dashscope": said(400, "Range of input length should be [1, 30720]", "InvalidParameter"),
    "anthropic": said(400, "prompt is too long: 209391 tokens > 200000 maximum"),
    "tgi": error(
        422, {"error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096"}
    ),
    "gemini": said(
        400, "The input token count (1200000) exceeds the maximum number of tokens allowed"
    ),
    "kimi": said(400, "Your request exceeded model token limit: 8192"),
    "chinese": said(400, "输入内容超出模型上下文长度限制"),
    "tokens per minute": said(429, "Request too large for m on tokens per min: Limit 30000"),
}


@pytest.mark.req("L22", "MODEL-04")
@pytest.mark.parametrize("turn", OVERFLOWS.values(), ids=OVERFLOWS.keys())
async def test_every_wording_of_too_long_is_a_context_overflow(
    scripted: ScriptedServer, make_model: MakeModel, turn: Turn
) -> None:
    scripted.refuse_over(8192, turn)
    model = make_model(openai_max_retries=8)
    await model.ask(ASK, message_id="m0")
    with pytest.raises(errors.ContextOverflow):
        await model.ask(LONG, message_id="m1")
    assert len(scripted.requests) == 2, "an overflow is not tried again as it is"


@pytest.mark.req("L22")
@pytest.mark.parametrize(
    ("turn", "kind"),
    [
        (said(429, "too many tokens this minute, wait"), errors.ProviderRateLimited),
        (said(429, "Rate limit reached: tokens per min (TPM)"), errors.ProviderRateLimited),
        (said(400, "max_tokens must be at most 8192, got 9001"), errors.ProviderRefused),
        (said(400, "Invalid value for temperature: 3 exceeds the limit"), errors.ProviderRefused),
        (said(401, "This key has no access to the context window beta"), errors.ProviderAuth),
        (said(503, "The model is overloaded"), errors.ProviderOverloaded),
    ],
)
async def test_other_refusals_are_not_taken_for_an_overflow(
    scripted: ScriptedServer, model: ModelHandle, turn: Turn, kind: type[errors.ProviderError]
) -> None:
    scripted.default = turn
    with pytest.raises(errors.ProviderError) as caught:
        await model.ask(ASK, message_id="m1")
    assert type(caught.value) is kind


@pytest.mark.req("MODEL-04")
@pytest.mark.parametrize(
    ("turn", "kind", "says"),
    [
        (error(401), errors.ProviderAuth, "401"),
        (error(403, "forbidden here"), errors.ProviderAuth, "forbidden here"),
        (said(402, "Insufficient Balance"), errors.ProviderRefused, "Insufficient Balance"),
        (said(429, "You exceeded your current quota", "insufficient_quota"),
         errors.ProviderRefused, "current quota"),
        (said(404, "The model `x` does not exist", "model_not_found"),
         errors.ProviderModelMissing, "does not exist"),
        (said(400, "unknown model scripted"), errors.ProviderModelMissing, "unknown model"),
        (error(404, "<html><h1>Not Found</h1></html>"), errors.ProviderRefused, "Not Found"),
        (error(400, {"detail": [{"msg": "bad field"}]}), errors.ProviderRefused, "bad field"),
        (error(500, "", {"x-request-id": "req-7"}), errors.ProviderOverloaded, "500"),
        (error(502, "<html>Bad Gateway</html>"), errors.ProviderOverloaded, "Bad Gateway"),
        (error(307, "", {"location": "https://elsewhere.example/v1"}),
         errors.ProviderRefused, "elsewhere.example"),
        (html(), errors.ProviderJunk, "hotel"),
        (answer(b"\x00\xff\xfe\x80 binary", content_type="text/event-stream"),
         errors.ProviderStreamCut, "without a finish"),
        (answer("", content_type="text/event-stream"), errors.ProviderStreamCut, "without"),
    ],
)  # fmt: skip
async def test_each_refusal_has_its_named_error_with_the_providers_words(
    scripted: ScriptedServer,
    model: ModelHandle,
    turn: Turn,
    kind: type[errors.ProviderError],
    says: str,
) -> None:
    scripted.default = turn
    with pytest.raises(errors.ProviderError, match=says) as caught:
        await model.ask(ASK, message_id="m1")
    assert type(caught.value) is kind
    assert model.provider in str(caught.value)
    assert caught.value.details["provider"] == model.provider


@pytest.mark.req("MODEL-04")
async def test_status_and_request_id_are_in_the_details(
    scripted: ScriptedServer, model: ModelHandle
) -> None:
    scripted.default = error(500, None, {"x-request-id": "req-7"})
    with pytest.raises(errors.ProviderError) as caught:
        await model.ask(ASK, message_id="m1")
    assert caught.value.details["status"] == 500
    assert caught.value.details["request_id"] == "req-7"


@pytest.mark.req("MODEL-04")
async def test_neither_the_key_nor_a_novel_gets_into_a_message(
    scripted: ScriptedServer, model: ModelHandle
) -> None:
    scripted.default = said(400, f"Incorrect key {KEY}, see " + "lorem " * 5000)
    with pytest.raises(errors.ProviderError) as caught:
        await model.ask(ASK, message_id="m1")
    told = json.dumps(caught.value.body()) + str(caught.value) + repr(caught.value)
    assert KEY not in told and len(told) < 3000
    assert scripted.requests[0].headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.req("MODEL-04")
@pytest.mark.parametrize(
    "turn",
    [silent(), stall(), stall(say("never ends"), 1)],
    ids=["no headers", "no first byte", "no first text"],
)
async def test_silence_ends_with_a_timeout(
    scripted: ScriptedServer, make_model: MakeModel, turn: Turn
) -> None:
    scripted.play(turn)
    with pytest.raises(errors.ProviderTimeout, match=r"sent nothing for 0\.2 s"):
        await make_model(model_idle_timeout=0.2).ask(ASK, message_id="m1")


@pytest.mark.req("MODEL-04")
async def test_a_stalled_answer_keeps_what_arrived(
    scripted: ScriptedServer, make_model: MakeModel, shown: Shown
) -> None:
    scripted.play(stall(say("never ends", size=100), 2))
    with pytest.raises(errors.ProviderTimeout) as caught:
        await make_model(model_idle_timeout=0.2).ask(ASK, message_id="m1", sink=shown)
    assert caught.value.partial_text == "never ends" == shown.joined()


@pytest.mark.req("MODEL-04")
@pytest.mark.parametrize("filler", [b": busy\n\n", b"\n\n\n\n    ", b"data: x"])
async def test_keep_alive_bytes_do_not_hold_a_call_for_ever(
    scripted: ScriptedServer, make_model: MakeModel, filler: bytes
) -> None:
    scripted.play(drip(raw_frames([Raw(filler * 300)]), piece=8, pause=0.01))
    with pytest.raises(errors.ProviderTimeout, match="only keep-alive bytes"):
        await make_model(model_idle_timeout=0.1).ask(ASK, message_id="m1")


@pytest.mark.req("MODEL-04")
async def test_a_slow_stream_is_not_a_stalled_one(
    scripted: ScriptedServer, make_model: MakeModel
) -> None:
    frames = [frame({"content": "slowly"}), frame({}, "stop")]
    scripted.play(drip(raw_frames(frames, done=True), piece=40, pause=0.03))
    message = await make_model(model_idle_timeout=0.25).ask(ASK, message_id="m1")
    assert message.content == "slowly"


@pytest.mark.req("MODEL-04")
@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:1/v1", "https://127.0.0.1:{port}/v1", "http://no-such-host.invalid/v1"],
    ids=["nobody listens", "no TLS there", "no such name"],
)
async def test_an_unreachable_provider_is_named(
    scripted: ScriptedServer, make_model: MakeModel, url: str
) -> None:
    address = url.format(port=scripted.port)
    model = make_model(openai_base_url=address, model_connect_timeout=0.5)
    told = "cannot be reached|did not accept a connection within 0.5 s"
    with pytest.raises(errors.ProviderUnreachable, match=told) as caught:
        await model.ask(ASK, message_id="m1")
    assert model.provider in str(caught.value)
