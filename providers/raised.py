"""What a chat model of any library raised, as one of our provider errors.

Libraries share no classes, but they share habits: a status, an answer with headers, and names
that say what went wrong. Nothing of a library is imported here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, cast

from core import errors
from providers import faults

_TIMEOUT: Final = re.compile(r"time(d)?_?out", re.I)
_UNREACHABLE: Final = re.compile(r"connect|dns|proxy|ssl|network|transport", re.I)
_LIMITED: Final = re.compile(r"rate_?limit|too_?many_?requests|resource_?exhausted", re.I)
_AUTH: Final = re.compile(r"auth|permission|forbidden", re.I)

_KEY: Final = "Check the key and what it may use, where the provider's extension reads it."
_MODEL: Final = "Check OPENAI_MODEL against the models of the provider."
_REACH: Final = "Check the address that the provider's extension uses, the network and the proxy."
_AUTHOR: Final = "Look into the log under the trace id, and into the provider's extension."

_CURES: Final[Mapping[type[errors.ProviderError], str]] = {
    errors.ProviderAuth: _KEY,
    errors.ProviderModelMissing: _MODEL,
    errors.ProviderUnreachable: _REACH,
    errors.ProviderError: _AUTHOR,
}


def from_exception(provider: str, error: BaseException, now: datetime) -> errors.ProviderError:
    """Return the error that an exception of a chat model means.

    A refusal is quoted, masked and capped. Of an exception without a status only the kind is
    told: its text may carry anything.

    Args:
        provider: name of the connection.
        error: what was raised.
        now: present time, for Retry-After dates.
    """
    status = _status(error)
    headers = _headers(error)
    found = _of_status(provider, status, error) if status else _of_kind(provider, error)
    cure = _CURES.get(type(found))
    if cure:
        found.details["cure"] = cure
    found.details["provider"] = provider
    if status:
        found.details["status"] = status
    found.retry_after = faults.retry_after(headers, now)
    return found


def _of_status(provider: str, status: int, error: BaseException) -> errors.ProviderError:
    said = str(error)
    kind = faults.kind_of(status, said)
    return kind(f"{provider} answered {status}: “{faults.quote(said) or type(error).__name__}”")


def _of_kind(provider: str, error: BaseException) -> errors.ProviderError:
    names = " ".join(one.__name__ for one in type(error).__mro__ if one.__module__ != "builtins")
    name = type(error).__name__
    if isinstance(error, TimeoutError) or _TIMEOUT.search(names):
        return errors.ProviderTimeout(f"{provider} did not answer in time ({name})")
    if isinstance(error, ConnectionError) or _UNREACHABLE.search(names):
        return errors.ProviderUnreachable(f"{provider} cannot be reached ({name})")
    if faults.kind_of(0, str(error)) is errors.ContextOverflow:
        said = faults.quote(str(error))
        return errors.ContextOverflow(f"{provider} says the request is too long: “{said}”")
    if _LIMITED.search(names):
        return errors.ProviderRateLimited(f"{provider} limits the rate of requests ({name})")
    if _AUTH.search(names):
        return errors.ProviderAuth(f"{provider} refuses the key ({name})")
    return errors.ProviderError(f"{provider} failed unexpectedly ({name})")


def _status(error: BaseException) -> int:
    """Return the HTTP status that an exception carries in any of the usual places; 0 for none."""
    answer = getattr(error, "response", None)
    places = (
        getattr(error, "status_code", None),
        getattr(answer, "status_code", None),
        getattr(error, "status", None),
        getattr(error, "code", None),
        _botocore(answer),
    )
    for status in places:
        if isinstance(status, int) and not isinstance(status, bool) and 300 <= status < 600:
            return status
    return 0


def _headers(error: BaseException) -> Mapping[str, str]:
    given = getattr(getattr(error, "response", None), "headers", None)
    if not isinstance(given, Mapping):
        return {}
    found = cast("Mapping[Any, Any]", given)
    return {str(key).lower(): str(value) for key, value in found.items()}


def _botocore(answer: Any) -> Any:
    """Return the status of an answer that is a mapping, as AWS's library gives it."""
    if not isinstance(answer, Mapping):
        return None
    metadata = cast("Mapping[str, Any]", answer).get("ResponseMetadata")
    if not isinstance(metadata, Mapping):
        return None
    return cast("Mapping[str, Any]", metadata).get("HTTPStatusCode")
