"""A middleware that puts terms of the user's question and their meaning before the model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from extensions.context_demo.glossary import SERVICE, Glossary

if TYPE_CHECKING:
    from langchain.agents.middleware import AgentMiddleware

LEAD = "Terms of the glossary that occur in the user's message, for your information:"


def make_recall(services: Mapping[str, Any]) -> AgentMiddleware[Any, Any]:
    """Return a new instance; LangChain is imported only where this extension is switched on."""
    from langchain.agents.middleware import AgentMiddleware
    from langchain_core.messages import SystemMessage

    glossary: Glossary = services[SERVICE]

    class GlossaryRecall(AgentMiddleware[Any, Any]):
        """Changes the request only, never the answer, so it is registered as harmless."""

        async def awrap_model_call(self, request: Any, handler: Any) -> Any:
            """Add the meanings to the system prompt of this one request."""
            asked = next((one for one in reversed(request.messages) if one.type == "human"), None)
            found = glossary.find(asked.text) if asked is not None else {}
            if not found:
                return await handler(request)
            terms = "\n".join(f"- {term}: {meaning}" for term, meaning in found.items())
            text = f"{request.system_message.text}\n\n{LEAD}\n{terms}"
            return await handler(request.override(system_message=SystemMessage(text)))

    return GlossaryRecall()
