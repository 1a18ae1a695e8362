"""Who may delegate to whom is checked at the start, and the tool is made for each agent."""

from __future__ import annotations

from typing import Any

import pytest

import extensions.core.extension
from core.errors import ConfigError, Fault
from core.registry import Assembly, Registry
from extensions import define_tool
from runtime.registry import assemble


@pytest.fixture
def registry() -> Registry:
    """A registry with the built-in extension and an agent to delegate to."""
    registry = Registry(extension="core")
    extensions.core.extension.setup(registry)
    registry.where, registry.extension = "mine", "mine"
    registry.register_agent("researcher", "Finds things out.")
    return registry


def assembled(registry: Registry, **options: Any) -> Assembly:
    registry.register_agent("chief", **options)
    return assemble(registry)


def fault_of(registry: Registry, **options: Any) -> Fault:
    with pytest.raises(ConfigError) as caught:
        assembled(registry, **options)
    [fault] = caught.value.faults
    assert fault.cure
    return fault


@pytest.mark.req("EXEC-41", "EXT-04")
def test_the_tool_comes_with_the_delegates_and_with_nothing_else(registry: Registry) -> None:
    assembly = assembled(registry, tools=["now"], delegates=["researcher", "researcher"])
    chief = assembly.agents["chief"]
    assert (chief.tools, chief.delegates) == (("now", "delegate"), ("researcher",))
    others = [one for one in assembly.agents.values() if "delegate" in one.tools]
    assert others == [chief]


@pytest.mark.req("EXEC-41", "EXEC-23")
def test_delegating_itself_may_need_approval(registry: Registry) -> None:
    assembly = assembled(registry, delegates=["researcher"], approval_tools=["delegate"])
    assert assembly.agents["chief"].approval_tools == {"delegate"}


@pytest.mark.req("EXEC-41", "EXT-05")
@pytest.mark.parametrize(
    ("options", "what", "cure"),
    [
        ({"delegates": ["resarcher"]}, "'resarcher'", "Did you mean 'researcher'?"),
        ({"delegates": ["chief"]}, "itself", "Take it out"),
        ({"delegates": "researcher"}, "str, not a list", "delegates=[…]"),
        ({"delegates": [7]}, "names 7", "Known agents"),
        ({"tools": ["delegate"]}, "nobody to delegate to", "delegates=[…]"),
    ],
)
def test_a_wrong_delegate_stops_the_start_with_its_cure(
    registry: Registry, options: dict[str, Any], what: str, cure: str
) -> None:
    fault = fault_of(registry, **options)
    assert fault.where == "mine: agent 'chief'"
    assert what in fault.what
    assert cure in fault.cure


@pytest.mark.req("EXEC-41", "EXT-05")
def test_no_other_tool_can_be_the_one_that_delegates(registry: Registry) -> None:
    @define_tool(kind="delegate")
    def mine(agent: str, task: str) -> str:
        """Pose as the built-in tool."""
        return agent + task

    assert "only the built-in one" in fault_of(registry, tools=[mine]).what


@pytest.mark.req("EXEC-41", "EXT-05")
def test_without_the_built_in_tool_nobody_can_delegate() -> None:
    registry = Registry(where="mine")
    registry.register_agent("assistant")
    assert "Load the extension `core`" in fault_of(registry, delegates=["assistant"]).cure
