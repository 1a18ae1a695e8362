"""A model whose questions and answers pass the hooks of the run that asks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from langchain_core.messages import AIMessage, BaseMessage

from core.bounds import Bounds
from core.errors import HookError
from core.hook_values import BadChange
from core.hooks import Hooks, ModelAnswer, ModelRequest
from core.ports import ModelHandle, TokenSink
from core.tokens import provider_counts
from tools.hook_messages import calls_of, rewritten, shown, size_of, with_text


class HookedModel:
    """A model with hooks around it. Implements `core.ports.ModelHandle`."""

    def __init__(self, inner: ModelHandle, hooks: Hooks, bounds: Bounds) -> None:
        """Put the hooks of one run around a model."""
        self.name = inner.name
        self.provider = inner.provider
        self.context_window = inner.context_window
        self.max_output = inner.max_output
        self.is_demo = inner.is_demo
        self._inner = inner
        self._hooks = hooks
        self._bounds = bounds

    async def ask(
        self,
        messages: Sequence[Any],
        *,
        tools: Sequence[dict[str, Any]] = (),
        message_id: str,
        sink: TokenSink | None = None,
        max_tokens: int | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> AIMessage:
        """Ask the model what the hooks make of the question; see `core.ports.ModelHandle`.

        Where a hook may change the answer, nothing of it is shown before that has happened.

        Raises:
            HookError: a hook failed that is to end the run.
            ContextOverflow, TokenBudget: hooks made the request too long.
            ProviderError: the model failed.
        """
        question: dict[str, Any] = {
            "messages": list(messages),
            "tools": list(tools),
            "max_tokens": max_tokens,
        }
        if self._hooks.wants("model_request.before"):
            question = await self._before(question, shown_to_user=sink is not None)
        held = self._hooks.changes("model_request.after")
        answer: AIMessage = await self._inner.ask(
            question["messages"],
            tools=question["tools"],
            message_id=message_id,
            sink=None if held else sink,
            max_tokens=question["max_tokens"],
            **({"options": options} if options else {}),
        )
        if self._hooks.wants("model_request.after"):
            answer = await self._after(answer, shown_to_user=sink is not None)
        if held and sink is not None:
            sink.thinking(message_id, _reasoning(answer))
            sink.token(message_id, answer.text)
        return answer

    # Helpers ----------------------------------------------------------------------------

    async def _before(self, question: dict[str, Any], *, shown_to_user: bool) -> dict[str, Any]:
        messages = cast("list[BaseMessage]", question["messages"])
        by_name = {_name_of(tool): tool for tool in question["tools"]}
        event = ModelRequest(
            run=self._hooks.run,
            model=self._inner.name,
            shown=shown_to_user,
            messages=shown(messages),
            tools=tuple(by_name),
            max_tokens=question["max_tokens"],
        )
        most = max(self.max_output, event.max_tokens or 0)

        def within(changed: ModelRequest) -> None:
            if changed.max_tokens is not None and changed.max_tokens > most:
                raise BadChange(f"its max_tokens is {changed.max_tokens}; {most} are allowed")

        changed = await self._hooks.apply(event, within)
        if changed is event:
            return question
        if changed.messages is not event.messages:
            self._bounds.check(size_of(changed.messages), self.context_window)
        return {
            "messages": rewritten(messages, event.messages, changed.messages),
            "tools": [by_name[name] for name in changed.tools],
            "max_tokens": changed.max_tokens,
        }

    async def _after(self, answer: AIMessage, *, shown_to_user: bool) -> AIMessage:
        counts = provider_counts(answer.usage_metadata) if answer.usage_metadata else {}
        metadata = answer.response_metadata
        event = ModelAnswer(
            run=self._hooks.run,
            model=str(metadata.get("model") or self._inner.name),
            shown=shown_to_user,
            calls=calls_of(answer),
            finish_reason=str(metadata.get("finish_reason") or ""),
            input_tokens=counts.get("input_tokens", 0),
            output_tokens=counts.get("output_tokens", 0),
            text=str(answer.text),
            reasoning=_reasoning(answer),
        )
        try:
            changed = await self._hooks.apply(event)
        except HookError:
            source = str(metadata.get("usage_source") or "none")
            self._bounds.spent("hook", {"model": event.model, "usage_source": source, **counts})
            raise
        if changed.text != event.text:
            answer = with_text(answer, changed.text)
        if changed.reasoning != event.reasoning:
            more = answer.additional_kwargs | {"reasoning_content": changed.reasoning}
            answer = answer.model_copy(update={"additional_kwargs": more})
        return answer


def hooked(model: ModelHandle, hooks: Hooks, bounds: Bounds | None = None) -> ModelHandle:
    """Return the model with the hooks around it; the model itself where there are none."""
    if hooks.wants("model_request.before") or hooks.wants("model_request.after"):
        return HookedModel(model, hooks, bounds or Bounds())
    return model


def _name_of(tool: Mapping[str, Any]) -> str:
    return str(dict(tool.get("function") or tool).get("name") or "")


def _reasoning(answer: AIMessage) -> str:
    return str(answer.additional_kwargs.get("reasoning_content") or "")
