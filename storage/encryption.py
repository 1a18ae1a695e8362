"""Names of the encryption keys in use, and what is sealed with which of them."""

from __future__ import annotations

from typing import Final

from sqlalchemy import TableClause, column, delete, func, select, table, update
from sqlalchemy.dialects.postgresql import insert

from storage.repository import Repository
from storage.sealing import Keys
from storage.tables import encryption_keys


def _place(name: str, *key: str) -> TableClause:
    return table(name, *map(column, (*key, "type", "blob")))


_PLACES: Final = (
    _place("checkpoint_blobs", "thread_id", "checkpoint_ns", "channel", "version"),
    _place("checkpoint_writes", "thread_id", "checkpoint_ns", "checkpoint_id", "task_id", "idx"),
    _place("tool_journal", "run_id", "call_id"),
)
"""Tables with sealed values; the columns before these two are their keys."""

_NOTHING: Final = "empty"
"""Form of a value that is none: nothing is sealed."""


class Encryption(Repository):
    """`work.encryption`."""

    async def is_there(self) -> bool:
        """Tell whether the database has been migrated so far that it knows of keys."""
        there = func.to_regclass("encryption_keys").is_not(None)
        row = await self._one(select(there.label("there")))
        return row is not None and bool(row["there"])

    async def names(self) -> set[str]:
        """Return the names of all keys with which something may be sealed."""
        return {row["id"] for row in await self._all(select(encryption_keys.c.id))}

    async def register(self, name: str) -> None:
        """Note that a key is used from now on."""
        await self._execute(insert(encryption_keys).values(id=name).on_conflict_do_nothing())

    async def forget(self, names: set[str]) -> None:
        """Note that nothing is sealed with these keys any more."""
        await self._execute(delete(encryption_keys).where(encryption_keys.c.id.in_(names)))

    async def counts(self) -> dict[str, int]:
        """Return how many values are sealed with each key; those in clear under an empty name."""
        found: dict[str, int] = {}
        for place in _PLACES:
            key = func.split_part(place.c.type, "+", 2).label("key")
            counted = select(key, func.count().label("n")).where(place.c.type != _NOTHING)
            for row in await self._all(counted.group_by(key)):
                found[row["key"]] = found.get(row["key"], 0) + row["n"]
        return found

    async def seal_anew(self, keys: Keys, limit: int) -> int:
        """Seal values with the current key that another one sealed, or none.

        Args:
            keys: open and seal.
            limit: values of each table at most.

        Returns:
            How many there were; none is left where it is 0.

        Raises:
            EncryptionKeyMissing: one is sealed with a key that is not here.
            ValueError: one was changed.
        """
        done = 0
        for place in _PLACES:
            other = ~place.c.type.like(f"%+{keys.current}")
            chosen = select(place).where(place.c.type != _NOTHING, other).limit(limit)
            for row in await self._all(chosen.with_for_update(skip_locked=True)):
                same = [one == row[one.name] for one in place.c if one.name not in ("type", "blob")]
                form, sealed = _sealed(keys, row["type"], row["blob"])
                await self._execute(update(place).where(*same).values(type=form, blob=sealed))
                done += 1
        return done


def _sealed(keys: Keys, form: str, data: bytes) -> tuple[str, bytes]:
    plain_form, sealed_by, name = form.partition("+")
    about = plain_form.encode()
    plain = keys.open(name, data, about=about) if sealed_by else data
    name, sealed = keys.seal(plain, about=about)
    return f"{plain_form}+{name}", sealed
