"""Shapes of signing in."""

from __future__ import annotations

from pydantic import Field

from api.schemas import Output


class Me(Output):
    """Who is calling; only `signed_in` where nobody is known."""

    signed_in: bool
    id: str | None = None
    user_name: str | None = None
    workspace_id: str | None = None
    via: str | None = None
    permissions: list[str] = Field(default_factory=list[str])
