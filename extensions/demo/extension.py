"""Registers the airflow calculator and the agent `ventilation`."""

from __future__ import annotations

from extensions import Registry
from extensions.demo.airflow import airflow

PROMPT = """\
You help engineers size ventilation. Ask for room volume, air changes and number of people when
they are missing, work the figures out with `airflow`, and show the formula with the result.
"""


def setup(registry: Registry) -> None:
    """Offer the tool and its agent."""
    registry.register_tool(airflow)
    registry.register_agent(
        "ventilation",
        description="Sizes the ventilation of rooms.",
        prompt=PROMPT,
        tools=[airflow, "calculate", "ask_user"],
        label="通风助手",
    )
