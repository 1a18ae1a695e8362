"""Shapes of preferences."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from api.schemas import Input, Output

LONGEST = 8_000


class PreferencesBody(Input):
    """What every agent shall know about you; put into the prompt of every turn."""

    text: Annotated[str, Field(max_length=LONGEST, examples=["Answer in Chinese, briefly."])]


class PreferencesOut(Output):
    """Your preferences; empty where none are set."""

    id: str = Field(description="Your user id.")
    text: str
