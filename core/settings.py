"""Every setting, read once. The only module that looks at the environment."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AliasChoices, Field, SecretStr, TypeAdapter, ValidationError, field_validator
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from core.errors import ConfigError, Fault
from core.masking import hint, is_secret_name, learn, learn_folder, mask
from core.settings_sources import Conflict, Sources, Unknown

Names = Annotated[frozenset[str], NoDecode]
"""Names separated by commas."""

Folders = Annotated[tuple[Path, ...], NoDecode]
"""Folders separated as in PATH: by `:`, on Windows by `;`."""


def _either(ours: str, *others: str) -> AliasChoices:
    """Accept our name first, then the ecosystem's or vent-agent's."""
    return AliasChoices(ours, *others)


class Settings(BaseSettings):
    """The whole configuration. `.env.example` lists the same names, in the same order.

    `Settings()` holds the defaults and looks nowhere; `load_settings` reads the environment.
    """

    model_config = SettingsConfigDict(extra="ignore", populate_by_name=True, env_file=None)

    # Place
    data_dir: Path = Field(Path("data"), validation_alias=_either("GW_DATA_DIR"))
    host: str = Field("127.0.0.1", validation_alias=_either("HOST"))
    port: int = Field(8000, ge=0, le=65535, validation_alias=_either("PORT"))
    database_url: SecretStr = Field(SecretStr(""), validation_alias=_either("DATABASE_URL"))
    encryption_keys: SecretStr = Field(
        SecretStr(""), validation_alias=_either("GW_ENCRYPTION_KEYS")
    )
    db_pool_size: int = Field(20, ge=4, le=500, validation_alias=_either("GW_DB_POOL_SIZE"))

    # Who may come in
    auth_mode: Literal["local"] = Field("local", validation_alias=_either("GW_AUTH_MODE"))
    login_days: int = Field(30, ge=1, le=365, validation_alias=_either("GW_LOGIN_DAYS"))

    # Model
    model_provider: str = Field(
        "openai", validation_alias=_either("MODEL_PROVIDER", "GW_MODEL_PROVIDER")
    )
    openai_base_url: str = Field("", validation_alias=_either("OPENAI_BASE_URL"))
    openai_api_key: SecretStr = Field(SecretStr(""), validation_alias=_either("OPENAI_API_KEY"))
    openai_model: str = Field("", validation_alias=_either("OPENAI_MODEL"))
    openai_max_retries: int = Field(8, ge=0, le=50, validation_alias=_either("OPENAI_MAX_RETRIES"))
    model_connect_timeout: float = Field(
        10.0, gt=0, validation_alias=_either("GW_MODEL_CONNECT_TIMEOUT")
    )
    model_idle_timeout: float = Field(
        120.0, gt=0, validation_alias=_either("GW_MODEL_IDLE_TIMEOUT")
    )
    model_max_wait: float = Field(60.0, gt=0, validation_alias=_either("GW_MODEL_MAX_WAIT"))
    context_limit: int = Field(
        0, ge=0, validation_alias=_either("GW_CONTEXT_LIMIT", "CONTEXT_LIMIT")
    )
    compact_enabled: bool = Field(
        True, validation_alias=_either("GW_COMPACT_ENABLED", "CTX_COMPACT_ENABLED")
    )
    titles: Literal["on", "off"] = Field("on", validation_alias=_either("GW_TITLES"))
    billing_allow_unpriced: bool = Field(
        False, validation_alias=_either("GW_BILLING_ALLOW_UNPRICED", "BILLING_ALLOW_UNPRICED")
    )

    # Agent
    hitl_tools: Names = Field(frozenset(), validation_alias=_either("GW_HITL_TOOLS", "HITL_TOOLS"))
    max_steps: int = Field(300, ge=1, validation_alias=_either("GW_MAX_STEPS"))
    max_model_calls: int = Field(150, ge=1, validation_alias=_either("GW_MAX_MODEL_CALLS"))
    run_token_budget: int = Field(0, ge=0, validation_alias=_either("GW_RUN_TOKEN_BUDGET"))
    run_seconds: float = Field(0, ge=0, validation_alias=_either("GW_RUN_SECONDS"))
    repeat_hint: int = Field(2, ge=1, validation_alias=_either("GW_REPEAT_HINT"))
    repeat_refuse: int = Field(4, ge=2, validation_alias=_either("GW_REPEAT_REFUSE"))
    stall_steps: int = Field(8, ge=2, validation_alias=_either("GW_STALL_STEPS"))
    tool_timeout: float = Field(120.0, gt=0, validation_alias=_either("GW_TOOL_TIMEOUT"))

    # Extensions
    extensions_path: Folders = Field((), validation_alias=_either("GW_EXTENSIONS_PATH"))

    # Runs
    worker_concurrency: int = Field(
        20, ge=1, le=1000, validation_alias=_either("GW_WORKER_CONCURRENCY")
    )
    workers: int = Field(0, ge=0, le=64, validation_alias=_either("GW_WORKERS"))
    user_concurrency: int = Field(10, ge=1, validation_alias=_either("GW_USER_CONCURRENCY"))
    queue_per_user: int = Field(500, ge=1, validation_alias=_either("GW_QUEUE_PER_USER"))
    queue_total: int = Field(5000, ge=1, validation_alias=_either("GW_QUEUE_TOTAL"))
    max_attempts: int = Field(3, ge=1, validation_alias=_either("GW_MAX_ATTEMPTS"))
    heartbeat_seconds: float = Field(3.0, gt=0, validation_alias=_either("GW_HEARTBEAT_SECONDS"))
    owner_dead_seconds: float = Field(10.0, gt=0, validation_alias=_either("GW_OWNER_DEAD_SECONDS"))
    drain_seconds: float = Field(10.0, ge=0, validation_alias=_either("GW_DRAIN_SECONDS"))
    handover_seconds: float = Field(10.0, ge=0, validation_alias=_either("GW_HANDOVER_SECONDS"))

    # Files
    max_upload_mb: int = Field(50, ge=1, validation_alias=_either("GW_MAX_UPLOAD_MB"))
    project_quota_mb: int = Field(2048, ge=1, validation_alias=_either("GW_PROJECT_QUOTA_MB"))

    # Logs
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        "INFO", validation_alias=_either("LOG_LEVEL")
    )
    log_format: Literal["text", "json"] = Field("text", validation_alias=_either("LOG_FORMAT"))

    # Reading of settings, tests
    env_priority: Literal["dotenv", "process", "none"] = Field(
        "dotenv", validation_alias=_either("GW_ENV_PRIORITY", "DEEP_AGENT_ENV_PRIORITY")
    )
    faults: str = Field("", validation_alias=_either("GW_FAULTS"))

    @field_validator("hitl_tools", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        if isinstance(value, str):
            return frozenset(name.strip() for name in value.split(",") if name.strip())
        return value

    @field_validator("extensions_path", mode="before")
    @classmethod
    def _split_path(cls, value: Any) -> Any:
        if isinstance(value, str):
            parts = (part.strip() for part in value.split(os.pathsep))
            return tuple(Path(part).expanduser() for part in parts if part)
        return value

    @field_validator("log_level", mode="before")
    @classmethod
    def _upper(cls, value: Any) -> Any:
        return value.upper() if isinstance(value, str) else value

    @field_validator("openai_base_url")
    @classmethod
    def _address(cls, value: str) -> str:
        parts = urlsplit(value)
        if value and not (parts.scheme in ("http", "https") and parts.hostname):
            raise ValueError("it should be an address such as https://host/v1")
        return value.rstrip("/")

    @classmethod
    def settings_customise_sources(
        cls, *_: object, **sources: PydanticBaseSettingsSource
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Take values only from `load_settings`, which knows which source counts."""
        return (sources["init_settings"],)


@dataclass(frozen=True, slots=True)
class Loaded:
    """The settings, with what should be said about where they came from."""

    settings: Settings
    conflicts: tuple[Conflict, ...] = ()
    unknown: tuple[Unknown, ...] = ()

    def warnings(self) -> list[str]:
        """Return one sentence for each conflict and unknown name; no secret is in them."""
        return [str(item) for item in (*self.conflicts, *self.unknown)]


def load_settings(
    env_file: Path | None = Path(".env"),
    process: Mapping[str, str] | None = None,
    **overrides: Any,
) -> Loaded:
    """Read every setting once, by the priority that `GW_ENV_PRIORITY` says.

    Secret values are made known to `core.masking`, so that no log line shows them.

    Args:
        env_file: the `.env` file; `None` reads none, a missing one is an empty one.
        process: the environment; that of this process where missing.
        overrides: fields set by hand, such as options of the command line; `None` sets nothing.

    Raises:
        ConfigError: with one fault for each value that is not allowed.
    """
    sources = Sources.read(env_file, os.environ if process is None else process)
    names = setting_names()
    given = {field: found for field, all_of in names.items() if (found := sources.find(all_of))}
    values = {field: value for field, (_, value) in given.items()}
    values |= {field: value for field, value in overrides.items() if value is not None}
    try:
        settings = Settings.model_validate(values)
    except ValidationError as error:
        where = {field: name for field, (name, _) in given.items()}
        raise ConfigError(_faults(error, where)) from None
    _remember(settings, sources)
    conflicts = [sources.conflict(all_of) for all_of in names.values()]
    known = itertools.chain.from_iterable(names.values())
    return Loaded(settings, tuple(filter(None, conflicts)), tuple(sources.unknown(known)))


def setting_names() -> dict[str, tuple[str, ...]]:
    """Return the names of each field in the environment, ours first."""
    names: dict[str, tuple[str, ...]] = {}
    for field, info in Settings.model_fields.items():
        alias = info.validation_alias
        choices = alias.choices if isinstance(alias, AliasChoices) else [alias or field]
        names[field] = tuple(str(choice) for choice in choices)
    return names


def get_setting(name: str, default: Any = None) -> Any:
    """Return what `.env` or the process says under any name, by the same priority.

    Meant for extensions, for names of their own. The text is turned into the type of `default`
    where that is a number or a truth value.

    Raises:
        ConfigError: the text is no such number or truth value.
    """
    found = _sources().find((name,))
    if found is None:
        return default
    text = found[1]
    if is_secret_name(name):
        learn(text)
    if not isinstance(default, bool | int | float):
        return text
    try:
        return TypeAdapter[Any](type(default)).validate_python(text)
    except ValidationError:
        kind = type(default).__name__
        raise ConfigError(
            [Fault(name, f"its value is no {kind}.", "Correct it, or remove it.")]
        ) from None


# Helpers ----------------------------------------------------------------------------------

_current: list[Sources] = []
"""What was read last; a list so that it can be filled later."""


def _sources() -> Sources:
    if not _current:
        _current.append(Sources.read(Path(".env"), os.environ))
    return _current[0]


def _remember(settings: Settings, sources: Sources) -> None:
    _current[:] = [sources]
    for field in Settings.model_fields:
        value = getattr(settings, field)
        if isinstance(value, SecretStr):
            learn(value.get_secret_value())
    learn_folder(settings.data_dir)


def _faults(error: ValidationError, where: Mapping[str, str]) -> list[Fault]:
    """Say for each bad value its name, what is wrong and what is allowed."""
    names = setting_names()
    faults: list[Fault] = []
    for problem in error.errors(include_url=False):
        place = str(problem["loc"][0])
        field = next((f for f, all_of in names.items() if place in (f, *all_of)), place)
        name = where.get(field, names.get(field, (place,))[0])
        value = str(problem["input"])
        shown = hint(value) if is_secret_name(name) else repr(mask(value))
        said = problem["msg"].removeprefix("Value error, ").replace("Input should", "it should")
        faults.append(Fault(name, f"{shown} is not allowed: {said}.", _cure(field)))
    return faults


def _cure(field: str) -> str:
    info = Settings.model_fields.get(field)
    default = info.default if info else ""
    shown = default.get_secret_value() if isinstance(default, SecretStr) else str(default)
    return f"Correct it, or remove it to get the default ({shown or 'empty'})."
