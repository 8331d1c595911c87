"""Options of many commands, and the class of groups whose default command is `ls`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from hub.cli.inputs import read_url

Url = Annotated[
    str | None,
    typer.Option(
        "--url", parser=read_url, metavar="URL", help="The hub. Default: HUB_URL, then http://127.0.0.1:8080."
    ),
]
Secret = Annotated[
    str | None,
    typer.Option(
        "--secret",
        metavar="@FILE|-",
        help="A file with the secret, or - for stdin. Default: HUB_ADMIN_SECRET, HUB_RUNNER_SECRET or HUB_NODE_SECRET.",
    ),
]
JoinTokenFile = Annotated[
    Path | None,
    typer.Option(
        exists=True, dir_okay=False, metavar="FILE", help="A file with a join token. Default: HUB_JOIN_TOKEN."
    ),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        dir_okay=False, metavar="FILE", help="The file that keeps the token of this node. Default: HUB_NODE_TOKEN_FILE."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=1_000_000, help="Show at most N.")]
Command = Annotated[
    list[str] | None, typer.Argument(metavar="-- COMMAND", help="The command to run, after two dashes.")
]


class ShowsByDefault(TyperGroup):
    """A group of commands that runs `ls` when the first word is none of its commands."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words behind the group, with `ls` in front when they do not begin with a command."""
        if not args or args[0] not in (*self.commands, "-h", "--help"):
            args = ["ls", *args]
        return super().parse_args(ctx, args)
