"""Checks the directions of imports (ADR-0001), for the project's own code and no other.

`lint-imports` takes whole packages, and extensions of whoever works here lie in one of them. So it
is shown a folder that links to everything but those.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a file, by whatever folder

from scripts.lint_house import ROOMS, ROOT, own_extensions

EXTENSIONS: Final = "extensions"


def shown(target: Path, root: Path = ROOT) -> None:
    """Fill a folder with links to every room, without the extensions that are not ours."""
    for room in ROOMS:
        if room != EXTENSIONS:
            (target / room).symlink_to(root / room)
    own = own_extensions(root)
    (target / EXTENSIONS).mkdir()
    for path in (root / EXTENSIONS).iterdir():
        if path not in own:
            (target / EXTENSIONS / path.name).symlink_to(path)


def main() -> int:
    """Run `lint-imports` and return its exit code."""
    command = [str(Path(sys.executable).parent / "lint-imports"), str(ROOT / "pyproject.toml")]
    with tempfile.TemporaryDirectory(prefix="lint-imports-") as folder:
        shown(Path(folder))
        options = ["--no-logo", "--no-cache", *sys.argv[1:]]
        return subprocess.run([*command, *options], cwd=folder, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
