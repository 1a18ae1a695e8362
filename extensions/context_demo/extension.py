"""Registers the glossary, its tool and an agent, where `CONTEXT_DEMO_ENABLED=1` is set."""

from __future__ import annotations

from extensions import Registry, get_setting
from extensions.context_demo.glossary import SERVICE, explain_term, open_glossary

PROMPT = """\
You explain the terms of ventilation. Look each one up with `explain_term`; say so when the
glossary does not know it.
"""


def enabled() -> bool:
    """Tell whether the setting switches this example on."""
    return get_setting("CONTEXT_DEMO_ENABLED", default=False)


def setup(registry: Registry) -> None:
    """Offer the service, the tool that needs it, and an agent."""
    registry.register_service(SERVICE, open_glossary)
    registry.register_tool(explain_term, requires=[SERVICE])
    registry.register_agent(
        "glossary",
        description="Explains terms of ventilation from a glossary.",
        prompt=PROMPT,
        tools=[explain_term],
        label="术语助手",
    )
