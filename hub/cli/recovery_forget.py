"""`hub recovery forget`: forgets a source whose declaration was removed from all hubs on purpose."""

from __future__ import annotations

from typing import Annotated

import typer

from hub.cli import output
from hub.cli.command import command
from hub.cli.direct import store_settings
from hub.cli.inputs import Usage, shown


@command()
async def forget(source: Annotated[str, typer.Argument(metavar="NAME", help="The name of the source.")]) -> None:
    """Forget a source that no hub declares any more, so that no alert is raised for it."""
    settings = store_settings("Which sources are known is in the hub's own store")
    from hub.store.connection import open_store  # imported only for this command

    async with open_store(settings) as store:
        known = await store.read("HKEYS", store.keys.zombie_sources)
        if source not in known:
            there = f"known are {', '.join(sorted(known))}" if known else "none is"
            raise Usage(f"No source {shown(source)} is known; {there}.")
        await store.read("HDEL", store.keys.zombie_sources, source)
    output.put(f"{source} is forgotten; a hub that declares it makes it known again.")
