"""`hub store`: what is in Redis as a whole."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hub.cli import output
from hub.cli.inputs import Usage

if TYPE_CHECKING:
    from hub.store.backup import Copied
    from hub.store.store import Store

app = typer.Typer(help="Copy what is in Redis into a file, and back.", no_args_is_help=True)


@app.command("export")
def export(
    file: Annotated[Path, typer.Argument(help="Where to write the copy; it must not be there yet.")],
) -> None:
    """Write a copy of everything in the store into a file. Stop the hubs first."""
    if file.exists():
        raise Usage(f"{file} is there already; name a file that is not.")
    if not file.absolute().parent.is_dir():
        raise Usage(f"{file.absolute().parent} is no folder.")
    from hub.store.backup import write_copy  # these alone need the store's packages

    asyncio.run(_copied(lambda store: write_copy(store, file), f"are in {file}"))


@app.command("import")
def restore(
    file: Annotated[Path, typer.Argument(help="A copy that `hub store export` wrote.")],
) -> None:
    """Fill an empty store from a file. Tokens rise above all that were given since, and nodes say what is lent."""
    if not file.is_file():
        raise Usage(f"There is no file {file}.")
    from hub.store.backup import read_copy

    asyncio.run(_copied(lambda store: read_copy(store, file), "are in the store"))


async def _copied(copy: Callable[[Store], Awaitable[Copied]], where: str) -> None:
    from hub.cli.direct import store_settings, store_shown
    from hub.store.connection import open_store

    settings = store_settings("A copy is made of Redis itself")
    async with open_store(settings) as store:
        done = await copy(store)
    output.put(f"{output.plural(done.keys, 'key')} of {store_shown(settings)} {where}.")
