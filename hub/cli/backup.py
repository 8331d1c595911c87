"""`hub store`: what is in Redis as a whole."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hub.cli import output
from hub.cli.inputs import Usage
from hub.cli.options import AsJson

if TYPE_CHECKING:
    from hub.store.backup import Copied
    from hub.store.store import Store

app = typer.Typer(help="Copy what is in Redis into a file, and back; show and change its format.", no_args_is_help=True)


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

    asyncio.run(_copied(lambda store: read_copy(store, file), "are in the store", opened=False))


@app.command("version")
def version(as_json: AsJson = False) -> None:
    """Show the format of the store, and the versions of the hub whose functions are on its server."""
    asyncio.run(_version(as_json))


async def _version(as_json: bool) -> None:
    from hub.cli.direct import store_settings, store_shown
    from hub.store.connection import open_store
    from hub.store.formats import FORMAT

    settings = store_settings("The format of a store is read from Redis itself")
    async with open_store(settings) as store:
        found = int(await store.read("HGET", store.keys.store, "format") or FORMAT)
        idle, own = await store.libraries(), store.library.name
    if as_json:
        others = [{"name": name, "idleSeconds": round(idle_s)} for name, idle_s in idle.items()]
        output.put_json({"format": found, "writes": FORMAT, "library": own, "otherLibraries": others})
        return
    output.put(
        f"{store_shown(settings)} has format {found}; this hub reads formats up to {FORMAT} and writes {FORMAT}."
    )
    output.put(f"The functions of this hub are {own}.")
    for name, idle_s in idle.items():
        output.put(f"Those of another version are {name}, last used {output.duration(idle_s)} ago.")


async def _copied(copy: Callable[[Store], Awaitable[Copied]], where: str, *, opened: bool = True) -> None:
    from hub.cli.direct import store_settings, store_shown
    from hub.store.connection import open_store

    settings = store_settings("A copy is made of Redis itself")
    async with open_store(settings, opened=opened) as store:
        done = await copy(store)
    output.put(f"{output.plural(done.keys, 'key')} of {store_shown(settings)} {where}.")
