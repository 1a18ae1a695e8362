"""Asks the model through the middleware that wrap its calls, outermost first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from langchain.agents.middleware import ExtendedModelResponse, ModelRequest, ModelResponse
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, SystemMessage
from langgraph.runtime import Runtime
from langgraph.types import Command

from core.context import RunContext
from core.errors import ContextOverflow, LimitReached, MiddlewareFailed
from core.text import clean, clean_value
from nodes.asking import count_usage
from nodes.budgets import check_budgets
from nodes.hooking import hooked_request
from nodes.middleware.costs import counted_elsewhere, counting
from nodes.middleware.facade import ServerModel, asked, build_view_of, declared, shown_tool, unbound
from nodes.middleware.messages import named_calls, written
from nodes.middleware.stack import Member, Past, Stack
from nodes.state import State, messages_of

ASKED_AGAIN: Final = "The model is asked again."
CHANGED: Final = "The answer was changed before it was final."


@dataclass(slots=True)
class Asked:
    """What came of a turn."""

    turn: AIMessage
    further: list[Any] = field(default_factory=list[Any])
    """Messages beside the turn."""
    update: dict[str, Any] = field(default_factory=dict[str, Any])
    """Further state that middleware wrote."""


@dataclass(slots=True)
class Shown:
    """Passes tokens on and remembers what was shown; a `core.ports.TokenSink`."""

    ctx: RunContext
    text: str = ""
    any: bool = False

    def token(self, message_id: str, text: str) -> None:
        """Take a piece of the answer."""
        self.text, self.any = self.text + text, True
        self.ctx.sink.token(message_id, text)

    def thinking(self, message_id: str, text: str) -> None:
        """Take a piece of the reasoning."""
        self.any = True
        self.ctx.sink.thinking(message_id, text)

    def reset(self, message_id: str, reason: str) -> None:
        """Tell that the text of this message starts anew."""
        if self.any:
            self.text, self.any = "", False
            self.ctx.sink.reset(message_id, reason)


def tell(ctx: RunContext, turn: AIMessage) -> None:
    """Show a turn that was held back."""
    reasoning = str(turn.additional_kwargs.get("reasoning_content") or "")
    ctx.sink.thinking(str(turn.id), reasoning)
    ctx.sink.token(str(turn.id), turn.text)


class Asking:
    """One turn of a run whose agent has middleware."""

    def __init__(
        self, stack: Stack, state: State, runtime: Runtime[RunContext], loop: dict[str, Any]
    ) -> None:
        """Prepare a turn.

        Args:
            stack: the agent's middleware.
            state: the graph's state.
            runtime: carries the run.
            loop: the run's counters; calls and tokens are added to them.
        """
        self._stack, self._state, self._runtime, self._loop = stack, state, runtime, loop
        self._ctx = runtime.context
        self._wrappers = stack.at("wrap_model_call")
        self._request: list[BaseMessage] = []
        self._model = ServerModel(self._ctx)
        self._given: ModelRequest[RunContext] | None = None
        self._shown = Shown(self._ctx)
        self._calls = 0
        self._answered: AIMessage | None = None

    async def turn(self, message_id: str) -> Asked:
        """Ask, and show what may be shown already.

        Raises:
            MiddlewareFailed: a middleware raised, or gave what is no answer.
            GraphwrightError: what asking the model raises.
        """
        self._message_id = message_id
        self._request = await hooked_request(self._state, self._ctx)
        try:
            with counting(self._ctx) as spent:
                response, commands = await self._layer(0, self._first_request())
        except Past as past:
            raise past.error from past.error.__cause__
        self._loop["tokens"] += spent.tokens
        result = self._taken(response, commands)
        self._show(result.turn)
        return result

    # Helpers ----------------------------------------------------------------------------

    def _first_request(self) -> ModelRequest[RunContext]:
        ctx = self._ctx
        specs = [ctx.tools[name] for name in ctx.agent.tools if name in ctx.tools]
        system = self._request[0]
        assert isinstance(system, SystemMessage)
        self._given = ModelRequest(
            model=self._model,
            messages=list(self._request[1:]),  # pyright: ignore[reportArgumentType]
            system_message=system,
            tools=[shown_tool(spec, _not_here) for spec in specs],
            state={**self._state, "messages": list(messages_of(self._state))},  # pyright: ignore[reportArgumentType]
            runtime=self._runtime,
        )
        return self._given

    async def _layer(
        self, index: int, request: ModelRequest[RunContext]
    ) -> tuple[ModelResponse[Any], list[Command[Any]]]:
        """Run the wrapper at this depth around those further in."""
        if index == len(self._wrappers):
            return await self._ask(request), []
        member, inner = self._wrappers[index], list[Command[Any]]()

        async def handler(changed: ModelRequest[RunContext]) -> ModelResponse[Any]:
            response, commands = await self._layer(index + 1, changed)
            inner[:] = commands
            return response

        with member.named("wrap_model_call"):
            given = await member.wrapper("wrap_model_call")(request, handler)
            return _response(member, given, inner)

    async def _ask(self, request: ModelRequest[RunContext]) -> ModelResponse[Any]:
        """Ask the model that the request names; the innermost layer."""
        try:
            if self._calls:
                check_budgets(self._ctx, self._loop)
                self._loop["model_calls"] += 1
                self._shown.reset(self._message_id, ASKED_AGAIN)
            self._calls += 1
            with counted_elsewhere():
                answer = await self._answer(request)
        except (ContextOverflow, LimitReached) as error:
            raise Past(error) from error
        return ModelResponse(result=[answer])

    async def _answer(self, request: ModelRequest[RunContext]) -> AIMessage:
        if request.response_format is not None:
            raise MiddlewareFailed(
                "A middleware asked for a response_format; agents here answer in text."
            )
        ctx = self._ctx
        model, options = unbound(request.model)
        options = {**options, **request.model_settings}
        if request.tool_choice is not None:
            options["tool_choice"] = (
                "required" if request.tool_choice == "any" else request.tool_choice
            )
        tools = options.pop("tools", None) or declared(request.tools, ctx.tools)
        view = self._view(request)
        sink = None if self._stack.holds_back else self._shown
        handle = ctx.model if isinstance(model, ServerModel) else _other(model, ctx)
        answer = await asked(handle, view, tools, self._message_id, sink=sink, options=options)
        self._loop["tokens"] += count_usage(ctx, "turn", view, answer)
        self._answered = answer
        return answer

    def _view(self, request: ModelRequest[RunContext]) -> list[BaseMessage]:
        """Return the messages to be sent: ours where nothing changed, well paired otherwise."""
        given = self._given
        assert given is not None
        same = request.system_message is given.system_message and len(request.messages) == len(
            given.messages
        )
        if same and all(
            one is other for one, other in zip(request.messages, given.messages, strict=True)
        ):
            return self._request
        system = [request.system_message] if request.system_message is not None else []
        return build_view_of([*system, *request.messages])

    def _taken(self, response: ModelResponse[Any], commands: Sequence[Command[Any]]) -> Asked:
        """Return the turn under its id, with what the middleware wrote beside it."""
        known = messages_of(self._state)
        first = next((one for one in response.result if isinstance(one, AIMessage)), None)
        if first is None:
            raise MiddlewareFailed("The middleware of this agent gave no message of the assistant.")
        further = [one for one in response.result if one is not first]
        update: dict[str, Any] = {}
        for command in commands:
            given = dict(command.update or {}) if isinstance(command.update, dict) else {}
            more = given.pop("messages", None)
            further += more if isinstance(more, list) else [more] if more is not None else []
            update |= given
        turn = _named(first, self._message_id, self._answered)
        return Asked(turn, written(further, known, self._message_id), update)

    def _show(self, turn: AIMessage) -> None:
        """Let what was shown be what is kept; what is held back is shown by `judge`."""
        if self._stack.holds_back:
            return
        if self._shown.text != turn.text:
            self._shown.reset(self._message_id, CHANGED)
            tell(self._ctx, turn)
        self._ctx.drive.memo["shown"] = (turn.id, turn.text)


def _response(
    member: Member, given: Any, inner: list[Command[Any]]
) -> tuple[ModelResponse[Any], list[Command[Any]]]:
    """Return what a wrapper gave in one form."""
    commands = list(inner)
    if isinstance(given, ExtendedModelResponse):
        command = given.command
        if command is not None:
            if command.goto or command.resume or command.graph:
                raise MiddlewareFailed(
                    f"{member.name}.wrap_model_call gave a command that goes somewhere; only its "
                    "update is taken. Use jump_to in before_model or after_model."
                )
            commands.append(command)
        given = given.model_response
    if isinstance(given, AIMessage):
        given = ModelResponse(result=[given])
    if not isinstance(given, ModelResponse):
        raise MiddlewareFailed(
            f"{member.name}.wrap_model_call gave {type(given).__name__}, not a ModelResponse."
        )
    return given, commands


def _named(turn: AIMessage, message_id: str, answer: AIMessage | None) -> AIMessage:
    """Return a turn under the id it is shown with, its text fit to be stored.

    Args:
        turn: as the outermost middleware gave it.
        message_id: the turn's id.
        answer: what a model said last; what the provider told of it is kept.
    """
    content = turn.content
    update: dict[str, Any] = {
        "id": message_id,
        "content": clean(content) if isinstance(content, str) else clean_value(list(content)),
        "tool_calls": named_calls(turn, message_id),
    }
    for name in ("usage_metadata", "response_metadata"):
        if answer is not None and not getattr(turn, name):
            update[name] = getattr(answer, name)
    return turn.model_copy(update=update)


def _other(model: Any, ctx: RunContext) -> Any:
    """Return the handle of a model that a middleware brought along."""
    from providers.chat_model import ChatModelHandle

    if not isinstance(model, BaseChatModel):
        kind = type(model).__name__
        raise MiddlewareFailed(f"A middleware chose {kind}, which is no chat model.")
    return ChatModelHandle(model, clock=ctx.clock)


async def _not_here(*_: Any) -> Any:
    raise NotImplementedError("Tools are not called while the model is asked.")
