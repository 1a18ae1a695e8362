"""An extension with an agent for each of LangChain's ready-made middleware; loaded as a folder."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path

from langchain.agents import middleware as ready
from langchain_core.decisions import BaseDecisionModel, ChoiceAnswer, ClassifierResponse, NoulAnswer
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from extensions import define_tool

TRIES = {"shaky": 0, "hidden": 0}
MAIL = "anna@example.org"


@define_tool(group="ready", idempotent=True)
def double(number: int) -> int:
    """Double a number.

    Args:
        number: what to double.
    """
    return number * 2


@define_tool(group="ready", idempotent=True, requires_approval=True)
def careful(number: int) -> int:
    """Give a number back, after a person agreed.

    Args:
        number: given back.
    """
    return number


@define_tool(group="ready", idempotent=True)
def shaky(number: int) -> int:
    """Fail twice with an error of its own.

    Args:
        number: given back.
    """
    TRIES["shaky"] += 1
    if TRIES["shaky"] < 3:
        raise ConnectionError("no way to postgresql://me:hunter2hunter2@db.local/x")
    return number


@define_tool(group="ready", idempotent=True)
def hidden(number: int) -> int:
    """Fail always with an error of its own.

    Args:
        number: not used.
    """
    TRIES["hidden"] += 1
    raise ValueError(f"no {number} at postgresql://me:hunter2hunter2@db.local/x")


@define_tool(group="ready")
def address(name: str) -> str:
    """Look an address up.

    Args:
        name: whose.
    """
    return f"{name}: {MAIL}"


class Judge(BaseDecisionModel):
    """Takes the second route; finds every call with a 7 risky."""

    @property
    def _provider(self):
        return "test"

    def _classify(self, state, questions):
        answers = {}
        for name in questions:
            if name == "model_route":
                answers[name] = ChoiceAnswer(
                    type="choice", choice="small", probabilities={"small": 1.0}, confidence=1.0
                )
            else:
                risky = "7" in str(state["tool_call"]["args"])
                assert state["messages"]
                answers[name] = NoulAnswer(type="noul", noul=1.0 if risky else 0.0)
        return ClassifierResponse(model="judge", answers=answers)


class Fake(BaseChatModel):
    """Says one message after the other."""

    said: list[AIMessage]

    @property
    def _llm_type(self):
        return "fake"

    def bind_tools(self, tools, **kwargs):
        return self

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        return ChatResult(generations=[ChatGeneration(message=self.said.pop(0))])


def speaking(*texts):
    said = [one if isinstance(one, AIMessage) else AIMessage(one) for one in texts]
    return Fake(said=said)


def fails(error, request):
    name = request.tool_call["name"]
    return f"{name} has no such number" if isinstance(error, ValueError) else None


def pii(strategy, **where):
    return lambda: ready.PIIMiddleware("email", strategy=strategy, **where)


def quietly(make):
    """Make one of those that warn because they are new."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make()


def folder():
    root = Path(tempfile.mkdtemp(prefix="gw-ready-"))
    (root / "notes.txt").write_text("the needle\n")
    return str(root)


ROOT = folder()
calling = AIMessage(
    "", tool_calls=[{"name": "careful", "args": {"number": 4}, "id": "r1", "type": "tool_call"}]
)
routes = {
    "big": ready.ModelChoice(speaking("Never."), "hard"),
    "small": ready.ModelChoice(speaking(calling, "Small answer."), "easy"),
}
READY = {
    "retry_says": lambda: ready.ModelRetryMiddleware(max_retries=1, initial_delay=0.01),
    "retry_ends": lambda: ready.ModelRetryMiddleware(
        max_retries=1, initial_delay=0.01, on_failure="error"
    ),
    "model_end": lambda: ready.ModelCallLimitMiddleware(run_limit=1),
    "model_error": lambda: ready.ModelCallLimitMiddleware(run_limit=1, exit_behavior="error"),
    "model_thread": lambda: ready.ModelCallLimitMiddleware(thread_limit=1),
    "tool_goes_on": lambda: ready.ToolCallLimitMiddleware(run_limit=1),
    "tool_end": lambda: ready.ToolCallLimitMiddleware(run_limit=1, exit_behavior="end"),
    "tool_error": lambda: ready.ToolCallLimitMiddleware(run_limit=1, exit_behavior="error"),
    "tool_named": lambda: ready.ToolCallLimitMiddleware(tool_name="double", run_limit=1),
    "redact": pii("redact", apply_to_output=True, apply_to_tool_results=True),
    "mask": pii("mask", apply_to_output=True, apply_to_tool_results=True),
    "hash": pii("hash", apply_to_output=True, apply_to_tool_results=True),
    "block": pii("block", apply_to_output=True, apply_to_tool_results=True),
    "editing": lambda: ready.ContextEditingMiddleware(
        edits=[ready.ClearToolUsesEdit(trigger=10, keep=1)], token_count_method="model"
    ),
    "emulated": lambda: ready.LLMToolEmulator(tools=["double"], model=speaking("about 40")),
    "selected": lambda: ready.LLMToolSelectorMiddleware(max_tools=1, always_include=["address"]),
    "retried": lambda: ready.ToolRetryMiddleware(
        max_retries=3, initial_delay=0.01, retry_on=(ConnectionError,)
    ),
    "told": lambda: ready.ToolErrorMiddleware(fails),
    "searching": lambda: ready.FilesystemFileSearchMiddleware(root_path=ROOT, use_ripgrep=False),
    "routed": lambda: ready.ModelRouterMiddleware(
        choices=routes, instructions="Choose.", classifier=Judge(model="judge")
    ),
    "careful_mode": lambda: ready.AutoModeMiddleware(
        tools=["double"], classifier=Judge(model="judge")
    ),
    "refusing": ready.ModelRefusalMiddleware,
    "shell": lambda: ready.ShellToolMiddleware(
        ROOT, execution_policy=ready.HostExecutionPolicy(command_timeout=5)
    ),
}


def setup(registry):
    tools = [double, careful, shaky, hidden, address]
    for name, make in READY.items():
        registry.register_agent(name, name, name, tools)
        registry.register_middleware(
            f"{name}_mw", lambda services, make=make: quietly(make), targets=[name]
        )
