"""Every runnable example of README and manual is run as it stands, beside a real demo."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import Command, Running
from tests.manual.pages import TOP, Example, examples, files
from tests.world import free_port

FOUND = list(examples())


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Command, str]]:
    """The hub that `make run` starts, on a free port."""
    folder = tmp_path_factory.mktemp("demo")
    command = Command(None, folder)
    url = f"http://127.0.0.1:{free_port()}"
    running: Running = command.start("demo", "--port", url.rpartition(":")[2], TMPDIR=str(folder))
    running.until_out("Ctrl-C ends it all.", 90)
    yield command, url
    command.close()


def test_the_documents_show_examples_in_shell_and_python():
    assert {(example.document.name, example.language) for example in FOUND} >= {
        ("README.md", "sh"),
        ("README.md", "python"),
        ("cookbook.md", "python"),
        ("cookbook.md", "sh"),
    }


def test_make_run_starts_the_demo():
    (recipe,) = re.findall(r"(?m)^run: .*\n\t(.*)$", (TOP / "Makefile").read_text())
    assert recipe == "@$(BIN)/hub demo"


@pytest.mark.parametrize("example", FOUND, ids=lambda e: f"{e.document.name} {e.shows or e.language}")
def test_the_shown_examples_can_be_run(example: Example, demo: tuple[Command, str], tmp_path: Path):
    command, url = demo
    tools = Path(sys.executable).parent
    text = example.text.replace("http://127.0.0.1:8080", url).replace(".venv/bin/", f"{tools}/")
    text = re.sub(r"\b8000\b", str(free_port()), text)
    for name, content in files(example.document).items():
        (tmp_path / name).write_text(content)
    if example.language == "python":
        file = tmp_path / "example.py"
        file.write_text(text)
        words = [sys.executable, str(file)]
    else:
        assert example.language == "sh"
        words = ["bash", "-euo", "pipefail", "-c", text]
    environment = {**command.environment, "HUB_URL": url, "PATH": f"{tools}{os.pathsep}{command.environment['PATH']}"}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=240, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert example.shows in done.stdout, (done.stdout, done.stderr)
