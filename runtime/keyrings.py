"""Encryption keys at a start: the same ones for every process of an installation (EXEC-40)."""

from __future__ import annotations

from pathlib import Path

from core.errors import ConfigError, Fault
from core.settings import Settings
from storage.database import Database
from storage.sealing import FILE, SETTING, Keys, load_keys

BATCH = 200
"""Values sealed anew in one transaction."""


def keys_of(settings: Settings) -> Keys:
    """Return the keys that the settings or the data folder hold; made at the first start.

    Raises:
        ConfigError: a key is no key, or others may read the file.
    """
    return load_keys(settings.encryption_keys.get_secret_value(), settings.data_dir)


def place_of(settings: Settings) -> str:
    """Return where people find the keys."""
    given = settings.encryption_keys.get_secret_value().strip()
    return SETTING if given else str(Path(settings.data_dir) / FILE)


async def check_keys(database: Database, settings: Settings) -> None:
    """Refuse to work on a database whose states this process could not read; note its own key.

    Raises:
        ConfigError: something may be sealed with a key that is not here.
        Unavailable: the database is away.
    """
    names = database.keys.names
    async with database.work() as work:
        if not await work.encryption.is_there():
            return  # nothing is sealed in it yet; who works on it migrates it first
        missing = sorted(await work.encryption.names() - set(names))
        if missing:
            keys, they = ("key", "it") if len(missing) == 1 else ("keys", "them")
            what = f"States in this database are sealed with the {keys} {', '.join(missing)}."
            cure = (
                f"Add {they} here: copy {FILE} from another server or a backup, or set {SETTING}."
            )
            raise ConfigError([Fault(place_of(settings), what, cure)])
        await work.encryption.register(names[0])


async def seal_all_anew(database: Database) -> int:
    """Seal everything with the current key; return how many values that took.

    Raises:
        EncryptionKeyMissing: something is sealed with a key that is not here.
        Unavailable: the database is away.
    """
    total = 0
    while True:
        async with database.work() as work:
            await work.encryption.register(database.keys.current)
            done = await work.encryption.seal_anew(database.keys, BATCH)
        if not done:
            return total
        total += done
