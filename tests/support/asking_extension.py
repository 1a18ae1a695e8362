"""An extension whose middleware and tools ask people themselves; tests load it as a folder."""

from __future__ import annotations

from langchain.agents.middleware import AgentMiddleware, ModelResponse, hook_config
from langchain_core.messages import AIMessage, RemoveMessage, ToolMessage
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import interrupt

from extensions import define_tool

ENTERED = {"once": 0, "left": 0, "sent": 0}


@define_tool(group="ask", side_effect="external")
def send(text: str) -> str:
    """Send something.

    Args:
        text: what.
    """
    ENTERED["sent"] += 1
    return f"sent {text}"


@define_tool(group="ask")
def careful(text: str) -> str:
    """Do something after a question of its own.

    Args:
        text: what.
    """
    answer = interrupt(f"Really {text}?")
    return f"{text}: {answer}"


class AsksBefore(AgentMiddleware):
    @hook_config(can_jump_to=["end"])
    def before_model(self, state, runtime):
        if any(message.type == "ai" for message in state["messages"]):
            return None
        answer = interrupt("Shall I begin?")
        if answer == "no":
            return {"messages": [AIMessage("Then not.")], "jump_to": "end"}
        return None


class AsksAfter(AgentMiddleware):
    async def aafter_model(self, state, runtime):
        turn = state["messages"][-1]
        answer = interrupt({"said": turn.text, "options": ["keep", "drop"]})
        return {"messages": [AIMessage(f"{turn.text} ({answer})", id=turn.id)]}


class AsksAround(AgentMiddleware):
    def wrap_tool_call(self, request, handler):
        answer = interrupt({"tool": request.tool_call["name"]})
        if answer == {"go": True}:
            return handler(request)
        return ToolMessage("not now", tool_call_id=request.tool_call["id"])


class AsksAroundModel(AgentMiddleware):
    async def awrap_model_call(self, request, handler):
        answer = interrupt("Ask the model?")
        return await handler(request) if answer == "yes" else AIMessage("Unasked.")


class CallsItself(AgentMiddleware):
    """Answers in the model's place, with a call."""

    def wrap_model_call(self, request, handler):
        if request.messages[-1].type == "tool":
            return handler(request)
        call = {"name": "send", "args": {"text": "x"}, "id": "mine", "type": "tool_call"}
        return ModelResponse(result=[AIMessage("", tool_calls=[call])])


class TakesBack(AgentMiddleware):
    @hook_config(can_jump_to=["end"])
    def after_model(self, state, runtime):
        turn = state["messages"][-1]
        return {"messages": [RemoveMessage(turn.id), AIMessage("Something else.")]}


class Wipes(AgentMiddleware):
    def after_model(self, state, runtime):
        turn = state["messages"][-1]
        return {"messages": [RemoveMessage(REMOVE_ALL_MESSAGES), AIMessage(turn.text)]}


class Dirty(AgentMiddleware):
    def after_model(self, state, runtime):
        turn = state["messages"][-1]
        return {"messages": [AIMessage(turn.text + " \x00 \ud800 end", id=turn.id)]}


class Once(AgentMiddleware):
    def before_agent(self, state, runtime):
        ENTERED["once"] += 1

    def after_agent(self, state, runtime):
        ENTERED["left"] += 1


def setup(registry):
    made = {
        "asks_before": AsksBefore,
        "asks_after": AsksAfter,
        "asks_around": AsksAround,
        "asks_around_model": AsksAroundModel,
        "calls_itself": CallsItself,
        "takes_back": TakesBack,
        "wipes": Wipes,
        "dirty": Dirty,
        "once": Once,
    }
    for name, make in made.items():
        registry.register_middleware(name, lambda _, make=make: make(), targets=[name])
        registry.register_agent(name, "Tests.", "Test.", tools=["calculate", send, careful])
    registry.register_agent("plain", "Tests.", "Test.", tools=["calculate", send, careful])
    registry.register_agent("checked", "Tests.", "Test.", tools=["calculate"], review=True)
    registry.register_middleware("around_checked", lambda _: Once(), targets=["checked"])
