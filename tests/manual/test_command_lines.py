"""The command lines of README and manual have the arguments and options that the commands take."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from hub.cli import global_options
from hub.cli.app import app
from hub.cli.libraries import UsageError
from tests.manual.pages import DOCUMENTS, named

LINE = re.compile(r"(?m)^(?:    )?(?:\.venv/bin/)?hub ([a-z].*)$|(?<!`)`(?:\.venv/bin/)?hub ([a-z][^`\n]*)`(?!`)")
ENDS = re.compile(r"\s+#| (?:\||>|&&|&|;)(?: |$)")


def refusal(line: str) -> str:
    """Return why the words of a line are no command line, empty where they are one; nothing is run."""
    words = list(global_options.begin(shlex.split(ENDS.split(line)[0])))
    command: Any = get_command(app)
    context, name = None, "hub"
    try:
        while True:
            context = command.make_context(name, words, parent=context)
            if not hasattr(command, "resolve_command") or not (rest := [*context._protected_args, *context.args]):
                return ""
            name, command, words = command.resolve_command(context, rest)
    except UsageError as error:
        return str(error.format_message())
    finally:
        global_options.begin([])


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_no_line_has_an_argument_or_option_that_its_command_refuses(document: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DISABLE_DOTENV", "1")
    lines = [first or second for first, second in LINE.findall(document.read_text())]
    said = {line: refusal(line) for line in lines if not re.search(r"[\[$(]|\.\.\.", line)}
    assert {line: why for line, why in said.items() if re.match("Got unexpected|No such option", why)} == {}


def test_a_line_with_a_word_too_many_is_found():
    assert refusal("why slot SLOT").startswith("Got unexpected extra argument")
    assert refusal("why SLOT --kinds slot").startswith("No such option")
    assert refusal("why SLOT --kind slot") == ""
