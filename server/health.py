"""The health of the whole: every part asked, none of them waited for too long."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from core.health import Part
from core.ports import Models
from core.registry import Assembly
from core.settings import Loaded
from runtime.environment import Runtime
from server import checks
from storage.database import Database


@dataclass(frozen=True, slots=True)
class Health:
    """Asks the parts of a running product. Never calls a model provider."""

    loaded: Loaded
    database: Database
    environment: Runtime
    assembly: Assembly
    models: Models
    static: Path

    async def parts(self) -> Sequence[Part]:
        """Return every part; `needed` ones decide whether the server is ready."""
        database, migrations, disk, worker, skills = await asyncio.gather(
            checks.database_part(self.database),
            checks.migrations_part(self.database.url),
            checks.disk_part(self.loaded.settings.data_dir),
            self.environment.health(),
            self.environment.skills.health(),
        )
        return (
            database,
            migrations,
            worker,
            checks.model_part(self.models),
            checks.extensions_part(self.assembly),
            skills,
            disk,
            checks.settings_part(self.loaded),
            checks.sandbox_part(),
            checks.scheduler_part(),
            checks.workbench_part(self.static),
        )
