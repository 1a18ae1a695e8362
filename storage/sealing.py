"""Secrets at rest: what is sealed with which key, and where the keys are (EXEC-40).

    keys = load_keys(settings.encryption_keys, data_dir)   # made at the first start
    name, sealed = keys.seal(b"…", about=b"msgpack")
    keys.open(name, sealed, about=b"msgpack")

Keys come from `GW_ENCRYPTION_KEYS` or from the file `encryption.keys` in the data folder, newest
first: the first one seals, all of them open. The cipher is AES-256-GCM-SIV (RFC 8452): it stays
safe for as many values as one key will ever seal, even where a nonce came up twice. A file that
changed is read again, so that a rotation reaches servers that run.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCMSIV

from core.errors import ConfigError, EncryptionKeyMissing, Fault
from core.ids import new_id
from core.log import get_logger

log = get_logger(__name__)

FILE: Final = "encryption.keys"
SETTING: Final = "GW_ENCRYPTION_KEYS"

_BYTES: Final = 32
_NONCE: Final = 12
_MAKE: Final = "Make one with: openssl rand -base64 32"


class Keys:
    """The keys of one installation."""

    def __init__(self, keys: Sequence[bytes], reread: Callable[[], Sequence[bytes] | None]) -> None:
        """Take the keys.

        Args:
            keys: 32 bytes each, the one that seals first; at least one.
            reread: returns them anew where they may have changed, otherwise none.
        """
        self._reread = reread
        self._take(keys)

    def _take(self, keys: Sequence[bytes]) -> None:
        self._ciphers = {key_id(key): AESGCMSIV(key) for key in keys}
        self._first = key_id(keys[0])

    @property
    def current(self) -> str:
        """Name of the key that seals."""
        self._look()
        return self._first

    @property
    def names(self) -> list[str]:
        """Names of all keys, the one that seals first."""
        self._look()
        return list(self._ciphers)

    def seal(self, data: bytes, *, about: bytes) -> tuple[str, bytes]:
        """Return the name of the key and the sealed bytes.

        Args:
            data: what nobody may read.
            about: stored beside it in clear; changing it later makes it unreadable.
        """
        name = self.current
        nonce = os.urandom(_NONCE)
        return name, nonce + self._ciphers[name].encrypt(nonce, data, about)

    def open(self, name: str, sealed: bytes, *, about: bytes) -> bytes:
        """Return what was sealed.

        Raises:
            EncryptionKeyMissing: there is no such key here.
            ValueError: the bytes were changed or cut.
        """
        cipher = self._ciphers.get(name)
        if cipher is None:
            self._look()
            cipher = self._ciphers.get(name)
        if cipher is None:
            raise EncryptionKeyMissing(f"The encryption key {name} is not here.")
        try:
            return cipher.decrypt(sealed[:_NONCE], sealed[_NONCE:], about)
        except InvalidTag:
            raise ValueError("sealed bytes were changed") from None

    def _look(self) -> None:
        anew = self._reread()
        if anew:
            self._take(anew)


def key_id(key: bytes) -> str:
    """Return a key's name, which tells nothing about it."""
    return hashlib.sha256(b"graphwright encryption key " + key).hexdigest()[:8]


def load_keys(setting: str, data_dir: Path) -> Keys:
    """Return the keys of the setting, or of the data folder's file, made where missing.

    Raises:
        ConfigError: a key is no key, or others may read the file.
    """
    if setting.strip():
        return Keys(_parsed(setting.split(","), SETTING), lambda: None)
    path = data_dir / FILE
    if not path.exists():
        _make(path)
    file = _File(path)
    keys = file.read()
    return Keys(keys, file.changed)


def add_key(data_dir: Path) -> None:
    """Put a new key in front of the file's keys: from now on it seals.

    Raises:
        ConfigError: as for `load_keys`.
    """
    path = data_dir / FILE
    old = _File(path).read() if path.exists() else []
    _write(path, [os.urandom(_BYTES), *old])


def drop_keys(data_dir: Path, names: Sequence[str]) -> None:
    """Take keys out of the file. What they sealed cannot be read any more."""
    path = data_dir / FILE
    _write(path, [key for key in _File(path).read() if key_id(key) not in names])


class _File:
    """The file with the keys, read again once it changed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int] | None = None

    def read(self) -> list[bytes]:
        info = self._path.stat()
        if stat.S_IMODE(info.st_mode) & (stat.S_IRWXG | stat.S_IRWXO):
            raise _fault(
                str(self._path), "Others may read the encryption keys.", f"chmod 600 {self._path}"
            )
        self._seen = (info.st_mtime_ns, info.st_ino)
        text = self._path.read_text(encoding="ascii", errors="replace")
        lines = [line.strip() for line in text.splitlines()]
        kept = [line for line in lines if line and not line.startswith("#")]
        return _parsed(kept, str(self._path))

    def changed(self) -> list[bytes] | None:
        try:
            info = self._path.stat()
            seen = (info.st_mtime_ns, info.st_ino)
            if seen == self._seen:
                return None
            self._seen = seen
            return self.read()
        except (OSError, ConfigError) as problem:
            log.warning("the known encryption keys go on being used", exc_info=problem)
            return None


def _parsed(texts: Sequence[str], where: str) -> list[bytes]:
    keys: list[bytes] = []
    for number, text in enumerate(texts, start=1):
        try:
            key = base64.b64decode(text.strip().replace("-", "+").replace("_", "/"), validate=True)
        except (binascii.Error, ValueError):
            key = b""
        if len(key) != _BYTES:
            raise _fault(where, f"Key {number} is not 32 bytes in base64.", _MAKE)
        keys.append(key)
    if not keys:
        raise _fault(where, "There is no key in it.", _MAKE)
    return keys


def _fault(where: str, what: str, cure: str) -> ConfigError:
    return ConfigError([Fault(where, what, cure)])


def _make(path: Path) -> None:
    """Write the first key, unless another process was faster."""
    draft = _draft(path, [os.urandom(_BYTES)])
    try:
        path.hardlink_to(draft)
    except FileExistsError:
        pass
    finally:
        draft.unlink()


def _write(path: Path, keys: Sequence[bytes]) -> None:
    _draft(path, keys).replace(path)


def _draft(path: Path, keys: Sequence[bytes]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}-{new_id()}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write("# Keep a copy with your backups: without it, stored states cannot be read.\n")
        file.writelines(base64.b64encode(key).decode() + "\n" for key in keys)
        file.flush()
        os.fsync(file.fileno())
    return draft
