"""Where the steps of the loop take decisions from policies of extensions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, cast

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from core.context import RunContext
from core.errors import GraphwrightError, PolicyFailed, RunError
from core.log import get_logger
from core.policies import VERDICTS, ContextSize, ContextView, ReviewJob, SummaryJob
from core.text import clean
from tools.guarded import result_of

SECONDS: Final = 600.0
"""What a policy may take that asks the model; the model's own limits hold besides."""

NOTE: Final = 2_000
"""Characters of a review's note that are kept."""

_log = get_logger(__name__)


def viewed(
    view: ContextView, ctx: RunContext, messages: Sequence[BaseMessage], more: tuple[str, Any]
) -> list[BaseMessage]:
    """Return the messages of a request as a policy wants them.

    Args:
        view: the policy.
        ctx: the run.
        messages: the stored conversation; the policy gets copies.
        more: the system prompt, and what stands for removed messages.

    Raises:
        PolicyFailed: it failed, or what it gave is no request that a model can be sent.
    """
    system, summary = more
    copies = [message.model_copy() for message in messages]
    built = _plainly(ctx, "context_view", lambda: view.build(copies, system, dict(summary)))
    wrong = fault_of(built, system)
    if wrong:
        raise PolicyFailed(f"{ctx.policies.named('context_view')} gave a broken request: {wrong}.")
    return cast("list[BaseMessage]", built)


def fault_of(view: object, system: str) -> str:
    """Return what is wrong with a list of messages as a request; empty where nothing is."""
    if not isinstance(view, list) or not all(isinstance(one, BaseMessage) for one in view):
        return "it is no list of LangChain messages"
    if not view or not isinstance(view[0], SystemMessage) or view[0].text != system:
        return "the system prompt does not stand first"
    if not any(isinstance(one, HumanMessage) for one in view[1:2]):
        return "no message of a user follows the system prompt"
    open_calls: list[str] = []
    for message in view[1:]:
        wrong = _misplaced(message, open_calls)
        if wrong:
            return wrong
    return f"the call {open_calls[0]!r} has no result" if open_calls else ""


def _misplaced(message: BaseMessage, open_calls: list[str]) -> str:
    """Return what is wrong with one message after those before it; notes its calls."""
    if isinstance(message, SystemMessage):
        return "a second system prompt is in it"
    if isinstance(message, ToolMessage):
        if not open_calls or open_calls[0] != message.tool_call_id:
            return f"the result {message.tool_call_id!r} does not follow its call"
        del open_calls[0]
        return ""
    if open_calls:
        return f"the call {open_calls[0]!r} has no result"
    if isinstance(message, AIMessage):
        if message.invalid_tool_calls:
            return "a call with unreadable arguments is in it"
        open_calls.extend(str(call["id"]) for call in message.tool_calls)
    return ""


def is_due(ctx: RunContext, size: ContextSize) -> bool:
    """Ask a summarisation policy whether room is to be made.

    Raises:
        PolicyFailed: it failed, or answered neither yes nor no.
    """
    policy = ctx.policies.summarisation
    assert policy is not None
    answer: object = _plainly(ctx, "summarisation", lambda: policy.due(size))
    if not isinstance(answer, bool):
        said = f"due() gave {type(answer).__name__}, not True or False"
        raise PolicyFailed(f"{ctx.policies.named('summarisation')}: {said}.")
    return answer


async def summary_of(ctx: RunContext, job: SummaryJob) -> str:
    """Let a policy write a summary.

    Raises:
        PolicyFailed: it failed, or gave no text.
        RunError: asking the model failed.
    """
    policy = ctx.policies.summarisation
    assert policy is not None
    text = await _later(ctx, "summarisation", lambda: policy.summarise(job))
    if not isinstance(text, str) or not text.strip():
        kind = "an empty text" if isinstance(text, str) else type(text).__name__
        raise PolicyFailed(f"{ctx.policies.named('summarisation')} gave {kind}, no summary.")
    return clean(text.strip())


async def verdict_of(ctx: RunContext, job: ReviewJob) -> tuple[str, str]:
    """Let a policy judge an answer.

    Raises:
        PolicyFailed: it failed, or gave something else than a verdict and a note.
        RunError: asking the model failed.
    """
    policy = ctx.policies.review
    assert policy is not None
    given = await _later(ctx, "completion_review", lambda: policy.review(job))
    match given:
        case (verdict, str(note)) if verdict in VERDICTS:
            return str(verdict), clean(note.strip())[:NOTE]
        case _:
            said = (
                f"it gave {type(given).__name__}, not a verdict ({', '.join(VERDICTS)}) and a note"
            )
            raise PolicyFailed(f"{ctx.policies.named('completion_review')}: {said}.")


# Helpers ----------------------------------------------------------------------------------


def _plainly(ctx: RunContext, kind: str, call: Callable[[], Any]) -> Any:
    try:
        return call()
    except BaseException as problem:  # boundary: a policy of an extension may raise anything
        raise _failed(ctx, kind, problem) from problem


async def _later(ctx: RunContext, kind: str, call: Callable[[], Awaitable[Any]]) -> Any:
    try:
        value, problem = await result_of(call, SECONDS)
    except TimeoutError as late:
        said = f"{ctx.policies.named(kind)} did not end within {SECONDS:g} seconds."
        raise PolicyFailed(said) from late
    if problem is not None:
        raise _failed(ctx, kind, problem) from problem
    return value


def _failed(ctx: RunContext, kind: str, problem: BaseException) -> GraphwrightError:
    if isinstance(problem, RunError):
        return problem
    facts: Mapping[str, Any] = {"kind": kind, "policy": (ctx.policies.names or {}).get(kind)}
    _log.error("policy failed", exc_info=problem, extra={"kv": dict(facts)})
    return PolicyFailed(f"{ctx.policies.named(kind)} failed ({type(problem).__name__}).")
