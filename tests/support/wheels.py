"""Real packages: built and installed by pip, offline, into a folder of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

INSTALLERS = (
    [sys.executable, "-m", "pip"],
    # Where `make setup` found no ensurepip, the environment has no pip of its own.
    [
        str(getattr(sys, "_base_executable", sys.executable)),
        "-m",
        "pip",
        "--python",
        sys.executable,
    ],
)


def pip(*arguments: str) -> None:
    """Run pip."""
    for installer in INSTALLERS:
        if _run([*installer, "--version"]).returncode == 0:
            done = _run([*installer, *arguments])
            assert done.returncode == 0, done.stdout + done.stderr
            return
    raise AssertionError("there is no pip")


def build(source: Path, target: Path) -> Path:
    """Build the wheel of a source tree and return its file."""
    pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(target), str(source))
    [wheel] = target.glob("*.whl")
    return wheel


def install(wheel: Path, site: Path) -> None:
    """Install a wheel into a folder."""
    pip("install", "--no-deps", "--no-index", "--target", str(site), str(wheel))


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    settings = {
        "PATH": os.defpath,
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_NO_INPUT": "1",
        "PIP_ROOT_USER_ACTION": "ignore",
    }
    return subprocess.run(
        command,
        env=settings,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
