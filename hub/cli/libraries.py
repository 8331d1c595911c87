"""Private parts of typer and httpx that the command line uses. tests/cli/test_libraries.py says of each what breaks."""

from __future__ import annotations

import sys

import typer

# The base of typer's errors about a command line, which typer does not export. Its subclasses carry the context.
UsageError: type[Exception] = typer.BadParameter.__bases__[0]


def leave_out_httpx_command() -> None:
    """Keep httpx from importing its own command, which would cost every command of ours 20 ms.

    `None` is to httpx as if the packages of that command were not installed.
    """
    sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]


def begin_completion() -> None:
    """Register the shells that typer can complete for, with help texts as they are.

    Our help texts have no markup. Rich, which would take it out, is half of the time that a Tab costs.
    """
    from typer import _completion_classes

    _completion_classes._sanitize_help_text = lambda text: text
    _completion_classes.completion_init()
