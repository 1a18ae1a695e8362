"""How much air a room needs: plain arithmetic that a test can call without any server."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from extensions import define_tool, source, sourced

_PER_PERSON = 30.0
"""Cubic metres of outdoor air for one person and hour."""


@define_tool(group="ventilation", label="通风量计算", idempotent=True)
def airflow(
    volume_m3: Annotated[float, Field(gt=0, le=1_000_000)],
    air_changes_per_hour: Annotated[float, Field(gt=0, le=100)],
    people: Annotated[int, Field(ge=0, le=100_000)] = 0,
) -> Any:
    """Work out the airflow a room needs, by its volume and by the people in it.

    Args:
        volume_m3: volume of the room in cubic metres.
        air_changes_per_hour: how often the air is to be replaced in an hour.
        people: how many people are in the room.
    """
    by_volume = volume_m3 * air_changes_per_hour
    by_people = people * _PER_PERSON
    needed = max(by_volume, by_people)
    return sourced(
        {
            "needed_m3_per_hour": round(needed, 1),
            "by_volume_m3_per_hour": round(by_volume, 1),
            "by_people_m3_per_hour": round(by_people, 1),
            "needed_litres_per_second": round(needed / 3.6, 1),
        },
        sources=[
            source(
                "Airflow rule of the demo extension",
                snippet=f"Q = max(volume × air changes, people × {_PER_PERSON:g} m³/h)",
            )
        ],
    )
