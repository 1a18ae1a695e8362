"""Carries a call out through the middleware that wrap tool calls, outermost first."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, cast

from langchain_core.messages import AnyMessage, ToolMessage, convert_to_messages
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.errors import GraphBubbleUp
from langgraph.prebuilt import ToolNode
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.runtime import Runtime
from langgraph.types import Command
from pydantic import BaseModel, ValidationError

from core.context import RunContext
from core.errors import (
    MiddlewareFailed,
    RequestError,
    ToolArgumentsInvalid,
    ToolDenied,
    ToolError,
    ToolFailed,
    ToolTimeout,
)
from core.masking import mask_told
from core.tooling import ToolSpec
from nodes.middleware.channels import Fields
from nodes.middleware.costs import counting
from nodes.middleware.facade import shown_tool
from nodes.middleware.messages import written
from nodes.middleware.stack import Stack
from nodes.middleware.steps import written_state
from nodes.run_tool import forbidden, noted, run_by
from nodes.sorting import asks_first
from tools.carry_out import attempt, outcome_of, unexpected
from tools.context import CallContext
from tools.result import Outcome, completed, failed, for_model

Given = ToolMessage | Command[Any]
Step = Callable[..., Awaitable[dict[str, Any]]]

CHANGED = (
    "A middleware changed this call after the user had approved it, so it was not carried out."
)


def tool_step(stack: Stack, fields: Fields) -> Step:
    """Return the step that carries calls out through the middleware.

    Args:
        stack: the agent's middleware.
        fields: channels that there are beside ours.
    """

    async def run_tool(
        payload: Mapping[str, Any], runtime: Runtime[RunContext], config: RunnableConfig
    ) -> dict[str, Any]:
        """Carry out the call, or say why not; see `nodes.run_tool`."""
        carrying = _Carrying(stack, fields, config)
        update = await run_by(carrying.carry, payload, runtime)
        known = update["messages"]
        further = written(carrying.further, known, str(known[0].id)) if carrying.further else []
        state = written_state("wrap_tool_call", carrying.state, fields)
        return {**state, **update, "messages": [*known, *further]}

    return run_tool


class _Carrying:
    """One call on its way through the wrappers."""

    def __init__(self, stack: Stack, fields: Fields, config: RunnableConfig) -> None:
        self._wrappers = stack.at("wrap_tool_call")
        self._fields = fields
        self._brought = {tool.name: tool for tool in stack.tools}
        self._config = config
        self._first: Given | Exception | None = None
        self._raised: list[tuple[Exception, ToolError | RequestError]] = []
        """What the tool raised, and what may be told of it."""
        self.further: list[Any] = []
        """Messages beside the call's result."""
        self.state: dict[str, Any] = {}
        """Further state that middleware or their tools wrote."""

    async def carry(
        self, payload: Mapping[str, Any], about: CallContext, ctx: RunContext
    ) -> Outcome:
        """Return how the call ended; raises nothing but the run's own end."""
        self._call, self._about, self._ctx = payload["call"], about, ctx
        self._payload = payload
        refused = forbidden(self._call["name"], payload, ctx)
        if refused is not None:
            return refused
        node = ToolNode(
            [self._tool(self._call["name"])],
            handle_tool_errors=False,
            awrap_tool_call=cast("Any", self._wrapped),
        )
        call = {**self._call, "type": "tool_call"}
        try:
            with counting(ctx):
                given = await node.ainvoke([call], self._config)
        except (ToolError, RequestError) as problem:
            return noted(outcome_of(problem), payload)
        except MiddlewareFailed as problem:
            # A call that fails never ends the run; the model may find another way.
            return failed(problem.message)
        except Exception as error:  # boundary: the tool's own exception, past every wrapper
            problem = self._told_of(error)
            if problem is None:
                raise
            return noted(outcome_of(problem), payload)
        return noted(self._outcome(given), payload)

    # Helpers ----------------------------------------------------------------------------

    def _tool(self, name: str) -> BaseTool:
        return self._brought.get(name) or shown_tool(self._ctx.tools[name], self._run)

    async def _wrapped(
        self, request: ToolCallRequest, execute: Callable[[ToolCallRequest], Awaitable[Given]]
    ) -> Given:
        async def layer(index: int, changed: ToolCallRequest) -> Given:
            if index == len(self._wrappers):
                return await self._innermost(changed, execute)
            member = self._wrappers[index]

            async def handler(inner: ToolCallRequest) -> Given:
                return await layer(index + 1, inner)

            with member.named("wrap_tool_call", lambda one: self._told_of(one) is not None):
                given = await member.wrapper("wrap_tool_call")(changed, handler)
                return _checked(given, f"{member.name}.wrap_tool_call", self._fields)

        return await layer(0, request)

    async def _innermost(
        self, request: ToolCallRequest, execute: Callable[[ToolCallRequest], Awaitable[Given]]
    ) -> Given:
        """Call the tool, where the call is still one that may be carried out."""
        name = request.tool_call["name"]
        refused = forbidden(name, self._payload, self._ctx) or self._unapproved(request)
        if refused is not None:
            return self._message(refused)
        spec = self._ctx.tools[name]
        if self._first is not None and spec.side_effect != "none" and not spec.idempotent:
            # Whoever asks again: what changes something and may not be repeated runs once.
            return _again(self._first)
        if name != self._call["name"]:
            request = request.override(tool=self._tool(name))
        try:
            brought = name in self._brought
            self._first = await (
                self._limited(spec, request, execute) if brought else execute(request)
            )
            _checked(self._first, f"The tool {name}", self._fields)
        except (ToolError, RequestError) as problem:
            self._first = self._as_raised(problem)
            raise self._first from None
        return self._first

    def _as_raised(self, problem: ToolError | RequestError) -> Exception:
        """Return what the tool itself raised: middleware tell errors apart by their kind."""
        cause = problem.__cause__
        if not (isinstance(problem, ToolFailed) and isinstance(cause, Exception)):
            return problem
        self._raised.append((cause, problem))
        return cause

    def _told_of(self, error: Exception) -> ToolError | RequestError | None:
        """Return what may be told of an exception, where the tool raised it."""
        return next((told for raised, told in self._raised if raised is error), None)

    def _unapproved(self, request: ToolCallRequest) -> Outcome | None:
        call = request.tool_call
        same = call["name"] == self._call["name"] and call["args"] == self._call["args"]
        if same or not asks_first(self._ctx.tools[call["name"]], self._ctx):
            return None
        return failed(CHANGED, "denied")

    async def _run(self, spec: ToolSpec, args: dict[str, Any]) -> tuple[str, Outcome]:
        """Call one of our tools; what cannot get better by a repeat is no exception."""
        try:
            outcome = await attempt(spec, args, self._about, timeout=self._ctx.limits.tool_timeout)
        except (ToolDenied, ToolArgumentsInvalid) as problem:
            outcome = outcome_of(problem)
        return for_model(outcome, self._ctx.limits.result_chars), outcome

    async def _limited(
        self,
        spec: ToolSpec,
        request: ToolCallRequest,
        execute: Callable[[ToolCallRequest], Awaitable[Given]],
    ) -> Given:
        """Call a tool that a middleware brought along, within its time."""
        limit = spec.timeout or self._ctx.limits.tool_timeout
        try:
            return await asyncio.wait_for(_coroutine(execute(request)), limit)
        except (ToolError, RequestError, GraphBubbleUp):
            raise
        except TimeoutError:
            raise ToolTimeout(f"{spec.name} did not end within {limit:g} seconds.") from None
        except Exception as error:  # boundary: an extension's tool may raise anything
            raise unexpected(spec.name, error, self._call["id"]) from error

    def _message(self, outcome: Outcome) -> ToolMessage:
        return ToolMessage(
            for_model(outcome, self._ctx.limits.result_chars),
            artifact=outcome,
            tool_call_id=self._call["id"],
            name=self._call["name"],
            status="success" if outcome.status == "completed" else "error",
        )

    def _outcome(self, given: Any) -> Outcome:
        """Return how the call ended, by what the outermost wrapper gave."""
        mine: ToolMessage | None = None
        for item in given if isinstance(given, list) else [given]:
            update = item.update if isinstance(item, Command) else item
            if not isinstance(update, Mapping):
                continue
            state = dict(cast("Mapping[str, Any]", update))
            messages = _messages_in(state)
            state.pop("messages", None)
            for message in messages:
                if mine is None and self._is_mine(message):
                    mine = cast("ToolMessage", message)
                else:
                    self.further.append(message)
            self.state |= state
        if mine is None:
            return failed("A middleware of this agent gave no result for this call.")
        return self._read(mine)

    def _is_mine(self, message: AnyMessage) -> bool:
        return isinstance(message, ToolMessage) and message.tool_call_id == self._call["id"]

    def _read(self, message: ToolMessage) -> Outcome:
        outcome, text = message.artifact, message.text
        if not isinstance(outcome, Outcome):
            for raised, problem in self._raised:
                # Ready-made ones quote it; its text may carry paths, hosts, and secrets.
                text = text.replace(str(raised), problem.message) if str(raised) else text
            return failed(mask_told(text)) if message.status == "error" else completed(text)
        if message.content == for_model(outcome, self._ctx.limits.result_chars):
            return outcome
        # A wrapper wrote over what the tool said; where it came from still holds.
        return replace(outcome, data=completed(data_in(text)).data)


def _checked(given: Any, where: str, fields: Fields) -> Any:
    """Return what a wrapper gave, where it is something that can be taken.

    Here, not when the step ends: the call fails then, and the run goes on.

    Raises:
        MiddlewareFailed: it is not.
    """
    for one in given if isinstance(given, list) else [given]:
        if not isinstance(one, ToolMessage | Command):
            kind = type(one).__name__
            raise MiddlewareFailed(f"{where} gave {kind}, not a ToolMessage or a Command.")
        if isinstance(one, Command) and (one.goto or one.resume or one.graph):
            raise MiddlewareFailed(
                f"{where} gave a command that goes somewhere; only its update is taken."
            )
        update = one.update if isinstance(one, Command) else None
        if isinstance(update, Mapping):
            _check_update(where, cast("Mapping[Any, Any]", update), fields)
    return given


def _check_update(where: str, update: Mapping[Any, Any], fields: Fields) -> None:
    state = {name: value for name, value in update.items() if name != "messages"}
    written_state(where, state, fields)
    try:
        _messages_in(update)
    except (ValueError, NotImplementedError, TypeError) as problem:
        raise MiddlewareFailed(f"{where} gave messages that are none.") from problem


def _messages_in(update: Mapping[Any, Any]) -> list[AnyMessage]:
    given = update.get("messages") or []
    listed = given if isinstance(given, list | tuple) else [given]
    return cast("list[AnyMessage]", convert_to_messages(cast("list[Any]", listed)))


def data_in(content: str) -> Any:
    """Return the data of a result in our form; any other text is data itself."""
    try:
        body = json.loads(content)
    except ValueError:
        return content
    return body["data"] if isinstance(body, dict) and {"status", "data"} <= body.keys() else content


def spec_of(tool: BaseTool, extension: str) -> ToolSpec:
    """Return a tool that a middleware brings along as one of ours.

    Nothing is known of what it changes, so it counts as one that may.
    """
    function = convert_to_openai_tool(tool)["function"]

    def validate(args: Mapping[str, Any]) -> dict[str, Any]:
        schema = tool.tool_call_schema
        if isinstance(schema, type) and issubclass(schema, BaseModel):
            try:
                schema.model_validate(dict(args))
            except ValidationError as problem:
                told = "; ".join(error["msg"] for error in problem.errors(include_input=False)[:10])
                raise ToolArgumentsInvalid(
                    f"The arguments of {tool.name} are wrong. {told}."
                ) from None
        return dict(args)

    return ToolSpec(
        name=tool.name,
        label=tool.name,
        group="middleware",
        description=str(function.get("description") or ""),
        schema=function.get("parameters") or {"type": "object", "properties": {}},
        validate=validate,
        call=_by_its_middleware,
        requires_approval=False,
        side_effect="external",
        idempotent=False,
        timeout=None,
        extension=extension,
    )


def _again(first: Given | Exception) -> Given:
    if isinstance(first, Exception):
        raise first
    return first


async def _coroutine(given: Awaitable[Given]) -> Given:
    return await given


async def _by_its_middleware(*_: Any) -> Any:
    raise NotImplementedError("Tools of a middleware run through it.")
