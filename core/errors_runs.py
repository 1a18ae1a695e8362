"""Errors that end a run, and errors that become the result of one tool call."""

from __future__ import annotations

from typing import ClassVar

from core.errors_base import GraphwrightError


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


class EncryptionKeyMissing(RunError):
    """What is stored was sealed with an encryption key that this server does not have."""

    code = "encryption_key_missing"
    cure = (
        "Give every server the same keys: copy data/encryption.keys, or set GW_ENCRYPTION_KEYS. "
        "Then send the message again."
    )


class ContextExhausted(RunError):
    """The conversation does not fit the model's context window, even after summarising."""

    code = "context_exhausted"
    cure = "Start a new session, or use a model with a larger window."


class GraphFailed(RunError):
    """The agent's own graph failed; the log has the cause under the trace id."""

    code = "graph_failed"
    cure = "Send another message to go on, or look into the graph's code with the log."


class GraphGaveNothing(RunError):
    """The agent's own graph ended without an answer."""

    code = "graph_gave_nothing"
    cure = "Whoever wrote the graph lets it end with a message of the assistant."


class MiddlewareFailed(RunError):
    """A middleware of this agent failed; the log has the cause under the trace id."""

    code = "middleware_failed"
    cure = "Send another message to go on, or look into the middleware with the log."


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
