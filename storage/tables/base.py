"""What the tables are made of."""

from __future__ import annotations

import re
from typing import Any, ClassVar

from sqlalchemy import BigInteger, DateTime, MetaData, Text, func, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import declared_attr
from sqlmodel import Field, SQLModel

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


class Base(SQLModel):
    """Base of our tables, apart from those of extensions. `ApiKeys` is the table `api_keys`."""

    metadata: ClassVar[MetaData] = metadata  # pyright: ignore[reportIncompatibleVariableOverride]

    @declared_attr.directive
    def __tablename__(cls) -> str:  # noqa: N805 # pyright: ignore[reportIncompatibleVariableOverride]
        """Return the class's name as SQL writes names."""
        return re.sub("(?<=[a-z])(?=[A-Z])", "_", cls.__name__).lower()


def words(**options: Any) -> Any:
    """Return a column of text."""
    return Field(sa_type=Text, **options)


def moment(**options: Any) -> Any:
    """Return a column of a moment, with zone."""
    return Field(sa_type=DateTime(timezone=True), **options)


def made_at() -> Any:
    """Return a column with the moment of the insert."""
    return moment(sa_column_kwargs={"server_default": func.now()})


def data(default: str | None = None) -> Any:
    """Return a column of JSON; `default` is SQL."""
    options: dict[str, Any] = {"server_default": text(default)} if default else {}
    return Field(sa_type=JSONB, sa_column_kwargs=options)


def count() -> Any:
    """Return a column of a large number that begins at 0."""
    return Field(sa_type=BigInteger, sa_column_kwargs={"server_default": text("0")})


def of(name: str, **options: Any) -> Any:
    """Return a column that names a row of another table and goes with it."""
    return words(foreign_key=f"{name}.id", ondelete="CASCADE", **options)
