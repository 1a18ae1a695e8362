"""Any LangChain chat model answers like one of ours: streamed, whole, and with named errors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from pydantic import PrivateAttr

from core import errors
from core.clock import SystemClock
from providers.chat_model import ChatModelHandle
from providers.retry import Retries
from tests.providers.conftest import Shown

TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}

Step = AIMessage | BaseException | Callable[[], Any]


class Scripted(BaseChatModel):
    """A model of another library: it streams what it is told to, turn by turn."""

    max_tokens: int | None = None
    _turns: list[list[Step]] = PrivateAttr(default_factory=list)
    _asked: list[dict[str, Any]] = PrivateAttr(default_factory=list)

    def told(self, *turns: Sequence[Step]) -> Scripted:
        self._turns = [list(turn) for turn in turns]
        return self

    @property
    def asked(self) -> list[dict[str, Any]]:
        return self._asked

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self.bind(tools=tools, **kwargs)

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any):
        raise NotImplementedError

    async def _astream(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        self._asked.append({"messages": messages, **kwargs})
        for step in self._turns.pop(0) if self._turns else [AIMessageChunk("again")]:
            if isinstance(step, AIMessageChunk):
                yield ChatGenerationChunk(message=step)
            elif isinstance(step, BaseException):
                raise step
            else:
                await step()


class Whole(BaseChatModel):
    """A model that does not stream."""

    @property
    def _llm_type(self) -> str:
        return "whole"

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any):
        message = AIMessage(
            "Looking.",
            tool_calls=[{"name": "look", "args": {"at": 1}, "id": "a"}],
            invalid_tool_calls=[{"name": "look", "args": "{", "id": "b", "error": "cut"}],
            response_metadata={"stop_reason": "tool_use", "model": "big-1"},
        )
        return ChatResult(generations=[ChatGeneration(message=message)])


def handle(model: BaseChatModel, **more: Any) -> ChatModelHandle:
    return ChatModelHandle(model, clock=more.pop("clock", SystemClock()), provider="acme", **more)


def piece(text: str = "", **more: Any) -> AIMessageChunk:
    return AIMessageChunk(text, **more)


def calling(name: str | None, args: str | None, id: str | None, index: int = 0) -> AIMessageChunk:
    call = {"name": name, "args": args, "id": id, "index": index, "type": "tool_call_chunk"}
    return AIMessageChunk("", tool_call_chunks=[call])


ASK = [HumanMessage("hello")]


@pytest.mark.req("EXT-04", "EXEC-04")
async def test_text_and_reasoning_are_shown_as_they_come_and_the_turn_is_whole(shown: Shown):
    model = Scripted(max_tokens=5).told(
        [
            piece("", additional_kwargs={"reasoning_content": "Hm."}),
            piece("<think>more</think>He"),
            AIMessageChunk([{"type": "thinking", "thinking": "!"}, {"type": "text", "text": "ll"}]),
            piece("o\x00.", response_metadata={"finish_reason": "stop", "model_name": "m-2"}),
            piece("", usage_metadata={"input_tokens": 7, "output_tokens": 3, "total_tokens": 10}),
        ]
    )
    answer = await handle(model).ask(ASK, message_id="m1", sink=shown, max_tokens=99)
    assert (answer.id, answer.text) == ("m1", "Hello\ufffd.")
    assert shown.joined() == "Hello\ufffd."
    assert shown.joined("thinking") == "Hm.more!"
    assert {one[1] for one in shown.pieces} == {"m1"}
    assert answer.additional_kwargs["reasoning_content"] == "Hm.more!"
    assert answer.usage_metadata is not None
    assert (answer.usage_metadata["input_tokens"], answer.usage_metadata["output_tokens"]) == (7, 3)
    metadata = answer.response_metadata
    assert metadata["finish_reason"] == "stop"
    assert metadata["model"] == "m-2"
    assert metadata["usage_source"] == "provider"
    assert not metadata["truncated"]
    assert model.asked[0]["max_tokens"] == 99


@pytest.mark.req("EXT-04", "L02", "L11")
async def test_calls_come_whole_with_ids_of_their_own_or_marked_as_unreadable():
    model = Scripted().told(
        [
            calling("look", '{"a"', "used"),
            calling(None, ": 1}", None),
            calling("look", '{"b": 2}', "same", 1),
            calling("look", '{"c": 3}', "same", 2),
            calling("look", '{"cut', "d", 3),
        ]
    )
    before = AIMessage("", tool_calls=[{"name": "look", "args": {}, "id": "used"}])
    history = [*ASK, before, ToolMessage("x", tool_call_id="used")]
    answer = await handle(model).ask(history, tools=[TOOL], message_id="m")
    assert [call["args"] for call in answer.tool_calls] == [{"a": 1}, {"b": 2}, {"c": 3}]
    ids = [call["id"] for call in answer.tool_calls]
    assert len({*ids, "used"}) == 4
    [broken] = answer.invalid_tool_calls
    assert broken["args"] == '{"cut'
    assert answer.response_metadata["finish_reason"] == "tool_calls"
    assert answer.response_metadata["usage_source"] == "estimate"
    assert model.asked[0]["tools"] == [TOOL]


@pytest.mark.req("EXT-04", "L12")
async def test_a_turn_that_was_cut_runs_nothing_and_a_filtered_one_is_an_error():
    cut = piece("", response_metadata={"stop_reason": "max_tokens"})
    filtered = piece("", response_metadata={"finish_reason": "SAFETY"})
    model = Scripted().told([calling("look", '{"a": 1}', "x"), cut], [filtered])
    answer = await handle(model).ask(ASK, tools=[TOOL], message_id="m")
    assert answer.tool_calls == []
    assert "output limit" in str(answer.invalid_tool_calls[0]["error"])
    assert answer.response_metadata["truncated"]
    with pytest.raises(errors.ProviderRefused, match="content filter of acme"):
        await handle(model).ask(ASK, message_id="m")


@pytest.mark.req("EXT-04")
async def test_a_model_that_does_not_stream_answers_likewise(shown: Shown):
    answer = await handle(Whole(), name="w").ask(ASK, message_id="m", sink=shown)
    assert shown.joined() == answer.text == "Looking."
    assert [call["args"] for call in answer.tool_calls] == [{"at": 1}]
    assert [call["args"] for call in answer.invalid_tool_calls] == ["{"]
    with pytest.raises(errors.ProviderRefused, match="need a model that takes tools"):
        await handle(Whole()).ask(ASK, tools=[TOOL], message_id="m")


@dataclass
class _Answer:
    status_code: int
    headers: dict[str, str]


class ApiError(Exception):
    """As the SDKs of most providers raise it."""

    def __init__(self, said: str, status: int, **headers: str) -> None:
        super().__init__(said)
        self.response = _Answer(status, headers)


class APIConnectionError(Exception):
    pass


class ReadTimeout(Exception):
    pass


LONG = "prompt is too long: 210000 tokens > 200000 maximum"
RAISED = {
    "auth": (ApiError("bad key sk-abcdefghijklmnopqrstuvwx", 401), errors.ProviderAuth),
    "limit": (ApiError("slow down", 429), errors.ProviderRateLimited),
    "long": (ApiError(LONG, 400), errors.ContextOverflow),
    "long_without_status": (ValueError(LONG), errors.ContextOverflow),
    "model": (ApiError("The model m does not exist", 404), errors.ProviderModelMissing),
    "down": (ApiError("oops", 503), errors.ProviderOverloaded),
    "connect": (APIConnectionError("host db.internal"), errors.ProviderUnreachable),
    "timeout": (ReadTimeout("waited"), errors.ProviderTimeout),
    "bug": (KeyError("/srv/secret/path"), errors.ProviderError),
    "exit": (SystemExit(3), errors.ProviderError),
    "cancelled": (asyncio.CancelledError(), errors.ProviderError),
}


@pytest.mark.req("EXT-04", "MODEL-07")
@pytest.mark.parametrize("name", RAISED)
async def test_whatever_a_model_raises_is_a_named_error_without_its_secrets(name: str):
    raised, kind = RAISED[name]
    with pytest.raises(errors.ProviderError) as caught:
        await handle(Scripted().told([raised])).ask(ASK, message_id="m")
    assert type(caught.value) is kind
    assert "acme" in caught.value.message
    for secret in ("sk-abcdefghijklmnopqrstuvwx", "/srv/secret", "db.internal"):
        assert secret not in str(caught.value.body())


class Hurried(SystemClock):
    """A clock that does not wait."""

    def __init__(self) -> None:
        self.waits: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)


@pytest.mark.req("EXT-04", "L19")
async def test_a_failed_try_is_repeated_only_before_the_first_shown_token(shown: Shown):
    down = ApiError("oops", 503, **{"retry-after": "2"})
    clock = Hurried()
    model = Scripted().told([down], [piece("fine")], [piece("half"), down])
    tested = handle(model, clock=clock)
    tested.retries = Retries(3, 60)
    assert (await tested.ask(ASK, message_id="m", sink=shown)).text == "fine"
    assert [2 <= wait < 3 for wait in clock.waits] == [True]
    with pytest.raises(errors.ProviderOverloaded) as caught:
        await tested.ask(ASK, message_id="m2", sink=shown)
    assert caught.value.partial_text == "half"
    assert len(model.asked) == 3


@pytest.mark.req("EXT-04", "P8")
async def test_a_silent_model_is_left_and_a_cancelled_run_stays_cancelled():
    reached = asyncio.Event()

    async def silent() -> None:
        reached.set()
        await asyncio.Event().wait()

    tested = handle(Scripted().told([piece("a"), silent], [silent]))
    tested.idle_timeout = 0.05
    with pytest.raises(errors.ProviderTimeout, match=r"nothing for 0\.05 s") as caught:
        await tested.ask(ASK, message_id="m")
    assert caught.value.partial_text == "a"
    tested.idle_timeout = 60
    reached.clear()
    asking = asyncio.create_task(tested.ask(ASK, message_id="m"))
    await asyncio.wait_for(reached.wait(), 5)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking


@pytest.mark.req("EXT-04")
async def test_the_window_is_the_declared_one_or_what_is_known_of_the_model():
    assert handle(Scripted(), context_window=1000, max_output=10).max_output == 10
    assert handle(Scripted(), name="gpt-4o-x").context_window == 128_000
    assert handle(Scripted(profile={"max_input_tokens": 5000})).context_window == 5000
    guessed = handle(Scripted())
    assert (guessed.name, guessed.window_known) == ("Scripted", False)
