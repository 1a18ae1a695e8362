"""From the form to a command, and from a submitted run to its stream."""

from __future__ import annotations

from fastapi import Request

from api.chat.schemas import ChatForm
from api.security import identify
from api.services import services_of
from api.sse import EventStream, Stream
from core.errors import NotCancellable, NotFound
from core.principal import Principal
from core.records import RunRecord
from runtime.commands import ChatCommand, Submitted, Upload


async def command_of(form: ChatForm, request: Request) -> ChatCommand:
    """Return the form as a command; files are in memory from here on, bounded by the body's limit."""
    files = [Upload(file.filename or "file", await file.read()) for file in form.file]
    return ChatCommand(
        message=form.message,
        session_id=form.session_id,
        thread_id=form.thread_id,
        mode=form.mode,
        files=tuple(files),
        request_id=form.request_id,
        agent=form.agent,
        model=form.model,
        thinking=form.thinking,
        on_disconnect=form.on_disconnect,
        multitask=form.multitask,
        trace_id=request.state.trace_id,
    )


def stream_of(request: Request, user: Principal, submitted: Submitted) -> EventStream:
    """Return the answer that follows a run from where a command began.

    A client that leaves it takes the run along where the run was begun with
    `on_disconnect=cancel` (CHAT-08).

    Args:
        request: who asked; the stream ends when that credential ends.
        user: whose run it is.
        submitted: the run.
    """
    services = services_of(request)
    runs = services.runs

    async def cancel() -> None:
        try:
            await runs.cancel(user, submitted.run_id)
        except (NotCancellable, NotFound):
            return  # it ended by itself just before

    stream = Stream(
        session_id=submitted.session_id,
        run_id=submitted.run_id,
        clock=services.clock,
        check=lambda: identify(request),
        on_gone=cancel if submitted.on_disconnect == "cancel" else None,
    )
    return EventStream(runs.follow(user, submitted.run_id, submitted.after), stream)


def follow_run(request: Request, user: Principal, run: RunRecord, after: int) -> EventStream:
    """Return the answer that attaches to a run; leaving it changes nothing."""
    services = services_of(request)
    stream = Stream(
        session_id=run.session_id,
        run_id=run.id,
        clock=services.clock,
        check=lambda: identify(request),
    )
    return EventStream(services.runs.follow(user, run.id, after), stream)
