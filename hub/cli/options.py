"""Options that many commands have, and groups whose first command need not be said."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from hub.cli.inputs import read_url

Url = Annotated[
    str | None,
    typer.Option("--url", parser=read_url, metavar="URL", help="The hub; else HUB_URL, else http://127.0.0.1:8080."),
]
Secret = Annotated[
    str | None,
    typer.Option(
        "--secret",
        metavar="@FILE|-",
        help="A file with it, or - for stdin; else HUB_ADMIN_, HUB_RUNNER_ or HUB_NODE_SECRET.",
    ),
]
JoinTokenFile = Annotated[
    Path | None,
    typer.Option(exists=True, dir_okay=False, metavar="FILE", help="With a token to join with; else HUB_JOIN_TOKEN."),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(dir_okay=False, metavar="FILE", help="Keeps the token of this node; else HUB_NODE_TOKEN_FILE."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=1_000_000, help="Show at most so many.")]
Command = Annotated[list[str] | None, typer.Argument(metavar="-- COMMAND", help="A command to run, after two dashes.")]


class ShowsByDefault(TyperGroup):
    """A group that lists what there is unless the first word is another command of it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As click does, with `ls` put before what begins with no command."""
        if not args or args[0] not in (*self.commands, "-h", "--help"):
            args = ["ls", *args]
        return super().parse_args(ctx, args)
