"""Options that many commands have."""

from __future__ import annotations

from typing import Annotated

import typer

from hub.cli.inputs import read_url

Url = Annotated[
    str | None,
    typer.Option("--url", parser=read_url, metavar="URL", help="The hub; else HUB_URL, else http://127.0.0.1:8080."),
]
Secret = Annotated[
    str | None,
    typer.Option("--secret", metavar="SECRET", help="Else HUB_ADMIN_SECRET, HUB_RUNNER_SECRET or HUB_NODE_SECRET."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
