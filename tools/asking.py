"""Tools that hand the word to the user: questions, and a plan to be approved.

Their functions never run. The `approve` node pauses the run and the answer is the result.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from core.errors import ToolFailed
from core.tooling import define_tool


def _words(most: int) -> StringConstraints:
    """Return what a text must be that a person is to read: not blank, and of bounded length."""
    return StringConstraints(strip_whitespace=True, min_length=1, max_length=most)


class Question(BaseModel):
    """One question to the user."""

    model_config = ConfigDict(extra="forbid")

    question: Annotated[str, _words(2_000)]
    kind: Literal["text", "single", "multiple"] = "text"
    options: list[Annotated[str, _words(300)]] = Field(
        default_factory=list, max_length=20, description="The choices, for single and multiple."
    )

    @model_validator(mode="after")
    def _choices(self) -> Question:
        if self.kind == "text" and self.options:
            raise ValueError("a text question has no options; use kind single or multiple")
        if self.kind != "text" and len(self.options) < 2:
            raise ValueError("a choice needs at least two options")
        if len(set(self.options)) < len(self.options):
            raise ValueError("the same option stands there twice")
        return self


@define_tool(group="talk", label="询问用户", kind="question", idempotent=True)
def ask_user(
    questions: Annotated[list[Question], Field(min_length=1, max_length=3)],
) -> None:
    """Ask the user one to three questions and wait for the answers.

    Use it when something is missing that only the user can know or decide. Do not use it for
    what you can find out yourself.

    Args:
        questions: each with `question`, `kind` (text, single, multiple) and its `options`.
    """
    raise ToolFailed(f"{len(questions)} questions can only be answered by the user.")


@define_tool(group="talk", label="提交计划审批", kind="plan", idempotent=True)
def request_plan_approval(
    plan: Annotated[str, _words(20_000)],
) -> None:
    """Show the user a plan and wait for approval, changes or refusal.

    In plan mode nothing that changes anything runs before a plan is approved.

    Args:
        plan: the whole plan in Markdown: goal, steps, what will be changed, risks.
    """
    raise ToolFailed(f"A plan of {len(plan)} characters can only be approved by the user.")
