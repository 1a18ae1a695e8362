"""A provider's address with its key, and the HTTP client that is kept open to it (MODEL-08)."""

from __future__ import annotations

import asyncio
import ipaddress
import ssl
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

import httpx
from pydantic import SecretStr

from core.clock import Clock

OPENAI: Final = "https://api.openai.com/v1"


@dataclass(slots=True)
class Connection:
    """One connection; its client is made at the first request and lives until `aclose`."""

    name: str
    """How messages call the provider."""
    base_url: str
    key: SecretStr
    clock: Clock
    connect_timeout: float = 10.0
    """Seconds until the TCP and TLS connection stands."""
    idle_timeout: float = 120.0
    """Seconds without a single byte."""
    stream_options: bool | None = None
    """Whether the provider takes `stream_options`: unknown until it answered once (L18)."""
    _client: httpx.AsyncClient | None = None
    _opening: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def url(self) -> str:
        """Where chat completions are asked for."""
        return f"{self.base_url.rstrip('/')}/chat/completions"

    @property
    def max_tokens_field(self) -> str:
        """What the provider calls the limit of the answer: only OpenAI knows its newer name."""
        host = urlsplit(self.base_url).hostname or ""
        return "max_completion_tokens" if host == "api.openai.com" else "max_tokens"

    async def client(self) -> httpx.AsyncClient:
        """Return the one client of this connection."""
        async with self._opening:
            if self._client is None:
                self._client = httpx.AsyncClient(
                    verify=await self._verification(),
                    timeout=httpx.Timeout(
                        self.idle_timeout, connect=self.connect_timeout, pool=None
                    ),
                    limits=httpx.Limits(max_connections=None, max_keepalive_connections=100),
                    # A key never follows a redirect to another host.
                    follow_redirects=False,
                    # HTTP_PROXY and its kin hold for the internet, never for this machine:
                    # a proxy cannot reach a model server on our own loopback.
                    trust_env=not is_loopback(self.base_url),
                    headers=self._headers(),
                )
            return self._client

    async def aclose(self) -> None:
        """Close the client."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    def _headers(self) -> dict[str, str]:
        headers = {"content-type": "application/json", "accept": "text/event-stream"}
        if key := self.key.get_secret_value():
            headers["authorization"] = f"Bearer {key}"
        return headers

    async def _verification(self) -> ssl.SSLContext:
        """Load the certificates in a thread: it takes tens of milliseconds."""
        if self.base_url.startswith("http://"):
            # Never used, as redirects are not followed; and it costs nothing.
            return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        return await asyncio.to_thread(httpx.create_ssl_context)


def is_loopback(url: str) -> bool:
    """Tell whether the address is on this very machine."""
    host = urlsplit(url).hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def fault_of_url(url: str) -> str | None:
    """Return what is wrong with a base URL, or None."""
    try:
        parts = urlsplit(url)
        port_is_right = parts.port is None or parts.port > 0
    except ValueError as error:
        return f"it is not a URL ({error})"
    if parts.scheme not in ("http", "https") or not parts.hostname or not port_is_right:
        return "it is not an http:// or https:// address"
    if parts.username or parts.password or parts.query or parts.fragment:
        return "it must not carry a user, a password, a query or a fragment"
    return None
