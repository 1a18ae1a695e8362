"""Models that providers of extensions make, ready to be asked."""

from __future__ import annotations

import inspect
from typing import Any

from core.clock import Clock
from core.errors import ConfigError, Fault
from core.log import get_logger
from core.masking import mask
from core.ports import ModelHandle
from core.providing import ModelConnection, ProviderSpec
from core.settings import Settings
from providers.retry import Retries
from providers.windows import reserve_of

_SHAPE = "Return a LangChain chat model, such as init_chat_model(…) gives."

_log = get_logger(__name__)


def made_by(spec: ProviderSpec, settings: Settings, clock: Clock) -> ModelHandle:
    """Let a provider make the model that the settings name.

    Raises:
        ConfigError: its factory fails, or makes something else.
    """
    place = f"{spec.where}: model provider {spec.name!r}"
    connection = ModelConnection(
        model=settings.openai_model,
        base_url=settings.openai_base_url,
        api_key=settings.openai_api_key,
        connect_timeout=settings.model_connect_timeout,
        idle_timeout=settings.model_idle_timeout,
    )
    try:
        thing = spec.factory(connection)
    except (Exception, SystemExit) as error:  # boundary: foreign code must not end the start
        _log.debug("model provider failed", exc_info=error)
        what = f"Its factory failed: {mask(f'{type(error).__name__}: {error}')[:500]}."
        raise ConfigError([Fault(place, what, "Correct the extension or its settings.")]) from error
    handle = _handle(thing, spec, settings, clock)
    if handle is None:
        if inspect.iscoroutine(thing):
            thing.close()
        what = f"Its factory gave {type(thing).__name__}, which is no chat model."
        raise ConfigError([Fault(place, what, _SHAPE)])
    return handle


def _handle(thing: Any, spec: ProviderSpec, settings: Settings, clock: Clock) -> ModelHandle | None:
    from langchain_core.language_models import BaseChatModel

    if not isinstance(thing, BaseChatModel):
        from providers.guarded import GuardedHandle, is_handle

        return GuardedHandle(thing, spec.name, clock) if is_handle(thing) else None
    from providers.chat_model import ChatModelHandle

    limit = settings.context_limit
    handle = ChatModelHandle(
        thing,
        clock=clock,
        name=settings.openai_model or None,
        provider=spec.name,
        context_window=limit or None,
        max_output=reserve_of(limit) if limit else None,
    )
    handle.retries = Retries(settings.openai_max_retries, settings.model_max_wait)
    handle.idle_timeout = settings.model_idle_timeout
    return handle
