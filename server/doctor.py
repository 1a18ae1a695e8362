"""`graphwright doctor`: looks at everything a run needs, before or beside a running server."""

from __future__ import annotations

import asyncio
import sys
import urllib.request
from collections.abc import Sequence
from contextlib import AsyncExitStack, closing
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import httpx
import typer

from core.clock import SystemClock
from core.errors import ConfigError, Fault, Unavailable
from core.health import Part
from core.settings import Loaded, Settings, load_settings
from providers.registry import BUILT_IN_PROVIDERS
from server import bootstrap, checks, listen, opening, place
from server.cli_base import FAILED

_MARKS: Final = {"ok": "ok  ", "degraded": "warn", "down": "FAIL", "off": "off "}
_COLOURS: Final = {"ok": "32", "degraded": "33", "down": "31", "off": "2"}
_PROVIDER_SECONDS: Final = 10.0
_CLOCK_SKEW_SECONDS: Final = 30.0


async def examine(data_dir: Path | None) -> int:
    """Print each part with cause and cure; return 1 when one is down."""
    try:
        loaded = load_settings(data_dir=data_dir, log_level="ERROR")
        opening.prepare_process(loaded)
    except ConfigError as error:
        return _report(_faults("settings", error.faults))
    return _report(await _parts(loaded))


async def _parts(loaded: Loaded) -> list[Part]:
    settings = loaded.settings
    parts = [checks.settings_part(loaded)]
    try:
        assembly, models = bootstrap.checked(settings, SystemClock())
        parts += [checks.extensions_part(assembly), checks.model_part(models)]
    except ConfigError as error:
        parts += _faults("extensions", error.faults)
    parts += await _database(settings)
    provider, clock = await _provider(settings)
    parts += [provider, clock, await checks.disk_part(settings.data_dir)]
    parts += [await asyncio.to_thread(_port, settings), _proxies(settings)]
    parts += [checks.sandbox_part(), checks.workbench_part(bootstrap.STATIC)]
    return parts


async def _database(settings: Settings) -> list[Part]:
    """Connect as the server would; an embedded cluster is started for the look and left again."""
    clock = SystemClock()
    try:
        async with AsyncExitStack() as stack:
            url = await stack.enter_async_context(opening.database_url(settings, clock))
            database = await stack.enter_async_context(opening.database_at(url, settings))
            migrations = await checks.migrations_part(url)
            if "missing" in migrations.facts:  # nothing wrong: the next start applies them
                migrations = replace(migrations, status="degraded")
            return [await checks.database_part(database), migrations]
    except Unavailable as error:
        given = bool(settings.database_url.get_secret_value())
        cure = "Check DATABASE_URL, and that the database listens there." if given else error.cure
        return [Part("database", "down", error.message, cure, needed=True)]


async def _provider(settings: Settings) -> tuple[Part, Part]:
    """Ask for the list of models, and take the provider's clock to check ours."""
    skipped = Part("provider", "off", "No provider is configured, so none was asked.")
    unknown = Part("clock", "off", "There was nothing to compare the clock with.")
    if settings.model_provider not in BUILT_IN_PROVIDERS:
        cause = (
            f"Models come from {settings.model_provider}, which an extension brought; not asked."
        )
        return Part("provider", "off", cause), unknown
    if not settings.openai_base_url:
        return skipped, unknown
    key = settings.openai_api_key.get_secret_value()
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    trust = not listen.is_loopback(urlsplit(settings.openai_base_url).hostname or "")
    try:
        async with httpx.AsyncClient(timeout=_PROVIDER_SECONDS, trust_env=trust) as http:
            answer = await http.get(f"{settings.openai_base_url}/models", headers=headers)
    except httpx.HTTPError as error:
        cause = f"The provider cannot be reached: {type(error).__name__}."
        cure = "Check OPENAI_BASE_URL, the network and the proxy."
        return Part("provider", "down", cause, cure), unknown
    return _provider_part(answer, settings), _clock_part(answer)


def _provider_part(answer: httpx.Response, settings: Settings) -> Part:
    if answer.status_code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
        cause = f"The provider refuses the key ({answer.status_code})."
        return Part("provider", "down", cause, "Check OPENAI_API_KEY.")
    names = _model_names(answer)
    if names is None:
        cause = (
            f"The provider has no list of models ({answer.status_code}); it may work all the same."
        )
        return Part("provider", "degraded", cause, "Send a message to find out.")
    if settings.openai_model and settings.openai_model not in names:
        cause = f"The provider does not list {settings.openai_model}."
        cure = f"Set OPENAI_MODEL to one it has, such as {', '.join(names[:5]) or 'none'}."
        return Part("provider", "degraded", cause, cure)
    return Part("provider", "ok")


def _model_names(answer: httpx.Response) -> list[str] | None:
    try:
        return [str(model["id"]) for model in answer.json()["data"]]
    except (ValueError, KeyError, TypeError):
        return None


def _clock_part(answer: httpx.Response) -> Part:
    try:
        theirs = parsedate_to_datetime(answer.headers["date"])
    except (KeyError, ValueError):
        return Part("clock", "off", "There was nothing to compare the clock with.")
    ours: datetime = SystemClock().now()
    skew = abs((ours - theirs.replace(tzinfo=theirs.tzinfo or UTC)).total_seconds())
    if skew > _CLOCK_SKEW_SECONDS:
        cause = f"The clock is {skew:.0f} s away from the provider's."
        return Part("clock", "degraded", cause, "Let the machine set its clock by NTP.")
    return Part("clock", "ok")


def _port(settings: Settings) -> Part:
    try:
        listen.check_address(settings.host, settings.auth_mode)
        with closing(listen.bind(settings.host, settings.port)):
            return Part("port", "ok")
    except ConfigError as error:
        try:
            url = place.url_of_running(settings)
        except Unavailable:
            fault = error.faults[0]
            return Part("port", "down", fault.what, fault.cure)
        return Part("port", "ok", facts={"running": url})


def _proxies(settings: Settings) -> Part:
    """Tell which proxies this process would use, and whether one stands in the way."""
    proxies = {kind: address for kind, address in urllib.request.getproxies().items() if address}
    used = sorted(set(proxies) - {"no"})
    if not used:
        return Part("proxies", "ok")
    shown = ", ".join(f"{kind}: {urlsplit(proxies[kind]).hostname}" for kind in used)
    host = urlsplit(settings.openai_base_url).hostname or ""
    if host and not listen.is_loopback(host) and not urllib.request.proxy_bypass(host):
        cause = f"The provider is reached through a proxy ({shown})."
        cure = f"If that is not meant, add {host} to NO_PROXY."
        return Part("proxies", "degraded", cause, cure)
    return Part("proxies", "ok")


def _faults(name: str, faults: Sequence[Fault]) -> list[Part]:
    return [Part(name, "down", f"{fault.where}: {fault.what}", fault.cure) for fault in faults]


def _report(parts: Sequence[Part]) -> int:
    coloured = sys.stdout.isatty()
    for part in parts:
        mark = _MARKS[part.status]
        if coloured:
            mark = f"\x1b[{_COLOURS[part.status]}m{mark}\x1b[0m"
        typer.echo(f"{mark}  {part.name:<11} {part.cause}".rstrip())
        if part.cure and part.status != "ok":
            typer.echo(f"      {'':<11} Cure: {part.cure}")
    return FAILED if any(part.status == "down" for part in parts) else 0
