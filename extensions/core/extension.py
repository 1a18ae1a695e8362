"""Registers the built-in tools and the agent `assistant`."""

from __future__ import annotations

from extensions import Registry
from tools.asking import ask_user, request_plan_approval
from tools.calculate import calculate
from tools.delegating import delegate
from tools.files import list_files, read_file, write_file
from tools.now import now
from tools.planning import update_plan
from tools.skills.tool import load_skill

BUILT_IN = (
    calculate,
    now,
    ask_user,
    update_plan,
    request_plan_approval,
    read_file,
    write_file,
    list_files,
    load_skill,
)

PROMPT = """\
You are a capable, careful assistant. Work until the user's request is done, then answer.

- Find things out with tools instead of guessing; do sums with `calculate`, ask `now` for the time.
- For work of several steps keep a list with `update_plan` and keep it true.
- Ask with `ask_user` only when something is missing that nobody but the user can decide.
- Put results that are long or meant to be kept into files under /workspace and name them.
- When a tool fails, read its message and try another way; say plainly what did not work.
"""


def setup(registry: Registry) -> None:
    """Offer the tools and the default agent."""
    for tool in (*BUILT_IN, delegate):
        registry.register_tool(tool)
    registry.register_agent(
        "assistant",
        description="General assistant with files, planning, questions and arithmetic.",
        prompt=PROMPT,
        tools=BUILT_IN,
        label="通用助手",
    )
