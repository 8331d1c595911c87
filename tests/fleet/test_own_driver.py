"""The driver that the manual writes is found by its entry point, and works."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.manual.pages import MANUAL, files

SHOWN = files(MANUAL / "drivers.md")


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder with the files of the page, and what pip would write beside them."""
    for name, text in SHOWN.items():
        (tmp_path / name).write_text(text)
    project = tomllib.loads(SHOWN["pyproject.toml"])["project"]
    facts = tmp_path / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    groups = [
        f"[{group}]\n" + "".join(f"{name} = {where}\n" for name, where in entries.items())
        for group, entries in project["entry-points"].items()
    ]
    (facts / "entry_points.txt").write_text("\n".join(groups))
    return tmp_path


def check(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    """Run `hub agent --fleet --check` on a fleet file."""
    (folder / "fleet.toml").write_text(text)
    return subprocess.run(
        [sys.executable, "-m", "hub.cli", "agent", "--node", "n1", "--fleet", "fleet.toml", "--check"],
        cwd=folder, env={**os.environ, "PYTHONPATH": str(folder), "TMPDIR": str(folder), "DISABLE_DOTENV": "1"},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def test_the_driver_of_the_manual_has_30_lines():
    assert len([line for line in SHOWN["hub_redis.py"].splitlines() if line.strip()]) <= 30


@pytest.mark.skipif(not shutil.which("redis-cli"), reason="there is no redis-cli here")
def test_the_driver_of_the_manual_starts_checks_and_stops_its_slots(installed: Path):
    done = check(installed, SHOWN["fleet.toml"])
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("redis://") == 2
    assert "n1-database.redis-2" in done.stdout


def test_a_key_that_it_does_not_have_is_refused_with_its_line(installed: Path):
    done = check(installed, SHOWN["fleet.toml"].replace("count", "cuont"))
    assert (done.returncode != 0, "Traceback" in done.stderr) == (True, False)
    assert "line 4" in done.stderr
    assert "count" in done.stderr
