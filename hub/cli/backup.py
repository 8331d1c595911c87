"""`hub store`: copies the whole store into a file and back, and shows its format."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hub.cli import output
from hub.cli.answers import CommandAnswer
from hub.cli.command import Group
from hub.cli.inputs import Usage
from hub.cli.options import FILE

if TYPE_CHECKING:
    from hub.store.backup import Copied
    from hub.store.store import Store

app = Group(help="Copy the store into a file and back; show its format.", no_args_is_help=True)


@app.add("export")
def export(
    file: Path = FILE.argument("The file to write. It must not exist yet."),
) -> Coroutine[Any, Any, None]:
    """Copy the whole store into a file. Stop the hubs first."""
    if file.exists():
        raise Usage(f"{file} is there already; name a file that is not.")
    if not file.absolute().parent.is_dir():
        raise Usage(f"{file.absolute().parent} is no folder.")
    from hub.store.backup import write_copy  # imported here: other commands do not need the store's packages

    return _copied(lambda store: write_copy(store, file), f"are in {file}")


@app.add("import")
def restore(
    file: Path = FILE.argument("A file that `hub store export` wrote."),
) -> Coroutine[Any, Any, None]:
    """Fill an empty store from a file. Fencing tokens rise above the earlier ones; nodes report their leases again."""
    if not file.is_file():
        raise Usage(f"There is no file {file}.")
    from hub.store.backup import read_copy

    return _copied(lambda store: read_copy(store, file), "are in the store", opened=False)


@app.add("version")
async def version() -> CommandAnswer:
    """Show the format of the store, and the versions of the hub whose functions are on its server."""
    from hub.cli.direct import store_settings, store_shown
    from hub.store.connection import open_store
    from hub.store.formats import FORMAT

    settings = store_settings("The format of a store is read from Redis itself")
    async with open_store(settings) as store:
        number = int(await store.read("HGET", store.keys.store, "format") or FORMAT)
        idle, own = await store.libraries(), store.library.name
    others = [{"name": name, "idleSeconds": round(idle_s)} for name, idle_s in idle.items()]
    lines = [
        f"{store_shown(settings)} has format {number}; this hub reads formats up to {FORMAT} and writes {FORMAT}.",
        f"The functions of this hub are {own}.",
    ]
    for name, idle_s in idle.items():
        lines.append(f"Those of another version are {name}, last used {output.duration(idle_s)} ago.")
    document = {"format": number, "writes": FORMAT, "library": own, "otherLibraries": others}
    return CommandAnswer(document, "\n".join(lines))


async def _copied(copy: Callable[[Store], Awaitable[Copied]], where: str, *, opened: bool = True) -> None:
    from hub.cli.direct import store_settings, store_shown
    from hub.store.connection import open_store

    settings = store_settings("A copy is made of Redis itself")
    async with open_store(settings, opened=opened) as store:
        done = await copy(store)
    output.put(f"{output.plural(done.keys, 'key')} of {store_shown(settings)} {where}.")
