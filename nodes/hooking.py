"""Where the steps of the loop call the hooks of extensions (EXT-10)."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any, Final

from langchain_core.messages import AIMessage, BaseMessage

from core.context import PromptPart, RunContext
from core.errors import HookError, HookResultInvalid, HookTimeout, ToolArgumentsInvalid, ToolDenied
from core.hook_values import BadChange, frozen, plain
from core.hooks import ContextBuilt, ContextPart, ContextParts, ToolCall, ToolResult
from core.tooling import ToolSpec
from nodes.asking import request_of
from nodes.sorting import refusal, sort_calls
from nodes.state import State, calls_of
from tools.hook_messages import rewritten, shown, size_of
from tools.result import Outcome

BROKEN: Final = "graphwright_hook"
"""Mark in a result's artifact: the hook that failed about it and is to end the run."""

_WITHHELD: Final = "This result is withheld: {reason}"
_ERRORS: Final = {one.code: one for one in (HookError, HookTimeout, HookResultInvalid)}


async def hooked_request(state: State, ctx: RunContext) -> list[BaseMessage]:
    """Return the messages of the next turn's request, as hooks at `context.…` want them.

    Raises:
        HookError: a hook failed that is to end the run.
        ContextOverflow, TokenBudget: hooks made the request too long.
    """
    hooks = ctx.hooks
    changed = False
    if hooks.wants("context.before"):
        parts = tuple(ContextPart(name=one.name, text=one.text) for one in ctx.prompt)
        event = ContextParts(run=hooks.run, instructions=ctx.agent.prompt, parts=parts)
        given = await hooks.apply(event)
        if given is not event:
            changed = True
            ctx = dataclasses.replace(
                ctx,
                agent=dataclasses.replace(ctx.agent, prompt=given.instructions),
                prompt=[PromptPart(one.name, one.text) for one in given.parts],
            )
    request = request_of(state, ctx)
    if hooks.wants("context.after"):
        built = ContextBuilt(run=hooks.run, messages=shown(request))
        wanted = await hooks.apply(built)
        if wanted is not built:
            changed = True
            request = rewritten(request, built.messages, wanted.messages)
    if changed:
        ctx.bounds.check(size_of(shown(request)), ctx.model.context_window)
    return request


async def sorted_turn(
    answer: AIMessage, ctx: RunContext, loop: dict[str, Any], *, truncated: bool
) -> tuple[AIMessage, dict[str, Any]]:
    """Return a turn as it is stored, and its calls sorted: the update `decisions`.

    Hooks at `tool_call.before` come first, so that history, card and call have the arguments
    that they left.

    Raises:
        HookError: a hook failed that is to end the run.
    """
    calls = calls_of(answer)
    if not calls:
        return answer, {}
    denied: dict[str, tuple[str, str]] = {}
    if ctx.hooks.wants("tool_call.before") and not truncated:
        args: dict[str, dict[str, Any]] = {}
        for call in calls:
            if refusal(call, ctx, loop) is None:
                await _asked(call, ctx, args, denied)
        answer = _with_args(answer, args)
        calls = calls_of(answer)
    return answer, await sort_calls(calls, ctx, loop, truncated=truncated, denied=denied)


async def recheck_edited(
    calls: list[dict[str, Any]], answers: Mapping[str, Any], ctx: RunContext
) -> dict[str, dict[str, str]]:
    """Show hooks the arguments that people put in; return the calls that they deny.

    What a person entered is what runs: a hook that would change it again has failed.

    Raises:
        HookError: a hook failed that is to end the run.
    """
    denied: dict[str, tuple[str, str]] = {}
    if ctx.hooks.wants("tool_call.before"):
        for call in calls:
            answer = answers.get(call["id"]) or {}
            if answer.get("type") == "edit" and "args" in answer and call["name"] in ctx.tools:
                await _asked(call | {"args": answer["args"]}, ctx, None, denied)
    return {id: {"status": status, "message": said} for id, (status, said) in denied.items()}


async def hooked_outcome(
    call: Mapping[str, Any], outcome: Outcome, ctx: RunContext
) -> tuple[Outcome, dict[str, Any] | None]:
    """Return what hooks at `tool_call.after` make of a result, and which hook failed about it.

    The call has happened, so the failure of a hook must not hide that: the result is stored
    without its content, and `raise_broken` ends the run after that.
    """
    if not ctx.hooks.wants("tool_call.after"):
        return outcome, None
    event = ToolResult(
        run=ctx.hooks.run,
        tool=call["name"],
        tool_call_id=call["id"],
        args=frozen(call["args"]),
        status=outcome.status,
        data=frozen(outcome.data),
    )
    try:
        changed = await ctx.hooks.apply(event, _still_a_message)
    except HookError as problem:
        return withheld(outcome, problem), broken_by(problem)
    return (outcome if changed is event else with_data(outcome, plain(changed.data))), None


def withheld(outcome: Outcome, problem: HookError) -> Outcome:
    """Return a result without its content: a hook failed about it."""
    kept = dataclasses.replace(outcome, sources=(), meta={})
    return with_data(kept, _WITHHELD.format(reason=problem.message))


def with_data(outcome: Outcome, data: Any) -> Outcome:
    """Return a result with other data."""
    error = data if outcome.status != "completed" else outcome.error
    return dataclasses.replace(outcome, data=data, error=error)


def broken_by(problem: HookError) -> dict[str, Any]:
    """Return the mark in a result's artifact of the hook that is to end the run."""
    return {"code": problem.code, "message": problem.message, "details": problem.details}


def raise_broken(artifact: Mapping[str, Any]) -> None:
    """End the run where a hook failed about a result that is stored now.

    Raises:
        HookError: it did.
    """
    mark = artifact.get(BROKEN)
    if mark:
        kind = _ERRORS.get(mark["code"], HookError)
        raise kind(mark["message"], details=dict(mark["details"]))


# Helpers ----------------------------------------------------------------------------------


async def _asked(
    call: Mapping[str, Any],
    ctx: RunContext,
    args: dict[str, dict[str, Any]] | None,
    denied: dict[str, tuple[str, str]],
) -> None:
    """Ask the hooks about one call; note changed arguments in `args`, a refusal in `denied`."""
    spec = ctx.tools[call["name"]]
    event = ToolCall(
        run=ctx.hooks.run,
        tool=spec.name,
        tool_call_id=call["id"],
        side_effect=spec.side_effect,
        edited=args is None,
        args=frozen(call["args"]),
    )
    try:
        changed = await ctx.hooks.apply(event, _fits(spec) if args is not None else _unchanged)
    except ToolDenied as refused:
        denied[call["id"]] = ("denied", refused.message)
        return
    if args is not None and changed is not event:
        args[call["id"]] = plain(changed.args)


def _fits(spec: ToolSpec) -> Callable[[ToolCall], None]:
    return functools.partial(_check_args, spec)


def _check_args(spec: ToolSpec, event: ToolCall) -> None:
    try:
        spec.validate(plain(event.args))
    except ToolArgumentsInvalid as problem:
        said = f"its args do not fit the schema of {spec.name}: {problem.message}"
        raise BadChange(said.rstrip(".")) from None


def _unchanged(_: ToolCall) -> None:
    raise BadChange("it changed arguments that a person had entered")


def _still_a_message(event: ToolResult) -> None:
    if event.status != "completed" and not isinstance(event.data, str):
        raise BadChange(f"the data of a call that ended with {event.status} must be text")


def _with_args(answer: AIMessage, args: Mapping[str, dict[str, Any]]) -> AIMessage:
    if not args:
        return answer
    calls = [
        call | {"args": args[str(call["id"])]} if call["id"] in args else call
        for call in answer.tool_calls
    ]
    return answer.model_copy(update={"tool_calls": calls})
