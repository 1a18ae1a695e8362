"""Runs over HTTP: look at them, follow them, stop them."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request, Response

from api.chat.deps import follow_run
from api.errors import describe
from api.examples import FRAME, RUN_ID
from api.route import GuardedRoute
from api.runs.schemas import Run
from api.schemas import PathId
from api.security import ChatReader, ChatWriter
from api.services import ServicesDep
from api.sse import EventStream, openapi_stream, place_in
from core.errors import NotCancellable, NotFound

router = APIRouter(prefix="/api", tags=["runs"], route_class=GuardedRoute)

LastEventId = Annotated[
    str | None,
    Header(
        max_length=200,
        description="`<run_id>:<seq>`, as browsers send it by themselves.",
        examples=[f"{RUN_ID}:3"],
    ),
]
After = Annotated[
    int, Query(ge=0, lt=2**53, description="Number of the last event you have; 0 = none.")
]


@router.get("/runs/{run_id}", response_model=Run, responses=describe(NotFound))
async def get_run(run_id: PathId, who: ChatReader, services: ServicesDep) -> Any:
    """Return how a run is doing."""
    return await services.runs.get(who, run_id)


@router.get(
    "/runs/{run_id}/events",
    status_code=200,
    response_class=EventStream,
    responses={200: openapi_stream(FRAME), **describe(NotFound)},
)
async def run_events(
    run_id: PathId,
    who: ChatReader,
    services: ServicesDep,
    request: Request,
    after: After = 0,
    last_event_id: LastEventId = None,
) -> Response:
    """Replay what is stored, then follow live; a run that has ended is replayed and ends.

    `Last-Event-ID` counts before `after`. The id of another run, or a number that this run has
    not reached, replays everything: never a silent gap.
    """
    run = await services.runs.get(who, run_id)
    return follow_run(request, who, run, place_in(run.id, last_event_id, after))


@router.get(
    "/sessions/{session_id}/events",
    status_code=200,
    response_class=EventStream,
    responses={
        200: openapi_stream(FRAME),
        204: {"description": "No run is going or waiting in this session."},
        **describe(NotFound),
    },
)
async def session_events(
    session_id: PathId,
    who: ChatReader,
    services: ServicesDep,
    request: Request,
    after: After = 0,
    last_event_id: LastEventId = None,
) -> Response:
    """Follow the session's active run, as `GET /api/runs/{run_id}/events` does."""
    run = await services.runs.active_run(who, session_id)
    if run is None:
        return Response(status_code=204)
    return follow_run(request, who, run, place_in(run.id, last_event_id, after))


@router.post(
    "/runs/{run_id}/cancel",
    status_code=202,
    response_model=Run,
    responses=describe(NotFound, NotCancellable),
)
async def cancel_run(run_id: PathId, who: ChatWriter, services: ServicesDep) -> Any:
    """Stop a run within one chunk; what was received is kept and marked `cancelled`."""
    await services.runs.cancel(who, run_id)
    return await services.runs.get(who, run_id)
