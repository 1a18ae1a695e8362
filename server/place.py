"""Where the server of a data folder listens, so that commands beside it find it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from core.errors import Unavailable
from core.settings import Settings

_FOLDER: Final = "servers"


@contextmanager
def noted(data_dir: Path, url: str) -> Iterator[None]:
    """Keep a note of the address beside the data for as long as the block lasts."""
    folder = data_dir / _FOLDER
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    note = folder / f"{os.getpid()}.json"
    note.write_text(json.dumps({"url": url, "pid": os.getpid()}))
    try:
        yield
    finally:
        with suppress(OSError):
            note.unlink()


def url_of_running(settings: Settings) -> str:
    """Return the address of the newest server that lives on this data folder.

    Raises:
        Unavailable: none does.
    """
    notes = (settings.data_dir / _FOLDER).glob("*.json")
    for note in sorted(notes, key=lambda path: path.stat().st_mtime, reverse=True):
        with suppress(OSError, ValueError, KeyError):
            known = json.loads(note.read_text())
            os.kill(int(known["pid"]), 0)  # sends nothing; fails where no such process is
            return str(known["url"])
    raise Unavailable(f"No server runs on {settings.data_dir}. Start one: graphwright serve")
