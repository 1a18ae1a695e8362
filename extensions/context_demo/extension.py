"""Registers the glossary, its tool, a middleware and an agent; `CONTEXT_DEMO_ENABLED=1`."""

from __future__ import annotations

from extensions import Registry, get_setting
from extensions.context_demo.glossary import SERVICE, explain_term, open_glossary
from extensions.context_demo.recall import make_recall

PROMPT = """\
You explain the terms of ventilation. Look each one up with `explain_term`; say so when the
glossary does not know it.
"""


def enabled() -> bool:
    """Tell whether the setting switches this example on."""
    return get_setting("CONTEXT_DEMO_ENABLED", default=False)


def setup(registry: Registry) -> None:
    """Offer the service, the tool and the middleware that need it, and an agent."""
    registry.register_service(SERVICE, open_glossary)
    registry.register_tool(explain_term, requires=[SERVICE])
    registry.register_agent(
        "glossary",
        description="Explains terms of ventilation from a glossary.",
        prompt=PROMPT,
        tools=[explain_term],
        label="术语助手",
    )
    registry.register_middleware(
        "glossary_recall",
        make_recall,
        requires=[SERVICE],
        targets=["assistant", "glossary"],
        harmless=True,
    )
