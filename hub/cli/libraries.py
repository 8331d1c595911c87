"""Private parts of typer and httpx that the command line uses; tests/cli/test_libraries.py checks each of them."""

from __future__ import annotations

import sys

import typer

# The base class of typer's errors about a command line, which typer does not export. Its subclasses have the context.
UsageError: type[Exception] = typer.BadParameter.__bases__[0]


def leave_out_httpx_command() -> None:
    """Keep httpx from importing its own command, which would add 20 ms to each `hub` command.

    With None as the module, httpx goes on as if the packages of its command were not installed.
    """
    sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]


def begin_completion() -> None:
    """Register the shells that typer can complete for, with help texts unchanged.

    Typer would have Rich remove markup, which takes half of the time of a completion; the help texts here have none.
    """
    from typer import _completion_classes

    _completion_classes._sanitize_help_text = lambda text: text
    _completion_classes.completion_init()
