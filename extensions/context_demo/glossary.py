"""The glossary: a service that is opened once, and the tool that looks into it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

from pydantic import Field

from extensions import ToolFailed, define_tool, get_service, source, sourced

SERVICE: Final = "glossary"

TERMS: Final = {
    "air change": "How often an hour the air of a room is replaced; volume flow over volume.",
    "duct loss": "Pressure that air loses by friction along a duct; it grows with speed squared.",
    "fan curve": "Pressure that a fan gives, over the volume flow that it moves at that pressure.",
    "operating point": "Where the curve of the fan meets that of the ducts; there they work.",
    "换气次数": "每小时室内空气被更换的次数，即风量除以房间体积。",
    "工况点": "风机特性曲线与管网特性曲线的交点，系统在此运行。",
}


@dataclass(slots=True)
class Glossary:
    """Terms and what they mean; a real one would hold a connection."""

    terms: Mapping[str, str]
    open: bool = field(default=True)

    def find(self, text: str) -> dict[str, str]:
        """Return the terms that occur in a text, or that the text is a part of."""
        wanted = text.casefold().strip()
        return {
            term: meaning
            for term, meaning in self.terms.items()
            if wanted and (term in wanted or wanted in term)
        }


@asynccontextmanager
async def open_glossary(services: Mapping[str, Any]) -> AsyncIterator[Glossary]:  # noqa: ARG001 - a factory is always given them
    """Give the glossary for as long as the server runs."""
    glossary = Glossary(TERMS)
    try:
        yield glossary
    finally:
        glossary.open = False


@define_tool(group="ventilation", label="术语查询", idempotent=True)
async def explain_term(term: Annotated[str, Field(min_length=1, max_length=200)]) -> Any:
    """Explain a term of ventilation from the glossary.

    Args:
        term: the term, or a sentence with terms in it.
    """
    glossary: Glossary = get_service(SERVICE)
    found = glossary.find(term)
    if not found:
        raise ToolFailed(f"The glossary knows: {', '.join(glossary.terms)}.")
    return sourced(
        found,
        sources=[source(f"Glossary: {term}", snippet=text) for term, text in found.items()],
    )
