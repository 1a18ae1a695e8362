"""Alembic's folder. `HEAD` names the newest revision, so that a start need not load Alembic."""

from typing import Final

HEAD: Final = "0002"
