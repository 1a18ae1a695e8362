"""What extensions register is checked together; a bad start names every fault."""

from __future__ import annotations

import pytest

import extensions.core.extension
import extensions.demo.extension
from core.errors import ConfigError
from core.registry import Registry
from extensions import Sourced, define_tool, source
from extensions.demo.airflow import airflow
from runtime.registry import assemble


@pytest.fixture
def registry() -> Registry:
    """The shipped extensions, registered as the server does it."""
    registry = Registry()
    for name, module in (("core", extensions.core.extension), ("demo", extensions.demo.extension)):
        registry.where = name
        module.setup(registry)
    registry.where = "mine"
    return registry


def faults_of(registry: Registry, *hitl: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        assemble(registry, hitl)
    for fault in caught.value.faults:
        assert fault.where
        assert fault.cure
    return [f"{fault.where}: {fault.what} {fault.cure}" for fault in caught.value.faults]


@define_tool(requires_approval=True, side_effect="external")
def send_mail(to: str) -> str:
    """Send a mail."""
    return to


@pytest.mark.req("EXT-03", "WORK-10")
def test_the_shipped_extensions_assemble(registry):
    assembly = assemble(registry)
    assert set(assembly.tools) == {
        "airflow", "ask_user", "calculate", "delegate", "list_files", "load_skill", "now", "read_file",
        "request_plan_approval", "update_plan", "write_file",
    }  # fmt: skip
    assert assembly.default_agent == "assistant"
    assert assembly.agents["assistant"].tools[0] == "calculate"
    assert assembly.agents["ventilation"].tools == ("airflow", "calculate", "ask_user")
    assert assembly.approval_tools == frozenset()


@pytest.mark.req("EXEC-23")
def test_approval_is_the_union_of_all_that_ask_for_it(registry):
    registry.register_tool(send_mail)
    registry.register_agent(
        "clerk", tools=[send_mail, "write_file", "now"], approval_tools=["now"], label="文员"
    )
    assembly = assemble(registry, ["write_file"])
    assert assembly.approval_tools == {"send_mail", "write_file"}
    assert assembly.agents["clerk"].approval_tools == {"now"}


@pytest.mark.req("EXEC-23")
def test_an_unknown_name_in_hitl_tools_stops_the_start_and_names_the_nearest(registry):
    [fault] = faults_of(registry, "write_fil", "now")
    assert fault.startswith("HITL_TOOLS: There is no tool 'write_fil'. Did you mean 'write_file'?")


@pytest.mark.req("EXT-03")
def test_every_fault_of_a_start_is_reported_at_once(registry):
    @define_tool(name="calculate")
    def other() -> None:
        """Pose as another tool."""

    @define_tool()
    def silent(a) -> None:  # no type, no docstring
        pass

    registry.register_tool(other)
    registry.register_tool(silent)
    registry.register_agent("assistant", tools=["now"])
    registry.register_agent(
        "bad name", tools=["calculat"], approval_tools=["now"], colour="red", limits={"step": 3}
    )
    found = "\n".join(faults_of(registry, "nothing"))
    for part in (
        "'calculate' is registered by 'core' already",
        "neither docstring nor summary",
        "'a' has no type",
        "agent 'assistant' is registered by 'core' already",
        "agent 'bad name': This name is not allowed",
        "tools names 'calculat', which is no registered tool. Did you mean 'calculate'?",
        "approval_tools names 'now', which this agent does not have",
        "no option 'colour'",
        "no limit 'step'. Did you mean 'steps'?",
        "no tool 'nothing'",
    ):
        assert part in found


def test_without_the_default_agent_nothing_starts():
    assert faults_of(Registry()) == [
        "agents: There is no agent 'assistant'. Register it, or load the extension `core`."
    ]


@pytest.mark.req("EXT-08")
def test_the_demo_tool_is_a_plain_function_with_its_source():
    result = airflow(volume_m3=120, air_changes_per_hour=4, people=20)
    assert isinstance(result, Sourced)
    assert result.data["needed_m3_per_hour"] == 600
    assert result.data["by_volume_m3_per_hour"] == 480
    assert "air changes" in str(result.sources[0].snippet)
    assert source("t").title == "t"
