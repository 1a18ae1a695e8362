"""What all areas share of shapes: strict input, output read from records, pages, ids, paging."""

from __future__ import annotations

import uuid
from typing import Annotated, Generic, TypeVar

from fastapi import Path, Query
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from core.errors import NotFound
from core.ids import is_uuid

ItemT = TypeVar("ItemT")


class Input(BaseModel):
    """A body from outside: a field that we do not know is an error, not a wish ignored."""

    model_config = ConfigDict(extra="forbid")


class Output(BaseModel):
    """An answer, read from a record or a dict."""

    model_config = ConfigDict(from_attributes=True)


class Page(Output, Generic[ItemT]):
    """A part of a list; `next_cursor` leads to the next one, null at the end."""

    items: list[ItemT]
    next_cursor: str | None = None


def known_id(text: str) -> str:
    """Return an id in its usual form; what cannot be one names nothing, so it is not found.

    Raises:
        NotFound: it is not a UUID.
    """
    if not is_uuid(text):
        raise NotFound
    return str(uuid.UUID(text))


Id = Annotated[str, AfterValidator(known_id)]
"""A UUID in a body; anything else answers 404 like an unknown one."""

EXAMPLE_ID = "019b2f4e-7d1c-7a40-9c55-3f0e8b6a1d27"

PathId = Annotated[
    str,
    Path(json_schema_extra={"format": "uuid"}, examples=[EXAMPLE_ID]),
    AfterValidator(known_id),
]
"""A UUID in the address."""

Cursor = Annotated[
    str | None,
    Query(max_length=1000, description="`next_cursor` of the page before."),
]
Limit = Annotated[int, Query(ge=1, le=200, description="Most items of a page.")]

Text = Annotated[str, Field(max_length=20_000)]
