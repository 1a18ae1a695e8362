"""Sessions over HTTP. No decisions here; see `runtime.sessions`."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from api.errors import BODY, GUARDED, describe
from api.route import GuardedRoute
from api.runs.schemas import Run
from api.schemas import Cursor, Limit, Page, PathId
from api.security import ChatReader, ChatWriter
from api.services import ServicesDep
from api.sessions.schemas import (
    Context,
    Found,
    ModeBody,
    PinBody,
    Session,
    SessionMode,
    TitleBody,
)
from core.errors import NotFound, SessionBusy

router = APIRouter(prefix="/api/sessions", tags=["sessions"], route_class=GuardedRoute)

WITH_BODY = (*GUARDED, *BODY)
Filter = Annotated[str | None, Query(min_length=1, max_length=200)]


@router.get("", response_model=Page[Session], responses=describe())
async def list_sessions(
    who: ChatReader,
    services: ServicesDep,
    cursor: Cursor = None,
    limit: Limit = 50,
    project: Filter = None,
    agent: Filter = None,
    text: Filter = None,
) -> Any:
    """Return pinned sessions first, then the newest. `text` looks into titles."""
    items, next_cursor = await services.sessions.list(
        who, cursor=cursor, limit=limit, project=project, agent=agent, text=text
    )
    return {"items": items, "next_cursor": next_cursor}


@router.get("/search", response_model=Page[Found], responses=describe())
async def search_sessions(
    q: Annotated[str, Query(min_length=1, max_length=200, pattern=r"\S")],
    who: ChatReader,
    services: ServicesDep,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Any:
    """Look for words in titles and in the text of messages."""
    items, next_cursor = await services.sessions.search(who, q, cursor=cursor, limit=limit)
    return {"items": items, "next_cursor": next_cursor}


@router.get("/{session_id}", response_model=Session, responses=describe(NotFound))
async def get_session(session_id: PathId, who: ChatReader, services: ServicesDep) -> Any:
    """Return one session."""
    return await services.sessions.get(who, session_id)


@router.delete("/{session_id}", status_code=204, responses=describe(NotFound, SessionBusy))
async def delete_session(session_id: PathId, who: ChatWriter, services: ServicesDep) -> Response:
    """Remove a session with its messages, events, checkpoints, archives and unshared files."""
    await services.sessions.delete(who, session_id)
    return Response(status_code=204)


@router.put(
    "/{session_id}/pin", response_model=Session, responses=describe(NotFound, base=WITH_BODY)
)
async def pin_session(
    session_id: PathId, body: PinBody, who: ChatWriter, services: ServicesDep
) -> Any:
    """Put a session at the top, or take it from there."""
    return await services.sessions.pin(who, session_id, body.pinned)


@router.put(
    "/{session_id}/title", response_model=Session, responses=describe(NotFound, base=WITH_BODY)
)
async def set_title(
    session_id: PathId, body: TitleBody, who: ChatWriter, services: ServicesDep
) -> Any:
    """Give a session a title of your own; no model changes it from then on."""
    return await services.sessions.set_title(who, session_id, body.title.strip())


@router.get("/{session_id}/mode", response_model=SessionMode, responses=describe(NotFound))
async def get_mode(session_id: PathId, who: ChatReader, services: ServicesDep) -> Any:
    """Return how the session's next runs work."""
    return await services.sessions.get(who, session_id)


@router.put(
    "/{session_id}/mode", response_model=SessionMode, responses=describe(NotFound, base=WITH_BODY)
)
async def set_mode(
    session_id: PathId, body: ModeBody, who: ChatWriter, services: ServicesDep
) -> Any:
    """Change how the session's next runs work."""
    return await services.sessions.set_mode(who, session_id, body.mode)


@router.get("/{session_id}/runs", response_model=Page[Run], responses=describe(NotFound))
async def list_runs(session_id: PathId, who: ChatReader, services: ServicesDep) -> Any:
    """Return the last 50 runs, newest first."""
    return {"items": await services.sessions.runs(who, session_id)}


@router.get("/{session_id}/context", response_model=Context, responses=describe(NotFound))
async def get_context(session_id: PathId, who: ChatReader, services: ServicesDep) -> Any:
    """Return what fills the model's window, and the archives that summarising made."""
    return await services.sessions.context(who, session_id)
