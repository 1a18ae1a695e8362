"""Completion review: is an answer without calls the end of the work (EXEC-06)?"""

from __future__ import annotations

import json
import re
from typing import Any

from langchain_core.messages import HumanMessage, SystemMessage
from langgraph.runtime import Runtime

from core.context import RunContext
from core.errors import PolicyFailed, ProviderError
from core.events import Progress
from core.ids import derived_id
from core.log import get_logger
from core.policies import ReviewJob
from core.text import fenced
from nodes.asking import Asking, count_usage, request_of, short_enough
from nodes.budgets import check_budgets
from nodes.policed import verdict_of
from nodes.state import State, last_turn, loop_of, messages_of
from nodes.tokens import usable_window

INTERNAL = "graphwright_internal"
"""Mark in `additional_kwargs` of messages that the server wrote to the model; not shown."""

_RULES = """\
You check whether an agent's work on the user's latest request is complete. Judge only by the \
conversation you are given. Answer with one JSON object and nothing else:
{"verdict": "complete" | "continue" | "blocked", "note": "…"}
complete: everything asked for is done or honestly answered.
continue: something asked for is missing and the agent can do it now; the note says what.
blocked: the agent cannot go on without the user; the note is the question to the user."""

_OBJECT = re.compile(r"\{.*\}", re.DOTALL)

_log = get_logger(__name__)


async def review(state: State, runtime: Runtime[RunContext]) -> dict[str, Any]:
    """Judge the answer: end, go on with a note, or leave a question for the user.

    The question is put by `approve`, because this node would ask the model again after the
    user's answer.
    """
    ctx = runtime.context
    loop = loop_of(state)
    if loop["reviews"] >= ctx.limits.reviews:
        return {"loop": loop | {"review": None}}
    check_budgets(ctx, loop)
    loop["model_calls"] += 1
    loop["steps"] += 1
    info = runtime.execution_info
    message_id = derived_id(ctx.run_id, info.task_id if info else "", "review")
    if ctx.policies.review is not None:
        return await _by_policy(state, ctx, loop, message_id)
    request = _request(state, ctx)
    try:
        answer = await ctx.model.ask(request, message_id=message_id)
    except ProviderError:
        # The answer stands and was shown: a review that fails must not turn it into an error.
        _log.warning("completion review failed", exc_info=True)
        return {"loop": loop | {"review": None}}
    loop["tokens"] += count_usage(ctx, "review", request, answer)
    return _judged(read_verdict(answer.text), loop, message_id)


async def _by_policy(
    state: State, ctx: RunContext, loop: dict[str, Any], message_id: str
) -> dict[str, Any]:
    """Let a policy judge; where it fails the answer stands, and that is said."""
    turn = last_turn(messages_of(state))
    asking = Asking(ctx, "review", message_id)
    job = ReviewJob(
        conversation=tuple((one.type, str(one.text)) for one in request_of(state, ctx)[1:]),
        answer=str(turn.text) if turn else "",
        ask=asking.ask,
    )
    try:
        verdict = await verdict_of(ctx, job)
    except (PolicyFailed, ProviderError) as problem:
        _log.warning("completion review failed", exc_info=True)
        ctx.emit(Progress(message=f"The answer could not be reviewed: {problem.message}"[:500]))
        verdict = ("complete", "")
    loop["tokens"] += asking.spent
    return _judged(verdict, loop, message_id)


def _judged(judged: tuple[str, str], loop: dict[str, Any], message_id: str) -> dict[str, Any]:
    verdict, note = judged
    loop["reviews"] += 1
    loop["review"] = {"note": note} if verdict == "blocked" else None
    if verdict != "continue":
        return {"loop": loop}
    text = f"[completion review] The work is not complete yet: {note} Go on with it now."
    more = HumanMessage(text, id=message_id, additional_kwargs={INTERNAL: True})
    return {"loop": loop, "messages": [more]}


def read_verdict(text: str) -> tuple[str, str]:
    """Return verdict and note; what cannot be read counts as `complete`."""
    found = _OBJECT.search(text)
    try:
        body = json.loads(found.group()) if found else {}
    except ValueError:
        body = {}
    verdict, note = str(body.get("verdict", "")), str(body.get("note") or "").strip()[:2_000]
    if verdict not in ("continue", "blocked") or not note:
        return "complete", note
    return verdict, note


def _request(state: State, ctx: RunContext) -> list[Any]:
    """Return the conversation as one text: a reviewer must not answer in the agent's place."""
    lines = [
        f"{message.type}: {message.text or json.dumps(getattr(message, 'tool_calls', ''))}"
        for message in request_of(state, ctx)[1:]
    ]
    text = short_enough("\n\n".join(lines), usable_window(ctx) // 2)
    return [
        SystemMessage(_RULES),
        HumanMessage(f"{fenced('conversation', text)}\n\nIs the work complete?"),
    ]
