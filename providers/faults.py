"""Provider errors out of statuses, headers and bodies: which of ours they are, in plain words."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final, cast

import orjson

from core import errors
from core.masking import mask
from core.text import clean, shorten

QUOTE: Final = 500
"""Characters of a provider's own message that are shown."""

_PER_MINUTE: Final = re.compile(r"per[- ](minute|min\b|second|day)|this minute|\bTPM\b", re.I)
_REQUEST_TOO_LARGE: Final = re.compile(r"request (is )?(too large|larger than)", re.I)
"""With 429: the request alone is over the budget, waiting never helps (L22)."""

_OVERFLOW: Final = re.compile(
    r"context[_ ]length[_ ]exceeded|exceed_context_size|maximum context|model token limit"
    r"|context[ _-]?(window|length|size|limit)"
    r"|tokens?\b.{0,60}\bwindow\b|\bwindow\b.{0,60}\btokens?\b"
    r"|(prompt|input|inputs|request|messages?|conversation|text)\b.{0,40}\b(too|over)[- ]?(long|large)"
    r"|too long by \d|too many (input )?tokens|exceeds? max(imum)? length"
    r"|reduce the length of (the|your) (messages|prompt|input)|shorten (the|your) (prompt|input)"
    r"|(input|prompt)[ _-]?(token|length)s?\b.{0,60}\b(exceed|maximum|limit|range|must be|should be)"
    r"|exceed.{0,60}\b(maximum|max|limit)\b.{0,30}\b(input|prompt|context)"
    r"|inputs.{0,20}tokens.{0,40}must be"
    r"|(输入|上下文|提示|消息).{0,20}(过长|超出|超过|太长)|(超出|超过).{0,20}(上下文|最大长度|输入长度)",
    re.I | re.S,
)

_OUTPUT_FIELD: Final = re.compile(r"max_(completion_|new_)?tokens\b", re.I)
_PROMPT_WORD: Final = re.compile(r"\b(context|prompt|inputs?|messages)\b", re.I)
"""A complaint about the wished output length alone is not about the prompt."""

_NO_MODEL: Final = re.compile(
    r"model.{0,120}(not found|not exist|does ?n.t exist|unknown|not available|not supported)"
    r"|(no such|unknown|invalid|unsupported) model|model_not_found|模型.{0,40}(不存在|未找到)",
    re.I | re.S,
)
_SPENT: Final = re.compile(r"insufficient[_ ](quota|balance)|exceeded your current quota|billing|quota used up|余额", re.I)  # fmt: skip


def from_response(
    provider: str, status: int, headers: Mapping[str, str], body: bytes, now: datetime
) -> errors.ProviderError:
    """Return the error that a refusal means.

    Args:
        provider: name of the connection.
        status: HTTP status, 300 or more.
        headers: response headers with lower-case names.
        body: the beginning of the body.
        now: present time, for Retry-After dates.
    """
    said, code = _said(body)
    kind = kind_of(status, f"{code} {said}")
    hint = _HINTS.get(kind, "")
    where = headers.get("location", "") if 300 <= status < 400 else ""
    parts = [said and f"“{quote(said)}”", where and f"it points to {quote(where)}", hint]
    text = "; ".join(part for part in parts if part)
    error = kind(f"{provider} answered {status}{': ' + text if text else ''}")
    error.details.update(provider=provider, status=status)
    if request_id := headers.get("x-request-id") or headers.get("request-id"):
        error.details["request_id"] = request_id[:200]
    error.retry_after = retry_after(headers, now)
    return error


def from_object(provider: str, body: Any, during: str = "") -> errors.ProviderError:
    """Return the error that an error object inside a 200 answer means (L07, L08)."""
    said, code = _of_object(body)
    status = int(code) if re.fullmatch(r"[345]\d\d", code) else 0
    kind = kind_of(status, f"{code} {said}")
    if kind is errors.ProviderRefused and not status:
        # Without a status nobody knows whose fault it is; a moment later it may work.
        kind = errors.ProviderOverloaded
    error = kind(f"{provider} reported an error{during}: “{quote(said or code or 'no text')}”")
    error.details.update(provider=provider, status=status or 200)
    return error


def retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    """Return the seconds that the provider asks to wait, or None; junk counts as none (L19)."""
    milliseconds = _seconds(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    text = headers.get("retry-after", "").strip()
    seconds = _seconds(text)
    if seconds is not None or not text:
        return seconds
    try:
        until = parsedate_to_datetime(text)
        wait = (until - now).total_seconds()
    except (TypeError, ValueError):
        return None
    return wait if wait >= 0 else None


def quote(text: str) -> str:
    """Return a provider's text as it may be shown: capped, on one line, without secrets."""
    return shorten(mask(clean(" ".join(text.split()))), QUOTE)


def _seconds(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def kind_of(status: int, text: str) -> type[errors.ProviderError]:
    """Return which of our errors a status (0: none) with that code and text is."""
    if _is_overflow(status, text):
        return errors.ContextOverflow
    if status == 402 or (_SPENT.search(text) and status in (0, 403, 429)):
        return errors.ProviderRefused
    if status in (400, 404, 422) and _NO_MODEL.search(text):
        return errors.ProviderModelMissing
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    return errors.ProviderOverloaded if status >= 500 else errors.ProviderRefused


def _is_overflow(status: int, text: str) -> bool:
    if status == 429:
        return bool(_REQUEST_TOO_LARGE.search(text))
    if status == 413:
        return True
    if status in (401, 402, 403, 404) or _PER_MINUTE.search(text):
        return bool(status not in (401, 402, 403, 404) and _REQUEST_TOO_LARGE.search(text))
    if _OUTPUT_FIELD.search(text) and not _PROMPT_WORD.search(text):
        return False
    return bool(_OVERFLOW.search(text))


_BY_STATUS: Final[Mapping[int, type[errors.ProviderError]]] = {
    401: errors.ProviderAuth,
    403: errors.ProviderAuth,
    408: errors.ProviderTimeout,
    409: errors.ProviderOverloaded,
    425: errors.ProviderOverloaded,
    429: errors.ProviderRateLimited,
}

_HINTS: Final[Mapping[type[errors.ProviderError], str]] = {
    errors.ProviderAuth: "check OPENAI_API_KEY",
    errors.ProviderModelMissing: "check OPENAI_MODEL",
}


def _said(body: bytes) -> tuple[str, str]:
    """Return message and code of an error body, or its text where it is no JSON."""
    try:
        value: Any = orjson.loads(body)
    except orjson.JSONDecodeError:
        text = body.decode("utf-8", "replace").strip()
        if text.startswith("<"):
            text = "a web page: " + " ".join(re.sub(r"<[^>]{0,500}>", " ", text).split())
        return text, ""
    return _of_object(value)


def _of_object(value: Any) -> tuple[str, str]:
    """Return message and code of an error, whatever shape it has."""
    if not isinstance(value, Mapping):
        return (value if isinstance(value, str) else ""), ""
    fields = cast("Mapping[str, Any]", value)
    inner = fields.get("error")
    if isinstance(inner, Mapping):
        fields = cast("Mapping[str, Any]", inner)
    elif isinstance(inner, str):
        return inner, str(fields.get("code") or "")
    said = next(
        (fields[key] for key in ("message", "detail", "msg", "error_msg") if fields.get(key)), ""
    )
    text = said if isinstance(said, str) else orjson.dumps(said, default=str).decode()
    code = str(fields.get("code") or fields.get("status") or fields.get("type") or "")
    return text, code
