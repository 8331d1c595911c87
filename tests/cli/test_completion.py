"""Completion: bash is asked as Tab asks it, zsh and fish as their scripts ask the command."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import Command, leave, register
from tests.world import PATIENCE_S, HubProcess

SHELLS = ("bash", "zsh", "fish")


@pytest.fixture(autouse=True)
def fleet(shared_hub: HubProcess) -> Iterator[None]:
    register(shared_hub, "rack-7", pools={"gpu:a100:eu": 1})
    register(shared_hub, "rack-8", pools={"gpu:h100": 1})
    yield
    leave(shared_hub, "rack-7")
    leave(shared_hub, "rack-8")


def in_bash(command: Command, line: str, tmp_path: Path) -> list[str]:
    """What bash puts in the place of the last word of a line when Tab is pressed behind it."""
    script = tmp_path / "completion.bash"
    script.write_text(command("completion", "bash").stdout)
    asks = f"""
        hub() {{ {sys.executable} -m hub.cli "$@"; }}
        source {script}
        COMP_LINE='{line}' COMP_POINT={len(line)}
        _hub_complete
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(
        ["bash", "--norc", "-c", asks], env=command.environment, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("hub no", ["node"]),
        ("hub node dr", ["drain"]),
        ("hub node show rack", ["rack-7", "rack-8"]),
        ("hub drain rack-7", ["rack-7"]),
        ("hub borrow gpu:a", ["a100:eu"]),  # bash has broken the word behind the colon
        ("hub borrow --wait-", ["--wait-for-pool"]),
        ("hub node show nobody", []),
    ],
)
def test_bash_completes_commands_options_and_ids(command: Command, tmp_path: Path, line: str, found: list[str]):
    assert in_bash(command, line, tmp_path) == found


def test_a_hub_that_is_not_there_is_passed_over_in_silence(command: Command, tmp_path: Path):
    command.environment |= {"HUB_URL": "http://127.0.0.1:9"}
    assert in_bash(command, "hub node show rack", tmp_path) == []


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_what_the_scripts_of_other_shells_ask_is_answered(command: Command, shell: str):
    asked = {
        "_HUB_COMPLETE": f"complete_{shell}", "_TYPER_COMPLETE_ARGS": "hub node show rack",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }  # fmt: skip
    script = command("completion", shell).stdout
    assert [name in script for name in ("_HUB_COMPLETE", "_TYPER_COMPLETE_ARGS")] == [True, True]
    said = command(**asked)
    assert ("rack-7" in said.stdout, "rack-8" in said.stdout, said.stderr) == (True, True, "")


@pytest.mark.parametrize("shell", [shell for shell in SHELLS if shutil.which(shell)])
def test_the_shell_can_read_its_script(command: Command, shell: str, tmp_path: Path):
    script = tmp_path / "script"
    script.write_text(command("completion", shell).stdout)
    done = subprocess.run([shell, "-n", str(script)], capture_output=True, text=True, timeout=PATIENCE_S)
    assert (done.returncode, done.stderr) == (0, "")
