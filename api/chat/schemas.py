"""Shapes of chat: the form, the answer to a question, the history."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import UploadFile
from pydantic import AfterValidator, Field

from api.schemas import EXAMPLE_ID, Id, Input, Output
from core.errors import Invalid
from core.types import InterruptKind, MessageStatus, Mode

LONGEST_MESSAGE = 200_000
"""Characters of one message."""

LONGEST_NAME = 200


def _no_blank(text: str) -> str:
    if not text.strip():
        raise Invalid("message must hold more than white space.")
    return text


Name = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)]


class ChatFields(Input):
    """The fields of `POST /api/chat` without files; also taken as JSON or as a plain form."""

    message: Annotated[
        str,
        Field(min_length=1, max_length=LONGEST_MESSAGE, examples=["What is 17 * 23?"]),
        AfterValidator(_no_blank),
    ]
    """What the user says; may begin with `#skill:<name>` and `#session:<uuid>`, in any order."""
    session_id: Id | None = Field(default=None, description="Missing: a new session.")
    thread_id: Id | None = Field(default=None, description="Must equal `session_id`.")
    mode: Mode | None = Field(
        default=None, description="`plan`: nothing is changed before a plan was approved."
    )
    request_id: Annotated[str, Field(min_length=1, max_length=128)] | None = Field(
        default=None, description="Your own key; the same key never runs twice."
    )
    user_name: Name | None = Field(
        default=None, description="Your own name; a service key may name another user."
    )
    agent: Name | None = Field(default=None, description="Missing: the default agent.")
    model: Name | None = Field(default=None, description="Missing: the default model.")
    thinking: Annotated[str, Field(min_length=1, max_length=32)] | None = Field(
        default=None, description="How hard the model thinks, where it can be told."
    )
    on_disconnect: Literal["continue", "cancel"] = Field(
        default="continue", description="What happens when you close this stream."
    )
    multitask: Literal["reject", "enqueue", "interrupt"] = Field(
        default="reject", description="What happens when a run is going in this session."
    )


class ChatForm(ChatFields):
    """The fields of `POST /api/chat`."""

    file: list[UploadFile] = Field(
        default_factory=list[UploadFile],
        description="Stored under `/workspace/uploads/`; may be repeated.",
    )


class Decision(Input):
    """What is decided about one tool call."""

    tool_call_id: Annotated[str, Field(max_length=200)] | None = Field(
        default=None, description="Which call; may be missing where just one waits."
    )
    type: Annotated[str, Field(max_length=20, examples=["approve", "edit", "reject", "respond"])]
    args: dict[str, Any] | None = Field(default=None, description="With `edit`: the new arguments.")
    message: Annotated[str, Field(max_length=20_000)] | None = Field(
        default=None, description="With `reject`: why; with `respond`: what the model is told."
    )
    always: Literal["session", "workspace"] | None = Field(
        default=None, description="With `approve`: do not ask again for this tool there."
    )


class ResumeBody(Input):
    """The answer to what a waiting run asked; which fields it has depends on the question."""

    session_id: Id
    interrupt_token: str = Field(
        default="", max_length=200, description="From the `interrupt` event; good for one answer."
    )
    decisions: Annotated[list[Decision], Field(max_length=200)] | None = Field(
        default=None, description="For `tool_approval`: one for each call that waits."
    )
    answers: Annotated[list[str | list[str]], Field(max_length=100)] | None = Field(
        default=None, description="For `ask_user`: one for each question, in their order."
    )
    type: Literal["approve", "edit", "reject"] | None = Field(
        default=None, description="For `plan_approval`."
    )
    plan: Annotated[str, Field(max_length=LONGEST_MESSAGE)] | None = Field(
        default=None, description="With `type: edit`: the plan as it shall be."
    )
    message: Annotated[str, Field(max_length=20_000)] | None = Field(
        default=None, description="With `type: reject`: why."
    )
    user_name: Name | None = Field(default=None, description="As in `POST /api/chat`.")

    def answer(self) -> dict[str, Any]:
        """Return what was answered, without the fields that only say where."""
        return self.model_dump(
            exclude={"session_id", "interrupt_token", "user_name"}, exclude_unset=True
        )


class Message(Output):
    """One visible message."""

    id: str = Field(examples=[EXAMPLE_ID])
    session_id: str
    run_id: str | None
    position: int
    role: Literal["user", "assistant"]
    parts: list[dict[str, Any]] = Field(
        description="`text`, `thinking`, `tool_call` (with its result), `file`, `skill`, `error`, …"
    )
    status: MessageStatus
    feedback: str | None
    feedback_note: str | None
    parent_id: str | None
    created_at: datetime


class PendingInterrupt(Output):
    """The card of the question that a session waits on."""

    id: str
    type: Literal["interrupt"]
    kind: InterruptKind
    session_id: str
    run_id: str
    interrupt_token: str
    message: str
    agent_id: str | None = None
    """Who asks, where that is an agent with a delegated task."""
    tool_approval: dict[str, Any] | None = None
    ask_user: dict[str, Any] | None = None
    plan_approval: dict[str, Any] | None = None
    created_at: datetime | None = None
