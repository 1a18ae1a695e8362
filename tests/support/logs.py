"""Keeps what one test sets up for logging from reaching the next."""

import io
import logging
import sys
import threading
import warnings
from collections.abc import Generator, Iterator
from contextlib import contextmanager

import pytest

from core.log import Handler, JsonFormatter


@contextmanager
def captured() -> Generator[io.StringIO]:
    """Give the lines that the product's own format writes inside, masked as ever."""
    root, stream = logging.getLogger(), io.StringIO()
    handler, level = Handler(stream), logging.getLogger().level
    handler.setFormatter(JsonFormatter())
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    try:
        yield stream
    finally:
        root.removeHandler(handler)
        root.setLevel(level)


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    """Put back the root's handlers and level, and the hooks that `setup_logging` sets."""
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    hooks = sys.excepthook, threading.excepthook, warnings.showwarning
    yield
    # Handlers that pytest took off meanwhile are not brought back.
    root.handlers[:] = [handler for handler in root.handlers if handler in handlers]
    root.setLevel(level)
    logging.captureWarnings(False)
    sys.excepthook, threading.excepthook, warnings.showwarning = hooks
