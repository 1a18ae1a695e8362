"""Messages over HTTP. No decisions here; see `runtime.sessions`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Path, Response

from api.chat.schemas import Message
from api.errors import BODY, GUARDED, describe
from api.messages.schemas import FeedbackBody, ToolResult
from api.route import GuardedRoute
from api.schemas import PathId
from api.security import ChatReader, ChatWriter
from api.services import ServicesDep
from core.errors import NotFound, SessionBusy

router = APIRouter(prefix="/api/messages", tags=["messages"], route_class=GuardedRoute)


@router.delete("/{message_id}", status_code=204, responses=describe(NotFound, SessionBusy))
async def delete_message(message_id: PathId, who: ChatWriter, services: ServicesDep) -> Response:
    """Remove one message from the visible history and from what the model sees."""
    await services.sessions.delete_message(who, message_id)
    return Response(status_code=204)


@router.put(
    "/{message_id}/feedback",
    response_model=Message,
    responses=describe(NotFound, base=(*GUARDED, *BODY)),
)
async def set_feedback(
    message_id: PathId, body: FeedbackBody, who: ChatWriter, services: ServicesDep
) -> Any:
    """Say whether an answer was good, or take that back."""
    return await services.sessions.feedback(who, message_id, body.feedback, body.note)


@router.get(
    "/{message_id}/tool-results/{tool_call_id}",
    response_model=ToolResult,
    responses=describe(NotFound),
)
async def get_tool_result(
    message_id: PathId,
    tool_call_id: Annotated[str, Path(max_length=200)],
    who: ChatReader,
    services: ServicesDep,
) -> Any:
    """Return the whole result of a tool call; events and history show only its beginning."""
    result = await services.sessions.tool_result(who, message_id, tool_call_id)
    return asdict(result) | {"id": result.tool_call_id}
