"""Each private part of a library that the command line uses: what breaks when the library changes it."""

from __future__ import annotations

import subprocess
import sys

from typer import _completion_classes
from typer.core import TyperCommand

from hub.cli import libraries, main


def test_importing_the_cli_does_not_import_the_command_of_httpx():
    program = "import sys, hub.cli, httpx; print(sys.modules['httpx._main'], 'pygments' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "None False\n", "each command of ours waits for the command of httpx"


def test_every_usage_error_of_typer_is_reported_as_wrong_usage(capsys):
    assert libraries.UsageError.__name__ == "UsageError", "wrong usage would be told as a fault of this program"
    assert libraries.UsageError not in (Exception, ValueError)
    for line in ("nodes --colour", "nodes --limit many", "return", "paint"):
        assert main(line.split()) == 2
        assert "A fault of this program" not in capsys.readouterr().err


def test_completion_does_not_render_help_texts_with_rich(monkeypatch):
    monkeypatch.setattr(_completion_classes, "_sanitize_help_text", _completion_classes._sanitize_help_text)
    libraries.begin_completion()
    fish = _completion_classes.FishComplete(TyperCommand("hub"), {}, "hub", "_HUB_COMPLETE")
    item = _completion_classes.CompletionItem("nodes", help="Show [all] nodes.")
    line = fish.format_completion(item)
    assert line == "nodes\tShow [all] nodes.", "a Tab waits for Rich, and our help texts lose what is in brackets"
