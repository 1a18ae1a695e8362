"""The LangChain side of the wire model, and the bytes under it (EXEC-04)."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.callbacks import AsyncCallbackHandler
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.outputs import LLMResult
from langchain_core.tools import tool

from core import errors
from core.clock import SystemClock
from core.settings import Settings
from providers.connection import fault_of_url, is_loopback
from providers.handle import WireHandle
from providers.registry import ModelRegistry
from providers.sse import SseDecoder
from providers.windows import UNKNOWN, reserve_of, window_of
from tests.providers.conftest import KEY, MakeModel, Shown
from tests.support.scripted_server import ScriptedServer
from tests.support.scripted_turns import Gate, call, hold, say

ASK = [HumanMessage("hello")]


class Listener(AsyncCallbackHandler):
    def __init__(self) -> None:
        self.seen: list[str] = []
        self.told = ""

    async def on_chat_model_start(self, serialized: Any, messages: Any, **more: Any) -> None:
        self.seen.append("start")
        self.told += f"{serialized} {more}"

    async def on_llm_end(self, response: LLMResult, **more: Any) -> None:
        self.seen.append("end")

    async def on_llm_error(self, error: BaseException, **more: Any) -> None:
        self.seen.append(type(error).__name__)


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def wire(handle: Any) -> Any:
    assert isinstance(handle, WireHandle)
    return await handle.langchain()


@pytest.mark.req("EXEC-04")
async def test_bound_tools_and_callbacks_work_as_with_any_langchain_model(
    scripted: ScriptedServer, make_model: MakeModel
) -> None:
    scripted.play(call("add", {"a": 1, "b": 2}, id="c1"))
    listener = Listener()
    bound = (await wire(make_model())).bind_tools([add], tool_choice="any")
    message = await bound.ainvoke("add them", config={"callbacks": [listener]})
    assert message.tool_calls[0]["args"] == {"a": 1, "b": 2}
    body = scripted.requests[0].body
    assert body["tools"][0]["function"]["name"] == "add" and body["tool_choice"] == "required"
    assert listener.seen == ["start", "end"]
    assert KEY not in listener.told


@pytest.mark.req("EXEC-04")
async def test_streaming_by_langchain_gives_the_one_whole_message(
    scripted: ScriptedServer, make_model: MakeModel
) -> None:
    scripted.play(say("all at once"))
    chunks = [chunk async for chunk in (await wire(make_model())).astream("hi")]
    assert "".join(str(chunk.content) for chunk in chunks) == "all at once"


@pytest.mark.req("EXEC-04")
async def test_errors_reach_callbacks_under_our_names(
    scripted: ScriptedServer, make_model: MakeModel
) -> None:
    scripted.key = "another"
    listener = Listener()
    with pytest.raises(errors.ProviderAuth):
        await (await wire(make_model())).ainvoke("hi", config={"callbacks": [listener]})
    assert listener.seen == ["start", "ProviderAuth"]


@pytest.mark.req("EXEC-04")
async def test_text_is_shown_while_it_comes(
    scripted: ScriptedServer, model: Any, shown: Shown
) -> None:
    import asyncio

    gate = Gate()
    scripted.play(hold(say("first second", size=6), gate, after=2))
    asking = asyncio.create_task(model.ask(ASK, message_id="m1", sink=shown))
    assert await asyncio.to_thread(gate.reached.wait, 5)
    async with asyncio.timeout(5):
        while not shown.pieces:
            await asyncio.to_thread(lambda: None)
    assert shown.pieces == [("token", "m1", "first ")] and not asking.done()
    gate.open()
    message = await asking
    assert isinstance(message, AIMessage) and message.id == "m1"
    assert shown.joined() == "first second"


@pytest.mark.req("EXEC-04", "CHAT-08")
async def test_a_cancelled_call_lets_go_of_the_provider_at_once(
    scripted: ScriptedServer, model: Any, shown: Shown
) -> None:
    import asyncio

    gate = Gate()
    scripted.play(hold(say("never finished"), gate, after=2))
    asking = asyncio.create_task(model.ask(ASK, message_id="m1", sink=shown))
    assert await asyncio.to_thread(gate.reached.wait, 5)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    async with asyncio.timeout(5):
        while not scripted.requests[0].left:
            await asyncio.to_thread(lambda: None)
    assert (await model.ask(ASK, message_id="m2")).content == "echo: hello"


@pytest.mark.req("MODEL-04")
@given(st.data())
def test_events_are_the_same_however_the_bytes_are_cut(data: st.DataObject) -> None:
    end = data.draw(st.sampled_from([b"\n", b"\r\n", b"\r"]))
    body = b"\xef\xbb\xbf" + end.join(
        [b": hello", b"event: delta", b"data: {'text': '\xe6\xb1\x89'}", b"", b"", b"id: 7",
         b"data:first", b"data: second", b"retry: 5", b"", b": bye", b"data: [DONE]"]
    )  # fmt: skip
    places = sorted({0, len(body), *data.draw(st.lists(st.integers(0, len(body))))})
    decoder = SseDecoder()
    events = [event for a, b in itertools.pairwise(places) for event in decoder.feed(body[a:b])]
    events += decoder.close()
    assert events == [
        ("delta", b"{'text': '\xe6\xb1\x89'}"), ("", b"first\nsecond"), ("", b"[DONE]")
    ]  # fmt: skip
    assert decoder.comments == 2


def registry(**fields: Any) -> ModelRegistry:
    return ModelRegistry(Settings(**fields), SystemClock())


@pytest.mark.req("MODEL-09")
def test_without_a_configured_model_the_demo_is_the_default() -> None:
    models = registry(openai_model="")
    assert models.names() == ["demo"] and models.get(None).is_demo


@pytest.mark.req("MODEL-01", "MODEL-09")
def test_a_configured_model_is_the_default_and_the_demo_stays() -> None:
    models = registry(openai_model="m-1", context_limit=9000)
    assert models.names() == ["m-1", "demo"]
    assert not models.get(None).is_demo and models.get("demo").is_demo
    assert models.get("m-1").context_window == 9000
    with pytest.raises(errors.Invalid, match="no model 'other'"):
        models.get("other")


@pytest.mark.req("MODEL-01")
@pytest.mark.parametrize("url", ["http://u:p@x/v1", "http://x:y/v1", "https://x/v1?key=1"])
def test_a_base_url_that_cannot_be_asked_stops_the_start(url: str) -> None:
    with pytest.raises(errors.ConfigError, match="OPENAI_BASE_URL") as caught:
        registry(openai_base_url=url)
    assert caught.value.faults[0].cure


@pytest.mark.req("MODEL-01")
@pytest.mark.parametrize("url", ["api.example.com/v1", "ftp://x/v1", "http://", "http://[::1"])
def test_what_is_no_address_is_told(url: str) -> None:
    assert fault_of_url(url)


@pytest.mark.req("MODEL-01")
def test_good_addresses_are_accepted_and_loopback_is_known() -> None:
    assert fault_of_url("https://api.example.com/v1") is None
    assert is_loopback("http://127.0.0.1:8080/v1") and is_loopback("http://[::1]/v1")
    assert is_loopback("http://localhost:1234") and not is_loopback("http://10.0.0.1")


@pytest.mark.req("MODEL-02")
def test_windows_are_known_declared_or_a_cautious_guess() -> None:
    assert window_of("openai/gpt-4o-mini") == (128_000, True)
    assert window_of("someone/brand-new") == (UNKNOWN, False)
    assert window_of("gpt-4o", 8192) == (8192, True)
    assert reserve_of(8192) == 2048 and reserve_of(1_000_000) == 8192
