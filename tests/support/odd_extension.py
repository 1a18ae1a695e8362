"""An extension with middleware made by decorators, and with some that do odd things."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import NotRequired

from langchain.agents.middleware import (
    AgentMiddleware,
    AgentState,
    after_agent,
    after_model,
    before_agent,
    before_model,
    dynamic_prompt,
    hook_config,
    wrap_model_call,
    wrap_tool_call,
)
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.types import Command

from extensions import define_tool

SEEN: list[str] = []
REACHED, FREED, LEFT = threading.Event(), threading.Event(), threading.Event()
CALL = {"name": "careful", "args": {"text": "it"}, "id": "own_1", "type": "tool_call"}


@define_tool(group="odd", side_effect="external", requires_approval=True)
def careful(text: str) -> str:
    """Do something that a person has to agree to.

    Args:
        text: what.
    """
    return f"did {text}"


@define_tool(group="odd")
def plain(text: str) -> str:
    """Do something that nobody is asked about.

    Args:
        text: what.
    """
    SEEN.append(f"did {text}")
    return f"did {text}"


@before_agent
def enters(state, runtime):
    SEEN.append("before_agent")


@before_model(can_jump_to=["end"])
async def stops(state, runtime):
    SEEN.append("before_model")
    if "stop here" in state["messages"][-1].text:
        return {"messages": [AIMessage("Stopped.")], "jump_to": "end"}
    return None


@dynamic_prompt
def prompts(request):
    return f"{request.system_message.text} PROMPTED"


@wrap_model_call
async def marks(request, handler):
    response = await handler(request)
    [turn] = response.result
    return AIMessage(turn.text + "!", tool_calls=turn.tool_calls)


@wrap_tool_call
def counts(request, handler):
    SEEN.append(request.tool_call["name"])
    return handler(request)


@after_model
def ends_turn(state, runtime):
    SEEN.append("after_model")


@after_agent
async def leaves(state, runtime):
    SEEN.append("after_agent")


class ToTools(AgentMiddleware):
    @hook_config(can_jump_to=["tools", "model", "end"])
    def before_model(self, state, runtime):
        word = state["messages"][-1].text
        if word == "tools":
            return {"messages": [AIMessage("", tool_calls=[CALL])], "jump_to": "tools"}
        if word == "no calls":
            return {"jump_to": "tools"}
        if word == "round and round":
            return {"jump_to": "model"}
        if word == "left open":
            return {"messages": [AIMessage("Open.", tool_calls=[CALL])], "jump_to": "end"}
        return None


class Raises(AgentMiddleware):
    def before_model(self, state, runtime):
        word = state["messages"][-1].text
        kinds = {"exit": SystemExit, "keyboard": KeyboardInterrupt, "stop": StopIteration}
        if word in kinds:
            raise kinds[word]("secret=hunter2hunter2")
        if word == "group":
            raise ExceptionGroup("secret=hunter2hunter2", [ValueError("x")])

    async def awrap_model_call(self, request, handler):
        if request.messages[-1].text == "cancelled":
            raise asyncio.CancelledError
        if request.messages[-1].text == "exit inside":
            raise SystemExit(1)
        return await handler(request)


class Noted(AgentState):
    noted: NotRequired[dict]


class OddResults(AgentMiddleware):
    state_schema = Noted

    async def awrap_tool_call(self, request, handler):
        call_id, word = request.tool_call["id"], request.tool_call["args"]["text"]
        result = ToolMessage("by command", tool_call_id=call_id)
        odd = {
            "nothing": None,
            "other id": ToolMessage("x", tool_call_id="somebody's"),
            "dirty": ToolMessage("a\x00b\ud800c", tool_call_id=call_id),
            "blocks": ToolMessage([{"type": "text", "text": "in blocks"}], tool_call_id=call_id),
            "goes": Command(goto="finish"),
            "our state": Command(update={"messages": [result], "loop": {}}),
            "no field": Command(update={"messages": [result], "nobody's": 1}),
            "no plain state": Command(update={"messages": [result], "noted": {"x": object()}}),
            "no message": Command(update={"messages": [result, object()]}),
            "as a dict": Command(
                update={
                    "messages": [{"role": "tool", "content": "by dict", "tool_call_id": call_id}],
                    "noted": {"x": 1},
                }
            ),
            "command": Command(update={"messages": [result, HumanMessage("beside\x00")]}),
        }
        if word == "exit":
            raise SystemExit(2)
        if word in odd:
            return odd[word]
        return await handler(request)


class Late(AgentMiddleware):
    """Goes on in its thread when the run is over, and does not take no for an answer."""

    def wrap_tool_call(self, request, handler):
        return self._late(request, handler, request.tool_call["args"]["text"] == "late")

    def wrap_model_call(self, request, handler):
        return self._late(request, handler, request.messages[-1].text == "late model")

    def _late(self, request, handler, is_late):
        if not is_late:
            return handler(request)
        REACHED.set()
        try:
            FREED.wait(20)
            while True:
                with suppress(Exception):
                    return handler(request)
        finally:
            LEFT.set()


class Counted(BaseChatModel):
    @property
    def _llm_type(self):
        return "counted"

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        usage = {"input_tokens": 1000, "output_tokens": 1, "total_tokens": 1001}
        turn = AIMessage("fine", usage_metadata=usage, response_metadata={"model_name": "side"})
        return ChatResult(generations=[ChatGeneration(message=turn)])


class Consults(AgentMiddleware):
    """Asks a model of its own before the turn, and the server's model after it."""

    async def abefore_model(self, state, runtime):
        await Counted().ainvoke("Is that fine?")

    async def awrap_model_call(self, request, handler):
        response = await handler(request)
        await request.model.ainvoke([HumanMessage("Was that fine?")])
        return response


def setup(registry):
    made = {
        "jumps": ToTools,
        "raises": Raises,
        "odd_results": OddResults,
        "consults": Consults,
        "late": Late,
    }
    for name, make in made.items():
        registry.register_agent(name, name, name, [careful, plain])
        registry.register_middleware(name, lambda _, make=make: make(), targets=[name])
    registry.register_agent("decorated", "decorated", "decorated", [careful, plain])
    parts = [enters, stops, prompts, marks, counts, ends_turn, leaves]
    for number, part in enumerate(parts):
        registry.register_middleware(f"part{number}", lambda _, it=part: it, targets=["decorated"])
