"""What all errors have: a code, a status, a cure, and one JSON shape."""

from __future__ import annotations

from typing import Any, ClassVar

from core.text import clean


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
        said: Any = message or (type(self).__doc__ or "").strip().splitlines()[0]
        # Messages quote what was given; a lone surrogate in it could not even be printed.
        self.message: str = clean(said) if isinstance(said, str) else said
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
