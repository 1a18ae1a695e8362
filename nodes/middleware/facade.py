"""How middleware see the run's model and tools: as LangChain's own kinds of object."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import RunnableBinding
from langchain_core.tools import BaseTool, StructuredTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import PrivateAttr

from core.context import RunContext
from core.errors import MiddlewareFailed
from core.ids import new_id
from core.ports import ModelHandle, TokenSink
from core.tooling import ToolSpec
from nodes.middleware.costs import counted_elsewhere
from nodes.tokens import size_of_all, size_of_tools
from nodes.view import build_view


class ServerModel(BaseChatModel):
    """The run's model. What middleware ask it on their own is neither shown nor kept."""

    model_name: str = ""
    _ctx: RunContext = PrivateAttr()

    def __init__(self, ctx: RunContext) -> None:
        super().__init__()
        self.model_name = ctx.model.name
        self._ctx = ctx

    @property
    def _llm_type(self) -> str:
        return "graphwright"

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | None = None,
        **kwargs: Any,
    ) -> Any:
        """Return this model with tools that it may call."""
        choice = {"tool_choice": "required" if tool_choice == "any" else tool_choice}
        declared = [convert_to_openai_tool(tool) for tool in tools]
        return self.bind(tools=declared, **(choice if tool_choice else {}), **kwargs)

    def get_num_tokens_from_messages(
        self, messages: Sequence[BaseMessage], tools: Sequence[Any] | None = None
    ) -> int:
        """Return about how many tokens a request with these messages takes."""
        declared = [convert_to_openai_tool(tool) for tool in tools or ()]
        return size_of_all(list(messages)) + size_of_tools(declared)

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        del run_manager  # the server's own model counts and shows what it says
        tools = kwargs.pop("tools", ())
        options = {key: value for key, value in kwargs.items() if value is not None}
        if stop:
            options["stop"] = stop
        with counted_elsewhere():
            answer = await asked(
                self._ctx.model, build_view_of(messages), tools, new_id(), options=options
            )
        metadata = answer.response_metadata | {"model_name": self.model_name}
        named = answer.model_copy(update={"response_metadata": metadata})
        return ChatResult(generations=[ChatGeneration(message=named)])

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        raise NotImplementedError("The server's model is asked with `await model.ainvoke(…)`.")


def build_view_of(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return messages as a request, well paired, their system texts first and in one."""
    system = "\n\n".join(one.text for one in messages if one.type == "system")
    rest: list[Any] = [one for one in messages if one.type != "system"]
    view = build_view(rest, system)
    return view if system else view[1:]


async def asked(
    model: ModelHandle,
    request: Sequence[BaseMessage],
    tools: Sequence[dict[str, Any]],
    message_id: str,
    *,
    sink: TokenSink | None = None,
    options: Mapping[str, Any] | None = None,
) -> AIMessage:
    """Ask a model; `options` are further fields of the request."""
    further: dict[str, Any] = {"options": dict(options)} if options else {}
    return await model.ask(request, tools=tools, message_id=message_id, sink=sink, **further)


def unbound(model: Any) -> tuple[Any, dict[str, Any]]:
    """Return the model within bindings, and what they bind."""
    options: dict[str, Any] = {}
    while isinstance(model, RunnableBinding):
        options = {**model.kwargs, **options}
        model = model.bound
    return model, options


def shown_tool(spec: ToolSpec, run: Callable[..., Any]) -> StructuredTool:
    """Return a tool as middleware see it.

    Args:
        spec: the tool.
        run: async; takes the arguments and gives content and artifact of the result.
    """

    async def call(**args: Any) -> Any:
        return await run(spec, args)

    return StructuredTool(
        name=spec.name,
        description=spec.description,
        args_schema=dict(spec.schema),
        coroutine=call,
        response_format="content_and_artifact",
    )


def declared(tools: Sequence[Any], specs: Mapping[str, ToolSpec]) -> list[dict[str, Any]]:
    """Return tools of a request as the provider is told of them.

    Raises:
        MiddlewareFailed: one is offered that the agent does not have.
    """
    told: list[dict[str, Any]] = []
    for tool in tools:
        if isinstance(tool, dict):
            told.append(tool)
        elif tool.name in specs:
            told.append(specs[tool.name].openai())
        else:
            raise MiddlewareFailed(
                f"A middleware offered the tool {tool.name!r}, which this agent does not have. "
                "Tools that a middleware brings along are listed in its attribute `tools`."
            )
    return told
