"""Gives tasks to other agents: the tool that a model calls, made for what each agent may."""

from __future__ import annotations

import dataclasses
import difflib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from core.errors import ToolArgumentsInvalid, ToolDenied
from core.tooling import AgentSpec, ToolSpec, define_tool

MOST_SCHEMA = 4_000
"""Characters of a task's schema that a model is shown."""


@define_tool(group="talk", label="委派任务", kind="delegate", idempotent=True)
async def delegate(agent: str, task: str) -> str:
    """Give a task to another agent and get its result.

    The other agent sees nothing of this conversation, so put everything that it needs to know
    into the task: the goal, what is known, the files to read or to write under /workspace, and
    what the result is to look like. Several calls in one turn work side by side. A run has at
    most 8 of them, and the other agent cannot delegate further.

    Args:
        agent: which agent is to do it.
        task: what is to be done, complete in itself.
    """
    raise ToolDenied(f"{agent} cannot be given this task here: {task[:80]!r}.")


def made_for(spec: ToolSpec, agents: Sequence[AgentSpec]) -> ToolSpec:
    """Return the tool as an agent is offered it that may give tasks to these agents."""
    names = [agent.name for agent in agents]
    by_name = {agent.name: agent for agent in agents}
    properties = {name: dict(said) for name, said in spec.schema["properties"].items()}
    properties["agent"]["enum"] = names

    def validate(args: Mapping[str, Any]) -> dict[str, Any]:
        checked = spec.validate(args)
        agent = by_name.get(checked["agent"])
        if agent is None:
            raise ToolArgumentsInvalid(_unknown(str(checked["agent"]), names))
        if not checked["task"].strip():
            raise ToolArgumentsInvalid("task: say what is to be done.")
        if agent.shape is not None:
            agent.shape.check(read_task(agent.name, checked["task"]))
        return checked

    return dataclasses.replace(
        spec,
        description="\n\n".join([spec.description, *map(_described, agents)]),
        schema={**spec.schema, "properties": properties},
        validate=validate,
    )


def read_task(agent: str, task: str) -> Any:
    """Return what the JSON of a task says.

    Raises:
        ToolArgumentsInvalid: it is no JSON.
    """
    try:
        return json.loads(task)
    except ValueError as error:
        raise ToolArgumentsInvalid(
            f"task: {agent} takes a JSON object of its schema, and this is no JSON: {error}."
        ) from error


def _described(agent: AgentSpec) -> str:
    line = f"`{agent.name}`: {agent.description or agent.label}"
    if agent.shape is not None:
        schema = json.dumps(agent.shape.schema, ensure_ascii=False)[:MOST_SCHEMA]
        line += f" Its task is a JSON object of this schema, written as text: {schema}"
    return line


def _unknown(name: str, names: Sequence[str]) -> str:
    nearest = difflib.get_close_matches(name, names, n=1)
    hint = f"Did you mean {nearest[0]}? " if nearest else ""
    return f"agent: there is no agent {name[:80]!r} to delegate to. {hint}There are: {', '.join(names)}."
