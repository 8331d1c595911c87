"""The help of every command: plain sentences, and values named by what they are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from typer.main import get_command

from hub.cli import main
from hub.cli.app import ENTRIES, NOUNS, app
from hub.cli.app import _load as load


def commands() -> Iterator[tuple[str, Any]]:
    """Every command with the words that call it."""
    yield "", get_command(app)
    for name, entry in ENTRIES.items():
        if name in NOUNS:
            yield from ((f"{name} {verb}", load(verb, of_noun)) for verb, of_noun in NOUNS[name].items())
            continue
        command = load(name, entry)
        yield name, command
        yield from ((f"{name} {verb}", below) for verb, below in getattr(command, "commands", {}).items())


COMMANDS = dict(commands())


@pytest.mark.parametrize("line", COMMANDS)
def test_every_help_text_is_a_sentence_and_every_value_has_a_name(line, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    assert main([*line.split(), "--help"]) == 0
    shown = capsys.readouterr().out
    types = [text for text in re.findall(r"<[^>]*>", shown) if "|" not in text]
    assert [text for text in types if not text.startswith("<=")] == []
    assert "read_" not in shown
    for parameter in COMMANDS[line].params:
        if parameter.name == "help":
            continue
        assert re.fullmatch(r"[A-Z-].*[.]", parameter.help or ""), (parameter.name, parameter.help)
        is_switch = parameter.type.name in ("boolean", "choice")
        assert is_switch or parameter.metavar, parameter.name
        assert not re.search(r"\b(else|so many|so long|whoever|somebody|nobody)\b", parameter.help), parameter.help
    assert (COMMANDS[line].help or "").rstrip().endswith((".", "..."))
