"""The address the server listens on: checked, bound before anything costly begins."""

from __future__ import annotations

import errno
import ipaddress
import socket

from core.errors import ConfigError, Fault


def check_address(host: str, auth_mode: str) -> None:
    """Refuse to be reachable from elsewhere while everybody who comes is the owner.

    Raises:
        ConfigError: the address is not loopback and the mode is `local`.
    """
    if auth_mode == "local" and not is_loopback(host):
        raise ConfigError(
            [
                Fault(
                    "HOST",
                    f"GW_AUTH_MODE=local serves this machine only, not {host!r}.",
                    "Use HOST=127.0.0.1 and reach it from elsewhere through an SSH tunnel: "
                    "ssh -L 8000:127.0.0.1:8000 USER@SERVER.",
                )
            ]
        )


def is_loopback(host: str) -> bool:
    """Tell whether only this machine can reach that address; names are not looked up."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def bind(host: str, port: int) -> socket.socket:
    """Take the port without listening yet: whoever connects before we are ready is refused.

    Args:
        host: address or `localhost`.
        port: 0 takes any free one.

    Raises:
        ConfigError: the port is taken, or may not be taken.
    """
    address = "127.0.0.1" if host.lower() == "localhost" else host.strip("[]")
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    taken = socket.socket(family, socket.SOCK_STREAM)
    # A server that has just ended leaves its port in TIME_WAIT; this lets the next one have it.
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    taken.setblocking(False)
    try:
        taken.bind((address, port))
    except OSError as error:
        taken.close()
        raise ConfigError([fault_of(error, host, port)]) from error
    return taken


def url_of(taken: socket.socket) -> str:
    """Return the address of a bound socket as people type it."""
    host, port = taken.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def fault_of(error: OSError, host: str, port: int) -> Fault:
    """Return what the system's refusal means and what to do about it."""
    if error.errno == errno.EADDRINUSE:
        what = f"Another program listens on port {port} already."
        return Fault(
            "PORT", what, f"Stop it, or choose another: graphwright serve --port {port + 1}."
        )
    if error.errno in {errno.EACCES, errno.EPERM}:
        return Fault("PORT", f"Port {port} needs rights of its own.", "Choose one above 1023.")
    what = f"{host!r} is no address of this machine ({error.strerror})."
    return Fault("HOST", what, "Use HOST=127.0.0.1.")
