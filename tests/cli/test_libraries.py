"""Each private part of a library that the command line uses: what breaks when the library changes it."""

from __future__ import annotations

import subprocess
import sys

from typer import _completion_classes
from typer.core import TyperCommand

from hub.cli import libraries, main


def test_httpx_is_imported_without_the_command_that_it_comes_with():
    program = "import sys, hub.cli, httpx; print(sys.modules['httpx._main'], 'pygments' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "None False\n", "each command of ours waits for the command of httpx"


def test_what_typer_raises_about_a_command_line_has_one_base(capsys):
    assert libraries.UsageError.__name__ == "UsageError", "wrong usage would be told as a fault of this program"
    assert libraries.UsageError not in (Exception, ValueError)
    for line in ("nodes --colour", "nodes --limit many", "return", "paint"):
        assert main(line.split()) == 2
        assert "A fault of this program" not in capsys.readouterr().err


def test_a_completion_does_not_render_help_texts_with_rich(monkeypatch):
    monkeypatch.setattr(_completion_classes, "_sanitize_help_text", _completion_classes._sanitize_help_text)
    libraries.begin_completion()
    fish = _completion_classes.FishComplete(TyperCommand("hub"), {}, "hub", "_HUB_COMPLETE")
    item = _completion_classes.CompletionItem("nodes", help="Show [all] nodes.")
    told = fish.format_completion(item)
    assert told == "nodes\tShow [all] nodes.", "a Tab waits for Rich, and our help texts lose what is in brackets"
