"""Credentials: how they are made, recognised and hashed.

Every credential here is 256 random bits. A plain SHA-256 is right for those: slow hashes protect
what people choose and others could guess, and nobody guesses 2^256; a slow hash would only cost
every single request.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass
from typing import Final

from core.ids import new_secret

_KEY: Final = re.compile(r"gwk_(?P<prefix>[0-9a-f]{12})_(?P<secret>[A-Za-z0-9_-]{43})")
_LINK: Final = re.compile(r"gwl_[A-Za-z0-9_-]{43}")
_COOKIE: Final = re.compile(r"gws_[A-Za-z0-9_-]{43}")


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key at the only moment at which its text is known."""

    text: str
    prefix: str
    """The part by which the key is found and named in lists."""
    secret_hash: str


def new_key() -> NewKey:
    """Return a new API key, `gwk_<prefix>_<secret>`."""
    prefix, secret = secrets.token_hex(6), new_secret()
    return NewKey(f"gwk_{prefix}_{secret}", prefix, digest(secret))


def split_key(text: str) -> tuple[str, str] | None:
    """Return prefix and secret, or none where this cannot be a key."""
    match = _KEY.fullmatch(text)
    return (match["prefix"], match["secret"]) if match else None


def new_link() -> str:
    """Return the token of a one-time link."""
    return new_secret("gwl_")


def new_cookie() -> str:
    """Return the value of a browser session's cookie."""
    return new_secret("gws_")


def is_link(text: str) -> bool:
    """Tell whether this has the form of a link's token."""
    return _LINK.fullmatch(text) is not None


def is_cookie(text: str) -> bool:
    """Tell whether this has the form of a cookie's value."""
    return _COOKIE.fullmatch(text) is not None


def digest(secret: str) -> str:
    """Return what is stored in place of a secret."""
    return hashlib.sha256(secret.encode()).hexdigest()


def fits(secret: str, stored: str) -> bool:
    """Tell whether this secret has that digest, in a time that tells nothing."""
    return hmac.compare_digest(digest(secret), stored)
