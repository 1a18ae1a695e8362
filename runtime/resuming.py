"""Answers to what runs ask, as a script writes them down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from core.errors import Invalid


@dataclass(frozen=True, slots=True)
class ResumeDecision:
    """What is to become of one call that waits, or of a plan. Use the four constructors."""

    type: Literal["approve", "edit", "reject", "respond"]
    tool_call_id: str | None = None
    """Which call is meant; needed where several wait."""
    args: Mapping[str, Any] | None = None
    """Arguments in place of the model's, for `edit`."""
    message: str | None = None
    """Why not, for `reject`; the result that the model is given, for `respond`."""
    plan: str | None = None
    """The plan in place of the model's, for `edit` of a plan."""
    always: Literal["session", "workspace"] | None = None
    """Where this tool need not be asked for again, for `approve`."""

    @classmethod
    def approve(
        cls,
        tool_call_id: str | None = None,
        *,
        always: Literal["session", "workspace"] | None = None,
    ) -> ResumeDecision:
        """Let the call run as it is, or the plan be carried out."""
        return cls("approve", tool_call_id, always=always)

    @classmethod
    def edit(
        cls,
        tool_call_id: str | None = None,
        *,
        args: Mapping[str, Any] | None = None,
        plan: str | None = None,
    ) -> ResumeDecision:
        """Let the call run with other arguments, or another plan be carried out."""
        return cls("edit", tool_call_id, args, plan=plan)

    @classmethod
    def reject(
        cls, tool_call_id: str | None = None, *, message: str | None = None
    ) -> ResumeDecision:
        """Do not let it; the agent is told why and goes on."""
        return cls("reject", tool_call_id, message=message)

    @classmethod
    def respond(cls, tool_call_id: str | None = None, *, message: str) -> ResumeDecision:
        """Do not let the call run; the message takes the place of its result."""
        return cls("respond", tool_call_id, message=message)

    def body(self) -> dict[str, Any]:
        """Return the fields that are set, as the API takes them."""
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        given = {name: value for name, value in fields.items() if value is not None}
        return given | ({"args": dict(self.args)} if self.args is not None else {})


def resume_value(
    decisions: ResumeDecision | Sequence[ResumeDecision] | None = None,
    *,
    answers: Sequence[str | Sequence[str]] | None = None,
    plan: ResumeDecision | None = None,
) -> dict[str, Any]:
    """Return what `admit(resume=…)` takes: exactly one of the three, as the card asks.

    Args:
        decisions: for `tool_approval`: one for each call that waits.
        answers: for `ask_user`: one for each question, a list of options where several may be
            chosen.
        plan: for `plan_approval`.

    Raises:
        Invalid: none of them is given, or more than one.
    """
    given = [name for name, one in (("decisions", decisions), ("answers", answers), ("plan", plan))
             if one is not None]  # fmt: skip
    if len(given) != 1:
        raise Invalid(f"resume_value takes one of decisions, answers, plan; not {len(given)}.")
    if plan is not None:
        return plan.body()
    if isinstance(answers, str):
        raise Invalid("answers: a list is expected, one entry for each question.")
    if answers is not None:
        return {"answers": [one if isinstance(one, str) else list(one) for one in answers]}
    listed = [decisions] if isinstance(decisions, ResumeDecision) else list(decisions or ())
    return {"decisions": [decision.body() for decision in listed]}
