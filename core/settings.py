"""Every setting, read once. The only module that looks at the environment."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

Names = Annotated[frozenset[str], NoDecode]
"""Names separated by commas."""


def _either(ours: str, *others: str) -> AliasChoices:
    """Accept our name first, then the ecosystem's or vent-agent's."""
    return AliasChoices(ours, *others)


class Settings(BaseSettings):
    """The whole configuration. `.env.example` lists the same names, in the same order."""

    model_config = SettingsConfigDict(extra="ignore", populate_by_name=True, env_file=None)

    # Place
    data_dir: Path = Field(Path("data"), validation_alias=_either("GW_DATA_DIR"))
    host: str = Field("127.0.0.1", validation_alias=_either("HOST"))
    port: int = Field(8000, ge=0, le=65535, validation_alias=_either("PORT"))
    database_url: SecretStr = Field(SecretStr(""), validation_alias=_either("DATABASE_URL"))
    db_pool_size: int = Field(20, ge=4, le=500, validation_alias=_either("GW_DB_POOL_SIZE"))

    # Who may come in
    auth_mode: Literal["local"] = Field("local", validation_alias=_either("GW_AUTH_MODE"))
    login_days: int = Field(30, ge=1, le=365, validation_alias=_either("GW_LOGIN_DAYS"))

    # Model
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

    # Runs
    worker_concurrency: int = Field(
        20, ge=1, le=1000, validation_alias=_either("GW_WORKER_CONCURRENCY")
    )
    user_concurrency: int = Field(10, ge=1, validation_alias=_either("GW_USER_CONCURRENCY"))
    queue_per_user: int = Field(500, ge=1, validation_alias=_either("GW_QUEUE_PER_USER"))
    queue_total: int = Field(5000, ge=1, validation_alias=_either("GW_QUEUE_TOTAL"))
    max_attempts: int = Field(3, ge=1, validation_alias=_either("GW_MAX_ATTEMPTS"))
    heartbeat_seconds: float = Field(5.0, gt=0, validation_alias=_either("GW_HEARTBEAT_SECONDS"))
    owner_dead_seconds: float = Field(30.0, gt=0, validation_alias=_either("GW_OWNER_DEAD_SECONDS"))
    drain_seconds: float = Field(10.0, ge=0, validation_alias=_either("GW_DRAIN_SECONDS"))

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

    @field_validator("log_level", mode="before")
    @classmethod
    def _upper(cls, value: Any) -> Any:
        return value.upper() if isinstance(value, str) else value
