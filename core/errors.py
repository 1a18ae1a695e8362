"""Everything that can go wrong, as classes with a code, a status and a cure.

    GraphwrightError
      RequestError            the caller can mend it (4xx)
        BadRequest 400, Unauthenticated 401, Forbidden / CrossSite 403, NotFound 404,
        MethodNotAllowed 405, UnsupportedMediaType 415, HostRefused 421,
        SessionBusy / DuplicateRequest / NoPendingInterrupt / StaleInterrupt / NotCancellable 409,
        TooLarge 413, Invalid 422, QueueFull / QuotaSpent 429
        PathRefused 400, FileMissing 404, FileChanged 409
      Unavailable 503         a part is down: database, worker
      ServerFault 500         a fault of ours; the log has it under the trace id
      RunError                ends a run with its own code; the work so far is kept
        ProviderError         provider_unreachable, provider_refused, …
        LimitReached          step_limit, model_call_limit, token_budget, time_budget, no_progress
        ContextExhausted, OutputTruncated, RunLost, InternalError
      ToolError               becomes the result of one tool call, never ends the run
        ToolFailed, ToolArgumentsInvalid, ToolDenied, ToolTimeout
      ConfigError             stops the start, listing every fault

The class docstring is the default message. Codes are part of the API and never change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar


class GraphwrightError(Exception):
    """Something went wrong."""

    code: ClassVar[str] = "internal_error"
    status: ClassVar[int] = 500
    cure: ClassVar[str] = ""
    """What the reader can do about it, one sentence; empty where the message says it."""

    def __init__(
        self,
        message: str | None = None,
        *,
        details: dict[str, Any] | None = None,
        retry_after: float | None = None,
    ) -> None:
        self.message = message or (type(self).__doc__ or "").strip().splitlines()[0]
        self.details = details or {}
        self.retry_after = retry_after
        super().__init__(self.message)

    def body(self) -> dict[str, Any]:
        """Return the one JSON shape of errors."""
        details = dict(self.details)
        if self.cure:
            details.setdefault("cure", self.cure)
        error: dict[str, Any] = {"code": self.code, "message": self.message, "details": details}
        if self.retry_after is not None:
            error["retry_after"] = self.retry_after
        return {"error": error}


# Requests ---------------------------------------------------------------------------------


class ServerFault(GraphwrightError):
    """Something went wrong in the server; the log has it under this trace id."""

    code = "internal_error"
    status = 500


class RequestError(GraphwrightError):
    """The request cannot be carried out."""

    code = "bad_request"
    status = 400


class BadRequest(RequestError):
    """The request is malformed."""


class Unauthenticated(RequestError):
    """Sign in, or send an API key as `Authorization: Bearer …`."""

    code = "unauthenticated"
    status = 401
    cure = "Open the sign-in link that the server printed, or run `graphwright key create`."


class Forbidden(RequestError):
    """This credential does not hold the permission."""

    code = "forbidden"
    status = 403


class CrossSite(Forbidden):
    """This request did not come from our own pages."""

    code = "cross_site"
    cure = "Programs send an API key as `Authorization: Bearer …` instead of the cookie."


class HostRefused(RequestError):
    """This server answers only under the names of the machine it runs on."""

    code = "host_refused"
    status = 421
    cure = "Open it as http://127.0.0.1 or http://localhost, with the port it listens on."


class NotFound(RequestError):
    """Nothing with this id is visible to you."""

    code = "not_found"
    status = 404


class MethodNotAllowed(RequestError):
    """This address does not take this method."""

    code = "method_not_allowed"
    status = 405


class SessionBusy(RequestError):
    """A run is active in this session. Wait, answer what it asks, or cancel it first."""

    code = "session_busy"
    status = 409


class DuplicateRequest(RequestError):
    """This request_id was used before; the run it began is named in the details."""

    code = "duplicate_request"
    status = 409


class NoPendingInterrupt(RequestError):
    """Nothing waits for an answer in this session."""

    code = "no_pending_interrupt"
    status = 409


class StaleInterrupt(RequestError):
    """This question was answered or withdrawn already; the token is spent."""

    code = "stale_interrupt"
    status = 409


class NotCancellable(RequestError):
    """This run has ended already."""

    code = "run_ended"
    status = 409


class TooLarge(RequestError):
    """The request is larger than allowed."""

    code = "too_large"
    status = 413


class UnsupportedMediaType(RequestError):
    """This address does not take this kind of body."""

    code = "unsupported_media_type"
    status = 415


class Invalid(RequestError):
    """A field has a value that is not allowed."""

    code = "invalid"
    status = 422


class QueueFull(RequestError):
    """Too many runs wait already."""

    code = "queue_full"
    status = 429
    cure = "Try again later, or start more workers."


class QuotaSpent(RequestError):
    """The quota is used up."""

    code = "quota_spent"
    status = 429


class PathRefused(RequestError):
    """This path is not allowed."""

    code = "path_refused"
    status = 400


class FileMissing(RequestError):
    """There is no such file."""

    code = "file_missing"
    status = 404


class FileChanged(RequestError):
    """The file was changed meanwhile; read it again first."""

    code = "file_changed"
    status = 409


class FileRefused(RequestError):
    """This file is not accepted."""

    code = "file_refused"
    status = 400


# Parts that are down ----------------------------------------------------------------------


class Unavailable(GraphwrightError):
    """A part of the server is not available; `/health` says which and why."""

    code = "unavailable"
    status = 503
    cure = "Look at /health for the cause and the cure, then try again."


# Ends of runs -----------------------------------------------------------------------------


class RunError(GraphwrightError):
    """The run ended with an error."""

    code = "run_failed"


class InternalError(RunError):
    """The run ended because of a fault in the server; the log has it under the trace id."""

    code = "internal_error"


class RunLost(RunError):
    """The process that carried out this run died and the run could not go on safely."""

    code = "run_lost"


class CheckpointDamaged(RunError):
    """The stored state of this session is damaged; nothing of it was carried out."""

    code = "checkpoint_damaged"
    cure = "Start a new session; the visible history stays. The log names what was refused."


class ContextExhausted(RunError):
    """The conversation does not fit the model's context window, even after summarising."""

    code = "context_exhausted"
    cure = "Start a new session, or use a model with a larger window."


class OutputTruncated(RunError):
    """The model hit its output limit in the middle of tool calls three times in a row."""

    code = "output_truncated"
    cure = "Ask for smaller pieces, or raise the model's output limit."


class LimitReached(RunError):
    """A limit of this run was reached; send another message to go on from here."""

    code = "limit_reached"


class StepLimit(LimitReached):
    """The step limit was reached; send another message to go on from here."""

    code = "step_limit"


class ModelCallLimit(LimitReached):
    """The limit of model calls was reached; send another message to go on from here."""

    code = "model_call_limit"


class TokenBudget(LimitReached):
    """The token budget of this run is used up; send another message to go on from here."""

    code = "token_budget"


class TimeBudget(LimitReached):
    """The time allowed for this run is over; send another message to go on from here."""

    code = "time_budget"


class NoProgress(LimitReached):
    """Many steps in a row brought nothing new; say what should be tried differently to go on."""

    code = "no_progress"


class ProviderError(RunError):
    """The model provider failed."""

    code = "provider_error"
    status = 502
    retryable: ClassVar[bool] = False
    """Whether the same request may succeed a moment later, as long as nothing was shown."""

    partial_text: str = ""
    """What of the answer had arrived; it was shown, is kept, and is marked incomplete."""

    partial_thinking: str = ""
    """Likewise of the reasoning."""


class ProviderUnreachable(ProviderError):
    """The model provider cannot be reached."""

    code = "provider_unreachable"
    cure = "Check OPENAI_BASE_URL, the network and the proxy, then send the message again."
    retryable = True


class ProviderTimeout(ProviderError):
    """The model provider sent nothing for too long."""

    code = "provider_timeout"
    cure = "Send the message again; if it keeps happening, raise GW_MODEL_IDLE_TIMEOUT."
    retryable = True


class ProviderOverloaded(ProviderError):
    """The model provider is overloaded or failing."""

    code = "provider_overloaded"
    retryable = True


class ProviderRateLimited(ProviderError):
    """The model provider limits the rate of requests."""

    code = "provider_rate_limited"
    retryable = True


class ProviderAuth(ProviderError):
    """The model provider refuses the key."""

    code = "provider_auth"
    cure = "Check OPENAI_API_KEY and what the key may use."


class ProviderRefused(ProviderError):
    """The model provider refuses the request."""

    code = "provider_refused"


class ProviderModelMissing(ProviderError):
    """The model provider does not know this model."""

    code = "provider_model_missing"
    cure = "Check OPENAI_MODEL against the provider's list of models."


class ProviderStreamCut(ProviderError):
    """The model's answer ended before it was complete; what arrived is kept and marked."""

    code = "provider_stream_cut"
    cure = "Send another message to let the model go on."
    retryable = True


class ProviderJunk(ProviderError):
    """The model provider answered with something that is not a chat completion."""

    code = "provider_junk"


class ContextOverflow(ProviderError):
    """The request is longer than the model's context window."""

    code = "context_overflow"


# Results of tool calls --------------------------------------------------------------------


class ToolError(GraphwrightError):
    """The tool could not do it. The message reaches the model and the user."""

    code = "tool_failed"


class ToolFailed(ToolError):
    """The tool could not do it."""


class ToolArgumentsInvalid(ToolError):
    """The arguments do not fit the tool's schema."""

    code = "tool_arguments_invalid"


class ToolDenied(ToolError):
    """This call is not allowed now."""

    code = "tool_denied"


class ToolTimeout(ToolError):
    """The tool did not end in time."""

    code = "tool_timeout"


# Start ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong with settings or extensions."""

    where: str
    what: str
    cure: str


class ConfigError(GraphwrightError):
    """The configuration has faults."""

    code = "config_error"

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults = tuple(faults)
        lines = [f"{fault.where}: {fault.what} Cure: {fault.cure}" for fault in self.faults]
        super().__init__("\n".join(lines))
