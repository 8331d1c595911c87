"""An environment that holds the wheel of the hub and httpx with what that needs, and nothing else."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import venv
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement


def needed_by(name: str) -> set[str]:
    """Return the distributions that `pip install NAME` brings beside it."""
    found: set[str] = set()
    ahead = [name]
    while ahead:
        for line in metadata.requires(ahead.pop()) or ():
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                plain = requirement.name.lower().replace("_", "-")
                ahead += [] if plain in found else [plain]
                found.add(plain)
    return found


def make_environment(folder: Path, wheel: Path, *more: str) -> Path:
    """Make one; its Python. httpx, and `more`, are copied from the environment of the tests: no index is asked."""
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*pip, str(wheel)], check=True, capture_output=True, timeout=120)
    site = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
    for name in {each for wanted in ("httpx", *more) for each in (wanted, *needed_by(wanted))}:
        distribution = metadata.distribution(name)
        for file in distribution.files or ():
            if ".." not in file.parts and "__pycache__" not in file.parts:
                (site / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(str(distribution.locate_file(file)), site / file)
    return python
