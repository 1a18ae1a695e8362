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
        HookError             hook_failed, hook_timeout, hook_result_invalid, hook_refused
        ContextExhausted, OutputTruncated, RunLost, PolicyFailed, InternalError
      ToolError               becomes the result of one tool call, never ends the run
        ToolFailed, ToolArgumentsInvalid, ToolDenied, ToolTimeout
      ServiceMissing          a service of an extension was asked for when it does not run
      WrongUse, BatchUnwritten   what scripts are told beside the above
      ConfigError             stops the start, listing every fault

The class docstring is the default message. Codes are part of the API and never change.
The classes lie in `errors_requests.py`, `errors_runs.py` and `errors_extensions.py`; everybody imports them from here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from core.errors_base import GraphwrightError
from core.errors_extensions import (
    HookError,
    HookFailed,
    HookRefused,
    HookResultInvalid,
    HookTimeout,
    PolicyFailed,
)
from core.errors_requests import (
    BadRequest,
    CrossSite,
    DuplicateRequest,
    FileChanged,
    FileMissing,
    FileRefused,
    Forbidden,
    HostRefused,
    Invalid,
    MethodNotAllowed,
    NoPendingInterrupt,
    NotCancellable,
    NotFound,
    PathRefused,
    QueueFull,
    QuotaSpent,
    RequestError,
    ServerFault,
    SessionBusy,
    StaleInterrupt,
    TooLarge,
    Unauthenticated,
    Unavailable,
    UnsupportedMediaType,
)
from core.errors_runs import (
    CheckpointDamaged,
    ContextExhausted,
    ContextOverflow,
    EncryptionKeyMissing,
    GraphFailed,
    GraphGaveNothing,
    InternalError,
    LimitReached,
    MiddlewareFailed,
    ModelCallLimit,
    NoProgress,
    OutputTruncated,
    ProviderAuth,
    ProviderError,
    ProviderJunk,
    ProviderModelMissing,
    ProviderOverloaded,
    ProviderRateLimited,
    ProviderRefused,
    ProviderStreamCut,
    ProviderTimeout,
    ProviderUnreachable,
    RunError,
    RunLost,
    StepLimit,
    TimeBudget,
    TokenBudget,
    ToolArgumentsInvalid,
    ToolDenied,
    ToolError,
    ToolFailed,
    ToolTimeout,
)

__all__ = [
    "BadRequest",
    "BatchUnwritten",
    "CheckpointDamaged",
    "ConfigError",
    "ContextExhausted",
    "ContextOverflow",
    "CrossSite",
    "DuplicateRequest",
    "EncryptionKeyMissing",
    "Fault",
    "FileChanged",
    "FileMissing",
    "FileRefused",
    "Forbidden",
    "GraphFailed",
    "GraphGaveNothing",
    "GraphwrightError",
    "HookError",
    "HookFailed",
    "HookRefused",
    "HookResultInvalid",
    "HookTimeout",
    "HostRefused",
    "InternalError",
    "Invalid",
    "LimitReached",
    "MethodNotAllowed",
    "MiddlewareFailed",
    "ModelCallLimit",
    "NoPendingInterrupt",
    "NoProgress",
    "NotCancellable",
    "NotFound",
    "OutputTruncated",
    "PathRefused",
    "PolicyFailed",
    "ProviderAuth",
    "ProviderError",
    "ProviderJunk",
    "ProviderModelMissing",
    "ProviderOverloaded",
    "ProviderRateLimited",
    "ProviderRefused",
    "ProviderStreamCut",
    "ProviderTimeout",
    "ProviderUnreachable",
    "QueueFull",
    "QuotaSpent",
    "RequestError",
    "RunError",
    "RunLost",
    "ServerFault",
    "ServiceMissing",
    "SessionBusy",
    "StaleInterrupt",
    "StepLimit",
    "TimeBudget",
    "TokenBudget",
    "TooLarge",
    "ToolArgumentsInvalid",
    "ToolDenied",
    "ToolError",
    "ToolFailed",
    "ToolTimeout",
    "Unauthenticated",
    "Unavailable",
    "UnsupportedMediaType",
    "WrongUse",
]


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


class ServiceMissing(GraphwrightError):
    """A service of an extension does not run."""


class BatchUnwritten(GraphwrightError):
    """The results of a batch could not be written; they are kept in the database."""


class WrongUse(GraphwrightError):
    """The Python interface was used in a way that cannot work."""
