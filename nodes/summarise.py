"""Makes room: shortens old tool results, and where that is not enough summarises (EXEC-10…13)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AnyMessage, HumanMessage, RemoveMessage, ToolMessage
from langgraph.runtime import Runtime

from core.context import RunContext
from core.errors import ContextExhausted, ContextOverflow, GraphwrightError, HookError
from core.events import Progress
from core.faults import fault
from core.hooks import SummaryRequest, SummaryText
from core.ids import derived_id
from core.log import get_logger
from core.policies import ContextSize, SummaryJob
from nodes.asking import Asking, request_of, request_size, schemas_of, short_enough
from nodes.digest import Order, archive_text, digest, todo_text, transcript
from nodes.policed import is_due
from nodes.policed import summary_of as summary_by_policy
from nodes.review import INTERNAL
from nodes.state import State, loop_of, messages_of, summary_of
from nodes.tokens import counted, size_of_all, size_of_tools, usable_window
from nodes.view import Group, can_shorten, group, shortened_ids

_SMALLEST_PIECE = 500
"""Tokens of a summary request below which it makes no sense."""

_KEEP_WHOLE = 3
"""Groups at the end whose tool results are not shortened."""

_log = get_logger(__name__)


def needs_room(state: State, ctx: RunContext) -> bool:
    """Tell whether the next request comes near the window."""
    if not ctx.limits.compact or loop_of(state)["summary_failed"]:
        return False
    size, window = request_size(state, ctx), usable_window(ctx)
    if ctx.policies.summarisation is None:
        return size >= ctx.limits.summary_at * window
    return is_due(ctx, _measured(state, size, window))


def _measured(state: State, size: int, window: int) -> ContextSize:
    messages = messages_of(state)
    return ContextSize(
        tokens=size,
        window=window,
        messages=len(messages),
        user_messages=sum(_by_user(message) for message in messages),
        model_calls=loop_of(state)["model_calls"],
    )


def oldest(groups: Sequence[Group], sizes: Sequence[int], room: float) -> list[Group]:
    """Return the groups that must go so that the others fit into the room.

    The last group always stays, and so does everything from the first group on that has a
    call without result: a call is never parted from what it waits for.
    """
    kept, used = 0, 0.0
    for size in reversed(sizes):
        if kept and used + size > room:
            break
        kept, used = kept + 1, used + size
    cut = len(groups) - kept
    pending = (index for index, one in enumerate(groups) if one.pending)
    return list(groups[: min(cut, next(pending, cut))])


async def summarise(state: State, runtime: Runtime[RunContext]) -> dict[str, Any]:
    """Take away from the model's view what is old, never what is stored or still pending.

    Raises:
        HookError: a hook failed that is to end the run.
        ContextExhausted: there is nothing left to take away, or the summary failed and the
            conversation does not fit.
    """
    ctx = runtime.context
    plan = _Plan(state, ctx)
    update = await _shortened(plan)
    if update is not None:
        return update
    removed = plan.removable()
    if not removed:
        if plan.forced:
            raise ContextExhausted
        return {"loop": plan.loop}
    ctx.emit(Progress(message="Summarising the earlier conversation"))
    info = runtime.execution_info
    message_id = derived_id(ctx.run_id, info.task_id if info else "", "summary")
    fault("summary.before")
    try:
        return await _summarised(plan, removed, message_id)
    except HookError:
        raise
    except (GraphwrightError, OSError) as problem:
        # Nothing was removed yet. Not tried again in this run, so that it cannot loop.
        _log.warning("summary failed", exc_info=True)
        if plan.forced or plan.size > plan.window:
            raise ContextExhausted from problem
        return {"loop": plan.loop | {"summary_failed": True}}


class _Plan:
    """What is known before room is made."""

    def __init__(self, state: State, ctx: RunContext) -> None:
        self.state, self.ctx = state, ctx
        self.messages = messages_of(state)
        self.summary = summary_of(state)
        self.loop = loop_of(state)
        self.groups = group(self.messages)
        self.window = usable_window(ctx)
        self.forced = bool(self.loop["overflow"])
        """Whether the provider said that the request is too long, whatever our count is."""
        self.size = request_size(state, ctx)
        self.guess = self.guessed(self.messages, self.summary)
        known = counted(self.messages, self.summary)
        believed = known is not None and known == self.size
        self.ratio = min(max(self.size / self.guess, 0.5), 3.0) if believed else 1.0
        """How the provider's count relates to our estimate."""

    def guessed(self, messages: Sequence[AnyMessage], summary: dict[str, Any]) -> int:
        """Return the estimate of a request with these messages."""
        state = {"messages": messages, "summary": summary}
        return size_of_all(request_of(state, self.ctx)) + size_of_tools(schemas_of(self.ctx))

    @property
    def summary_tokens(self) -> int:
        return min(2_000, max(self.window // 8, 100))

    def removable(self) -> list[Group]:
        """Return the oldest groups, as many as must go to come down to the target."""
        target = self.ctx.limits.summary_to * self.window / self.ratio
        sizes = [size_of_all(list(one.members())) for one in self.groups]
        fixed = self.guess - sum(sizes)
        room = target - max(fixed, 0) - self.summary_tokens
        if self.forced:
            room = min(room, sum(sizes) / 3)
        elif self.ctx.policies.summarisation is not None:
            # It says itself when: there may be no pressure at all, and yet something must go.
            room = min(room, sum(sizes) / 2)
        return oldest(self.groups, sizes, room)

    def last_id(self) -> str | None:
        """Return the last message whose count is overtaken by what is done here."""
        return self.messages[-1].id if self.messages else None


async def _shortened(plan: _Plan) -> dict[str, Any] | None:
    """Shorten old tool results; None where that would not make enough room."""
    tight = plan.forced or plan.size > plan.window
    keep = 0 if tight and not plan.removable() else _KEEP_WHOLE
    old = plan.groups[: max(len(plan.groups) - keep, 0)]
    results = [result for one in old for result in one.results]
    already = shortened_ids(plan.messages, plan.summary)
    new = [one for one in results if one.id not in already and can_shorten(one)]
    if not new:
        return None
    mark = plan.summary | {"shortened_upto": _last_of(plan.messages, results)}
    after = plan.guessed(plan.messages, mark) * plan.ratio
    limits = plan.ctx.limits
    enough = plan.window * (limits.summary_at + limits.summary_to) / 2
    if after > enough or (plan.forced and after > plan.size * 0.7):
        return None
    for result in new:
        if not await _kept(result, plan.ctx):
            return None
    return {"summary": mark | {"usage_after": plan.last_id()}, "loop": plan.loop}


def _last_of(messages: Sequence[AnyMessage], wanted: Sequence[ToolMessage]) -> str | None:
    ids = {one.id for one in wanted}
    return next((one.id for one in reversed(messages) if one.id in ids), None)


async def _kept(result: ToolMessage, ctx: RunContext) -> bool:
    """Store a result whole before it is shortened for the first time."""
    full = (result.artifact or {}).get("full") or str(result.content)
    try:
        await ctx.archive.keep(str(result.id), full)
    except (GraphwrightError, OSError):
        _log.warning("result not shortened: it could not be stored", exc_info=True)
        return False
    return True


async def _summarised(plan: _Plan, removed: list[Group], message_id: str) -> dict[str, Any]:
    ctx = plan.ctx
    text, spent = await _hooked(plan, removed, message_id)
    at = ctx.clock.now().isoformat(timespec="seconds")
    path = await ctx.archive.append(ctx.session_id, archive_text(removed, at))
    gone = [message for one in removed for message in one.members()]
    ids = {message.id for message in gone}
    kept = [message for message in plan.messages if message.id not in ids]
    summary = plan.summary | {
        "text": text,
        "path": path,
        "usage_after": kept[-1].id if kept else None,
        **_verbatim(plan, gone, kept),
    }
    summary = await _tightened(plan, kept, summary)
    after = int(plan.guessed(kept, summary) * plan.ratio)
    archive = {
        "id": message_id,
        "path": path,
        "summary": text,
        "messages": len(gone),
        "tokens_before": plan.size,
        "tokens_after": after,
    }
    loop = plan.loop | {"tokens": plan.loop["tokens"] + spent, "context_tokens": after}
    if plan.forced:
        loop["overflow"] = "summarised"
    return {
        "messages": [RemoveMessage(id=str(message.id)) for message in gone],
        "summary": summary | {"archive": archive},
        "loop": loop,
    }


async def _tightened(
    plan: _Plan, kept: Sequence[AnyMessage], summary: dict[str, Any]
) -> dict[str, Any]:
    """Shorten the results that stay, too, where the summary alone does not make enough room."""
    enough = plan.size / 2 if plan.forced else plan.window * plan.ctx.limits.summary_at
    results = [message for message in kept if isinstance(message, ToolMessage)]
    if not results or plan.guessed(kept, summary) * plan.ratio <= enough:
        return summary
    for result in results:
        if can_shorten(result) and not await _kept(result, plan.ctx):
            return summary
    return summary | {"shortened_upto": results[-1].id}


async def _hooked(plan: _Plan, removed: list[Group], message_id: str) -> tuple[str, int]:
    """Return the summary and its tokens, as hooks at `summarisation.…` want them."""
    hooks, earlier = plan.ctx.hooks, str(plan.summary.get("text") or "")
    count = sum(len(list(one.members())) for one in removed)
    asked = SummaryRequest(run=hooks.run, messages=count, earlier=earlier, instructions="")
    wanted = (await hooks.apply(asked)).instructions
    text, spent = await _digested(plan, removed, message_id, wanted)
    changed = await hooks.apply(SummaryText(run=hooks.run, messages=count, text=text))
    # A hook cannot make it longer than a model may.
    return short_enough(changed.text, plan.summary_tokens), spent


async def _digested(
    plan: _Plan, removed: list[Group], message_id: str, instructions: str
) -> tuple[str, int]:
    """Return the summary and its tokens; in smaller pieces where a request was too long."""
    replaced = size_of_all([message for one in removed for message in one.members()])
    # Never longer than what it stands for.
    output = min(plan.summary_tokens, max(replaced // 2, 100))
    if plan.ctx.policies.summarisation is not None:
        return await _by_policy(plan, removed, message_id, Order(0, output, instructions))
    limit = plan.ctx.limits.summary_input or plan.window
    if plan.forced:
        # The declared window is not the true one: ask for half of what was refused at most.
        limit = min(limit, max(plan.guess // 2, _SMALLEST_PIECE))
    while True:
        try:
            return await digest(
                removed,
                plan.summary.get("text", ""),
                plan.ctx,
                message_id,
                Order(limit, output, instructions),
            )
        except ContextOverflow:
            if limit <= _SMALLEST_PIECE:
                raise
            limit = max(limit // 2, _SMALLEST_PIECE)


async def _by_policy(
    plan: _Plan, removed: list[Group], message_id: str, order: Order
) -> tuple[str, int]:
    """Return the summary that a policy writes, and the tokens it asked for."""
    asking = Asking(plan.ctx, "summary", message_id, order.output_limit)
    job = SummaryJob(
        transcript=tuple(transcript(removed)),
        earlier=str(plan.summary.get("text") or ""),
        instructions=order.instructions,
        output_tokens=order.output_limit,
        ask=asking.ask,
    )
    text = await summary_by_policy(plan.ctx, job)
    return short_enough(text, order.output_limit), asking.spent


def _verbatim(
    plan: _Plan, gone: Sequence[AnyMessage], kept: Sequence[AnyMessage]
) -> dict[str, str]:
    """Return what survives word for word: first goal, present request, current plan."""
    most = max(plan.window // 10, 100)
    asked = [short_enough(message.text, most) for message in gone if _by_user(message)]
    goal = plan.summary.get("goal") or (asked[0] if asked else "")
    request = ""
    if not any(_by_user(message) for message in kept):
        request = asked[-1] if asked else plan.summary.get("request", "")
    todos = todo_text(plan.state.get("todos") or [])
    todos = short_enough(todos, most)
    agreed = short_enough(str(plan.loop.get("plan") or ""), most)
    current = "\n\n".join(filter(None, (agreed, todos)))
    return {
        "goal": goal,
        "request": "" if request == goal else request,
        "plan": current or str(plan.summary.get("plan") or ""),
    }


def _by_user(message: AnyMessage) -> bool:
    return isinstance(message, HumanMessage) and not message.additional_kwargs.get(INTERNAL)
