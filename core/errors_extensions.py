"""Errors that end a run because of what an extension put into it."""

from __future__ import annotations

from core.errors_runs import RunError


class HookError(RunError):
    """A hook of an extension ended the run."""

    code = "hook_failed"
    cure = "Look into the log under the trace id, and into the extension that registered the hook."


class HookFailed(HookError):
    """A hook of an extension failed."""


class HookTimeout(HookError):
    """A hook of an extension did not end in time."""

    code = "hook_timeout"
    cure = "Let the hook do less, or register it with a longer timeout."


class HookResultInvalid(HookError):
    """A hook of an extension gave back what cannot be taken."""

    code = "hook_result_invalid"
    cure = "Let it return None, or dataclasses.replace(event, …) with what may be changed."


class HookRefused(HookError):
    """A hook of an extension does not let this run begin."""

    code = "hook_refused"
    status = 403
    cure = "Take the stated reason into account, then send another message."


class PolicyFailed(RunError):
    """A policy of an extension failed."""

    code = "policy_failed"
    cure = (
        "Look into the log under the trace id, and into the extension that registered the policy."
    )
