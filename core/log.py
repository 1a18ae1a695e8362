"""Log lines: text or JSON, with the ids of the work they belong to and without secrets.

`get_logger(__name__).info("run ended", extra={"kv": {"status": "success"}})` is all a room or an
extension needs. `bind(run_id=…)` holds for everything that is logged inside, in tasks and in
`asyncio.to_thread` too, by third-party libraries as well.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import threading
import traceback
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from datetime import datetime
from types import MappingProxyType, TracebackType
from typing import Any, Final, Literal, TextIO, cast

from core.masking import mask, mask_value

LogFormat = Literal["text", "json"]

BOUND_NAMES: Final = ("trace_id", "run_id", "session_id", "schedule_id")
"""Ids that `bind` takes, in the order in which lines show them."""

RESERVED: Final = frozenset({"ts", "level", "logger", "message", "exc", *BOUND_NAMES})
"""Fields of every line; a `kv` entry of that name is shown with `_` behind it."""

CHATTY: Final = (
    "alembic", "apscheduler", "asyncio", "docker", "h11", "hpack", "httpcore", "httpcore2",
    "httpx", "httpx2", "langchain", "langchain_core", "langgraph", "langsmith", "markdown_it",
    "mcp", "openai", "procrastinate", "psycopg", "python_multipart", "sqlalchemy", "sse_starlette",
    "tzlocal", "urllib3", "uvicorn.access",
)  # fmt: skip
"""Libraries that tell too much, or users' data, below a warning."""

_LONGEST_VALUE: Final = 2_000
_LONGEST_MESSAGE: Final = 8_000
_LONGEST_STACK: Final = 60_000

_PLAIN: Final = re.compile(r"[^\s\"'=]+\Z")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]")

_EMPTY: Final[Mapping[str, str]] = MappingProxyType({})
_bound: ContextVar[Mapping[str, str]] = ContextVar("graphwright_log_ids", default=_EMPTY)


def get_logger(name: str) -> logging.Logger:
    """Return the logger of a module; pass `__name__`."""
    return logging.getLogger(name)


@contextmanager
def bind(**ids: str | None) -> Generator[None]:
    """Name the work that everything logged inside belongs to; `None` takes an id off.

    Raises:
        TypeError: a name that is not one of `BOUND_NAMES`.
    """
    if unknown := ids.keys() - set(BOUND_NAMES):
        raise TypeError(f"only {', '.join(BOUND_NAMES)} can be bound, not {', '.join(unknown)}")
    merged = {**_bound.get(), **ids}
    token = _bound.set({name: value for name, value in merged.items() if value is not None})
    try:
        yield
    finally:
        # A generator that another task closes ends in that task's context, which never had
        # this binding.
        with suppress(ValueError):
            _bound.reset(token)


def bound() -> Mapping[str, str]:
    """Return the ids that are bound here."""
    return _bound.get()


def setup_logging(
    level: str = "INFO", format: LogFormat = "text", stream: TextIO | None = None
) -> None:
    """Send every logger of the process, third-party ones too, through one masked format.

    May be called again; the last call counts.

    Args:
        level: name of the lowest level shown of our own rooms.
        format: `text` for people, `json` for machines, one line each either way but for stacks.
        stream: where lines go; standard error where missing.
    """
    root = logging.getLogger()
    for old in list(root.handlers):
        if isinstance(old, Handler) or type(old) is logging.StreamHandler:
            root.removeHandler(cast("logging.Handler", old))
    handler = Handler(stream)
    handler.setFormatter(JsonFormatter() if format == "json" else TextFormatter())
    root.addHandler(handler)
    root.setLevel(level)
    for name in CHATTY:
        logging.getLogger(name).setLevel(logging.WARNING)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
        if name not in CHATTY:
            logger.setLevel(logging.NOTSET)
    logging.captureWarnings(True)
    sys.excepthook = _log_uncaught
    threading.excepthook = _log_uncaught_in_thread


class Handler(logging.StreamHandler[TextIO]):
    """Writes lines; its own failures never show the arguments of the line."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._given = stream
        super().__init__(stream or sys.stderr)

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line, to the standard error of this moment where no stream was given."""
        if self._given is None:
            self.stream = sys.stderr
        super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's own name
        """Say that a line was lost, without what it held."""
        kind = sys.exc_info()[0]
        name = kind.__name__ if kind else "error"
        # A process may have no standard error at all.
        with suppress(OSError, ValueError, AttributeError):
            self.stream.write(f"log line of {record.name} lost: {name}\n")


class _Formatter(logging.Formatter):
    """What both formats share: time, message, values and stack, all masked."""

    def when(self, record: logging.LogRecord) -> str:
        """Return the record's own time with milliseconds and zone."""
        local = datetime.fromtimestamp(record.created).astimezone()
        return local.isoformat(timespec="milliseconds")

    def message(self, record: logging.LogRecord) -> str:
        """Return the message; one whose arguments do not fit is shown without them."""
        try:
            text = record.getMessage()
        except Exception:  # boundary: a foreign __str__ or format must not lose the line
            text = f"{record.msg!s} (its arguments do not fit)"
        return _cut(mask(text), _LONGEST_MESSAGE)

    def fields(self, record: logging.LogRecord) -> dict[str, Any]:
        """Return the bound ids, then the entries of `kv` under names that are free."""
        fields: dict[str, Any] = dict(_bound.get())
        values = getattr(record, "kv", None)
        if isinstance(values, Mapping):
            for key, value in cast("Mapping[Any, Any]", values).items():
                name = str(key)
                shown = mask_value(value, name)
                fields[f"{name}_" if name in RESERVED else name] = (
                    _cut(shown, _LONGEST_VALUE) if isinstance(shown, str) else shown
                )
        return fields

    def stack(self, record: logging.LogRecord) -> str:
        """Return the stack trace, or an empty text."""
        parts: list[str] = []
        if record.exc_info and record.exc_info[0] is not None:
            parts.append("".join(traceback.format_exception(*record.exc_info)).rstrip())
        elif record.exc_text:
            parts.append(record.exc_text)
        if record.stack_info:
            parts.append(record.stack_info)
        return _cut(mask("\n".join(parts)), _LONGEST_STACK)


class TextFormatter(_Formatter):
    """`time LEVEL logger message key=value …`, then the stack on lines of its own."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        message = _CONTROL.sub(_escape, self.message(record))
        parts = [self.when(record), f"{record.levelname:<7}", record.name, message]
        parts += [f"{name}={_shown(value)}" for name, value in self.fields(record).items()]
        line = " ".join(parts)
        stack = self.stack(record)
        return f"{line}\n{stack}" if stack else line


class JsonFormatter(_Formatter):
    """One JSON object a line: `ts`, `level`, `logger`, `message`, ids, values, `exc`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        entry: dict[str, Any] = {
            "ts": self.when(record),
            "level": record.levelname,
            "logger": record.name,
            "message": self.message(record),
            **self.fields(record),
        }
        if stack := self.stack(record):
            entry["exc"] = stack
        return json.dumps(entry, ensure_ascii=False, default=str)


# Helpers ----------------------------------------------------------------------------------


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if _PLAIN.match(text) else json.dumps(text, ensure_ascii=False)


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]}… ({len(text)} characters)"


def _escape(match: re.Match[str]) -> str:
    """Show a control character as text, so that nobody can write a line of their own."""
    return match.group().encode("unicode_escape").decode()


def _log_uncaught(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    if issubclass(kind, KeyboardInterrupt):
        return
    get_logger("server").critical("uncaught error", exc_info=(kind, error, trace))


def _log_uncaught_in_thread(args: threading.ExceptHookArgs) -> None:
    if args.exc_value is None or issubclass(args.exc_type, SystemExit):
        return
    thread = args.thread.name if args.thread else "?"
    get_logger("server").error(
        "uncaught error in a thread",
        exc_info=(args.exc_type, args.exc_value, args.exc_traceback),
        extra={"kv": {"thread": thread}},
    )
