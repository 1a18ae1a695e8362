"""Takes secrets out of text before anybody can read it: logs, stack traces, warnings, health.

Two nets: shapes that secrets usually have, and the very values that this process knows to be
secret (`learn`). Masking twice changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import unquote, urlsplit

MASK: Final = "***"

DATA: Final = "<data>"
"""Stands for the folder of users' data, wherever on the machine that is."""

_BELOW: Final = re.compile(rf"{DATA}[\\/][^\s'\"<>|]*")

_SHORTEST_LITERAL: Final = 8
"""Shorter secrets are not looked for everywhere: they would hide ordinary words."""

_DEEPEST: Final = 6
"""Levels of nested values that are walked; what lies deeper is not shown."""

_WORDS: Final = (
    "password", "passwd", "passphrase", "pwd", "secrets", "secret", "token", "api_key", "api-key", "apikey",
    "access_key", "access-key", "accesskey", "private_key", "private-key", "privatekey",
    "authorization", "credentials", "credential", "cookie", "signature", "database_url", "dsn", "conninfo",
)  # fmt: skip
"""What names of secrets contain."""

_NAME: Final = rf"[\w.-]{{0,40}}?(?:{'|'.join(_WORDS)})(?:[_-](?:key|hash|value))?"
_SECRET_FIELD: Final = re.compile(_NAME, re.IGNORECASE)
_SCHEME: Final = r"(\b[a-z][a-z0-9+.-]{0,30}://[^\s/:@'\"]{0,200}:)"


@dataclass(frozen=True, slots=True)
class _Rule:
    """One shape of secret. Every repetition has a bound: masking must be quick on any text."""

    needles: tuple[str, ...]
    """Lower-case texts of which one must be there for the pattern to be tried at all."""
    pattern: re.Pattern[str]
    replacement: str


def _rule(*needles: str, find: str, put: str, flags: int = re.IGNORECASE) -> _Rule:
    return _Rule(needles, re.compile(find, flags), put)


_RULES: Final = (
    # Blocks and whole headers first: later rules see less.
    _rule(
        "private key-----",
        find=r"-----BEGIN ([A-Z ]{0,30})PRIVATE KEY-----.*?(?:-----END \1PRIVATE KEY-----|\Z)",
        put=f"{MASK} private key",
        flags=re.DOTALL,
    ),
    _rule("cookie", find=r"\b((?:set-)?cookie['\"]?\s{0,9}[:=]\s{0,9})[^\r\n}]+", put=rf"\1{MASK}"),
    _rule(
        "bearer", "basic", "negotiate",
        find=r"\b(bearer|basic|negotiate)(\s{1,9})[A-Za-z0-9._~+/=-]{6,}",
        put=rf"\1\2{MASK}",
    ),
    # Anything://user:password@host, database addresses included. The password may hold any
    # character but white space, a slash and an at sign too; a port with a path is none.
    _rule("://", find=rf"{_SCHEME}[^\s/'\"]{{1,500}}(@)", put=rf"\1{MASK}\2"),
    _rule(
        "://",
        find=rf"{_SCHEME}(?!\d{{1,5}}[/?#])[^\s'\"]{{1,500}}(@[\w.\[\]:-]{{1,255}}(?:/|\s|$))",
        put=rf"\1{MASK}\2",
    ),
    # Keys and tokens of known make.
    _rule("gw", find=r"\b(gw[a-z]_)[A-Za-z0-9_-]{6,}", put=rf"\1{MASK}"),
    _rule("sk-", "rk-", "pk-", find=r"\b([srp]k-)[A-Za-z0-9_-]{6,}", put=rf"\1{MASK}"),
    _rule(
        "gh", "glpat-", "xox",
        find=r"\b(gh[pousr]_|github_pat_|glpat-|xox[abeprs]-)[A-Za-z0-9_-]{6,}",
        put=rf"\1{MASK}",
    ),
    _rule("akia", find=r"\bAKIA[A-Z0-9]{12,}\b", put=f"AKIA{MASK}", flags=0),
    _rule("eyj", find=r"\beyJ[\w-]{5,}\.[\w-]{5,}(?:\.[\w-]*)?", put=f"eyJ{MASK}", flags=0),
    # One-time links carry their token in the path or the query.
    _rule("/login/", find=r"(/login/)[^\s/?#'\"]{8,}", put=rf"\1{MASK}"),
    # 256 random bits in URL-safe letters, as core.ids.new_secret makes them.
    _rule(
        find=r"(?<![\w-])(?=[\w-]{0,42}\d)(?=[\w-]{0,42}[a-z])(?=[\w-]{0,42}[A-Z])"
        r"[A-Za-z0-9_-]{43}(?![\w-])",
        put=MASK,
        flags=0,
    ),
    # A list or object under such a name.
    _rule(
        *_WORDS,
        find=rf"(?<![\w.-])({_NAME}['\"]?\s{{0,9}}[:=]\s{{0,9}})[\[({{][^\])}}\r\n]{{0,2000}}[\])}}]",
        put=rf"\1{MASK}",
    ),
    # name=value, "name": "value", name: value. Quoted values may hold anything.
    _rule(
        *_WORDS,
        find=rf"(?<![\w.-])({_NAME}['\"]?\s{{0,9}}[:=]\s{{0,9}})(['\"])(?!\*\*\*)(?:\\.|(?!\2).)+\2",
        put=rf"\1\2{MASK}\2",
    ),
    _rule(
        *_WORDS,
        find=rf"(?<![\w.-])({_NAME}['\"]?\s{{0,9}}[:=]\s{{0,9}})"
        r"(?!\*\*\*|['\"]|(?:bearer|basic)\s)[^\s,;&)\]}'\"]+",
        put=rf"\1{MASK}",
    ),
    # What libraries quote from the user's data: pydantic, SQLAlchemy, PostgreSQL.
    _rule(
        "input_value=",
        find=r"(input_value=).{0,2000}?(, input_type=)",
        put=rf"\1{MASK}\2",
        flags=re.DOTALL,
    ),
    _rule(
        "[parameters: ",
        find=r"(\[parameters: ).{0,4000}?(\]\s{0,9}(?:\n|$|\(Background))",
        put=rf"\1{MASK}\2",
        flags=re.DOTALL,
    ),
    _rule("detail:", find=r"(DETAIL:\s{1,9})[^\n]+", put=rf"\1{MASK}", flags=0),
)  # fmt: skip

_literals: set[str] = set()
"""Secret values that this process knows; longest first when they are looked for."""


_folders: dict[str, re.Pattern[str]] = {}
"""The data folder as it may be written, with what finds it."""


def learn(*secrets: str) -> None:
    """Remember values that must never be shown; the password inside an address is taken out of it.

    Values shorter than eight characters are not remembered.
    """
    for secret in secrets:
        for value in (secret, *_passwords(secret)):
            if len(value) >= _SHORTEST_LITERAL:
                _literals.add(value)


def learn_folder(folder: Path) -> None:
    """Remember the folder that users' data lie in: its place on the machine is nobody's business."""
    for path in {str(folder.absolute()), str(folder.resolve())}:
        if path.strip("/\\"):
            _folders[path] = re.compile(rf"(?<![\w.-]){re.escape(path)}(?![\w.-])")


def mask_known(text: str) -> str:
    """Return the text without the values that this process knows to be secret.

    For what a tool found out: text that only looks like a secret may be what was asked for.
    """
    for literal in sorted(_literals, key=len, reverse=True):
        if literal in text:
            text = text.replace(literal, MASK)
    return text


def mask_known_value(value: Any) -> Any:
    """Return a JSON value whose texts, names of fields too, went through `mask_known`."""
    if isinstance(value, str):
        return mask_known(value)
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return {mask_known(name): mask_known_value(one) for name, one in fields.items()}
    if isinstance(value, list):
        return [mask_known_value(one) for one in cast("list[Any]", value)]
    return value


def mask_told(text: str) -> str:
    """Return the text of an error as models and users may read it: no path in the data either."""
    return _BELOW.sub(DATA, mask(text))


def mask(text: str) -> str:
    """Return the text without anything that is known or looks to be secret."""
    text = mask_known(text)
    for path, pattern in _folders.items():
        if path in text:
            text = pattern.sub(DATA, text)
    lowered = text.lower()
    for rule in _RULES:
        if not rule.needles or any(needle in lowered for needle in rule.needles):
            text = rule.pattern.sub(rule.replacement, text)
    return text


def is_secret_name(name: str) -> bool:
    """Tell whether a field or setting of this name holds a secret."""
    return _SECRET_FIELD.fullmatch(name) is not None


def mask_value(value: Any, name: str = "", depth: int = 0) -> Any:
    """Return a value that may be logged as JSON: secret fields hidden, texts masked.

    Args:
        value: anything; unknown types become their text.
        name: the name it stands under; a secret name hides the whole value.
        depth: levels above this value.
    """
    if value is None:
        return None
    if name and is_secret_name(name):
        return MASK
    if isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return mask(value)
    return "…" if depth >= _DEEPEST else _mask_parts(value, depth)


def hint(value: str) -> str:
    """Return a secret's shape, enough to tell two of them apart: `sk-…7Q (51)`."""
    if len(value) < 12:
        return f"{MASK} ({len(value)})"
    return f"{value[:3]}…{value[-2:]} ({len(value)})"


# Helpers ----------------------------------------------------------------------------------


def _mask_parts(value: object, depth: int) -> Any:
    if isinstance(value, Mapping):
        items = cast("Mapping[Any, Any]", value).items()
        return {mask(str(key)): mask_value(item, str(key), depth + 1) for key, item in items}
    if isinstance(value, Sequence | Set) and not isinstance(value, bytes | bytearray):
        return [mask_value(item, "", depth + 1) for item in cast("Sequence[Any]", value)]
    return mask(_text(value))


def _passwords(text: str) -> tuple[str, ...]:
    """Return the password of an address, as written and as meant."""
    if "://" not in text:
        return ()
    try:
        password = urlsplit(text).password
    except ValueError:
        return ()
    return (password, unquote(password)) if password else ()


def _text(value: object) -> str:
    if isinstance(value, bytes | bytearray):
        return f"<{len(value)} bytes>"
    try:
        return str(value)
    except Exception:  # boundary: a foreign __str__ must not break the line that reports it
        return f"<{type(value).__name__}>"
