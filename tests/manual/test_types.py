"""The Python programs that are shown are typed: `mypy --strict` and `pyright` accept them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contract.test_clients import BIN, PROGRAM_S, TOOLS
from tests.manual.pages import MANUAL, TOP, examples, files

MYPY = ("-m", "mypy", "--strict", "--config-file", os.devnull, "--follow-imports", "silent")
WRONG = "\nslot.unknown\nclient.pool()\n"
pytestmark = pytest.mark.slow


@pytest.fixture
def programs(tmp_path: Path) -> list[str]:
    """The programs of README and manual in a folder, with the files that they lie beside; their names."""
    shown = [each for each in examples() if each.language == "python"]
    assert {each.document.name for each in shown} >= {"README.md", "cookbook.md"}
    known = {f"program_{number}.py": each.text for number, each in enumerate(shown)}
    for page in ("cookbook.md", "drivers.md", "testing.md"):
        known |= {name: text for name, text in files(MANUAL / page).items() if name.endswith(".py")}
    for name, text in known.items():
        (tmp_path / name).write_text(text)
    return sorted(known)


def complaints(words: tuple[str | Path, ...], folder: Path) -> tuple[int, str]:
    """Return how a checker ends, and what it says."""
    done = subprocess.run([str(word) for word in words], cwd=folder, capture_output=True, text=True, timeout=PROGRAM_S)
    return done.returncode, done.stdout + done.stderr


def test_mypy_accepts_the_shown_examples(programs: list[str], tmp_path: Path):
    code, said = complaints((sys.executable, *MYPY, *programs), tmp_path)
    assert code == 0, said
    with (tmp_path / "program_0.py").open("a") as file:
        file.write(WRONG)
    code, said = complaints((sys.executable, *MYPY, "program_0.py"), tmp_path)
    assert (code, '"Slot" has no attribute "unknown"' in said, 'Missing positional argument "label"' in said) == (
        1, True, True,
    ), said  # fmt: skip


@pytest.mark.skipif(not (TOOLS / ".installed").exists(), reason="`make clients` installs pyright")
def test_pyright_accepts_the_shown_examples(programs: list[str], tmp_path: Path):
    settings = {"typeCheckingMode": "strict", "extraPaths": [str(TOP)]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    check = (BIN / "pyright", "--pythonpath", sys.executable)
    code, said = complaints((*check, *programs), tmp_path)
    assert code == 0, said
    with (tmp_path / "program_0.py").open("a") as file:
        file.write(WRONG)
    code, said = complaints((*check, "program_0.py"), tmp_path)
    assert (code, 'Cannot access attribute "unknown"' in said, 'Argument missing for parameter "label"' in said) == (
        1, True, True,
    ), said  # fmt: skip
