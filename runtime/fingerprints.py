"""Short texts that tell whether an extension's code is still the same (EXEC-42)."""

from __future__ import annotations

import functools
import hashlib
import inspect
from types import CodeType
from typing import Any, cast

from core.text import clean


def fingerprint_of(thing: Any) -> str:
    """Return a text that changes with the name or the source of a function or class.

    Where there is no source, the compiled code stands for it. What the code calls is not
    looked at.
    """
    inner: Any = inspect.unwrap(thing) if callable(thing) else thing
    while isinstance(inner, functools.partial):
        inner = inner.func
    if not (inspect.isroutine(inner) or inspect.isclass(inner)):
        inner = cast("Any", type(inner))
    name = f"{inner.__module__}.{inner.__qualname__}"
    digest = hashlib.sha256(f"{name}\n{_source(inner)}".encode("utf-8", "replace"))
    return digest.hexdigest()[:32]


def name_of(thing: Any) -> str:
    """Return what a function or object is called in messages."""
    inner = thing.func if isinstance(thing, functools.partial) else thing
    return clean(str(getattr(inner, "__qualname__", None) or type(inner).__qualname__))[:200]


def _source(thing: Any) -> str:
    try:
        return inspect.getsource(thing)
    except (OSError, TypeError):
        code = getattr(thing, "__code__", None)
        return _compiled(code) if isinstance(code, CodeType) else ""


def _compiled(code: CodeType) -> str:
    """Return the code as text; code inside it without its address in memory."""
    constants = [
        _compiled(one) if isinstance(one, CodeType) else repr(one) for one in code.co_consts
    ]
    return f"{code.co_code.hex()} {code.co_names} {constants}"
