"""Chat over HTTP. No decisions here; see `runtime.runs`."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Form, Query, Request, Response

from api.chat.deps import command_of, stream_of
from api.chat.schemas import ChatForm, Message, PendingInterrupt, ResumeBody
from api.errors import BODY, GUARDED, describe
from api.examples import FRAME
from api.route import GuardedRoute, also_form
from api.schemas import Cursor, Page, PathId, known_id
from api.security import ChatReader, ChatWriter, acting_for
from api.services import ServicesDep
from api.sse import EventStream, openapi_stream
from core.errors import (
    DuplicateRequest,
    FileRefused,
    NoPendingInterrupt,
    NotFound,
    PathRefused,
    QueueFull,
    SessionBusy,
    StaleInterrupt,
)
from runtime.commands import ResumeCommand

router = APIRouter(prefix="/api/chat", tags=["chat"], route_class=GuardedRoute)

WITH_BODY = (*GUARDED, *BODY)


@router.post(
    "",
    status_code=200,
    response_class=EventStream,
    responses={
        200: openapi_stream(FRAME),
        **describe(
            NotFound,
            SessionBusy,
            DuplicateRequest,
            FileRefused,
            PathRefused,
            QueueFull,
            base=WITH_BODY,
        ),
    },
    openapi_extra={"x-also-takes": "ChatFields"},
)
async def send_message(
    form: Annotated[ChatForm, Form(media_type="multipart/form-data")],
    who: ChatWriter,
    services: ServicesDep,
    request: Request,
) -> Response:
    """Send a message and follow the run that answers it.

    A run that was accepted goes on when this stream is closed, unless `on_disconnect=cancel`;
    `GET /api/runs/{run_id}/events` attaches again.
    """
    user = await acting_for(request, who, form.user_name)
    submitted = await services.runs.submit(user, await command_of(form, request))
    return stream_of(request, user, submitted)


@router.post(
    "/resume",
    status_code=200,
    response_class=EventStream,
    responses={
        200: openapi_stream(FRAME),
        **describe(NotFound, NoPendingInterrupt, StaleInterrupt, SessionBusy, base=WITH_BODY),
    },
    openapi_extra={"x-also-takes": "ResumeBody"},
)
@also_form("decisions", "answers")
async def resume(
    body: ResumeBody, who: ChatWriter, services: ServicesDep, request: Request
) -> Response:
    """Answer what a waiting run asked, and follow it on.

    A malformed answer (422) spends nothing: the question can still be answered. In a form,
    `decisions` and `answers` hold JSON.
    """
    user = await acting_for(request, who, body.user_name)
    command = ResumeCommand(
        session_id=body.session_id,
        interrupt_token=body.interrupt_token,
        answer=body.answer(),
        trace_id=request.state.trace_id,
    )
    return stream_of(request, user, await services.runs.resume(user, command))


@router.get(
    "/interrupt",
    response_model=PendingInterrupt,
    responses={204: {"description": "Nothing waits for an answer."}, **describe(NotFound)},
)
async def pending_interrupt(
    session_id: Annotated[str, Query(json_schema_extra={"format": "uuid"})],
    who: ChatReader,
    services: ServicesDep,
) -> Any:
    """Return the card that the session waits on, or 204."""
    card = await services.runs.pending_interrupt(who, known_id(session_id))
    return Response(status_code=204) if card is None else card


@router.get("/history/{session_id}", response_model=Page[Message], responses=describe(NotFound))
async def history(
    session_id: PathId,
    who: ChatReader,
    services: ServicesDep,
    cursor: Cursor = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
) -> Any:
    """Return the newest messages, oldest first; `next_cursor` leads to older ones."""
    items, next_cursor = await services.sessions.history(
        who, session_id, cursor=cursor, limit=limit
    )
    return {"items": items, "next_cursor": next_cursor}
