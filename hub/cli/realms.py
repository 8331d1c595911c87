"""`hub realm`: the realms that a hub serves, and the file that names them."""

from __future__ import annotations

import asyncio
import os
import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hub.cli import completing, output, tables, times
from hub.cli.connection import Address, connect, looking
from hub.cli.environment import environment
from hub.cli.inputs import Usage
from hub.cli.options import AsJson, Secret, Url
from hub.errors import HubError, StartRefused, StoreUnavailable

if TYPE_CHECKING:
    from hub.settings.realms import Realm

File = Annotated[Path | None, typer.Option(dir_okay=False, metavar="FILE", help="The file; else HUB_REALMS_FILE.")]
Patterns = Annotated[list[str] | None, typer.Option(metavar="PATTERN", help="Of what is its own; * is any text.")]
_URL = re.compile(r"""(?m)^([ \t]*url[ \t]*=[ \t]*)(?:"[^"\n]*"|'[^'\n]*')""")
_BEGINS = re.compile(r"(?m)^[ \t]*\[\[[ \t]*realms[ \t]*\]\]")


def ls(as_json: AsJson = False, url: Url = None, secret: Secret = None) -> None:
    """Show the realms that the hub serves."""
    found = asyncio.run(realms_at(looking(url, secret)))
    if as_json:
        output.put_json(found)
        return
    rows = [
        (
            each["name"],
            each["state"],
            times.when(each["asOf"]) or "never",
            each["url"],
            output.one_line(each["error"] or ""),
        )
        for each in found["realms"]
    ]
    tables.put_table(("REALM", "STATE", "AS OF", "STORE", "ERROR"), rows, expendable=("AS OF",))


def show(
    name: Annotated[
        str,
        typer.Argument(
            metavar="REALM",
            help="Its name; default for the one without a name.",
            autocompletion=completing.realms,
        ),
    ],
    as_json: AsJson = False,
    url: Url = None,
    secret: Secret = None,
) -> None:
    """Show a realm, and what is its own by itself."""
    found = asyncio.run(realms_at(looking(url, secret)))
    one = next((each for each in found["realms"] if each["name"] == name), None)
    if one is None:
        names = ", ".join(each["name"] for each in found["realms"])
        raise HubError(f"This hub serves no realm {output.one_line(name)}; it serves {names}.")
    if as_json:
        output.put_json(one)
        return
    one = {**one, "asOf": _seen(one)}
    facts = [(key.upper(), one[key]) for key in ("name", "state", "asOf", "url", "error") if one[key]]
    facts += [(kind.upper(), "  ".join(one[kind])) for kind in ("labels", "rooms", "nodes") if one[kind]]
    if one["spillTo"]:
        after = output.duration(one["spillAfterSeconds"])
        facts.append(("SPILLS OVER TO", f"{', '.join(one['spillTo'])} after {after}"))
    tables.put_facts(facts)


def _seen(realm: dict[str, Any]) -> str:
    return times.when(realm["asOf"]) or "never"


async def realms_at(at: Address) -> dict[str, Any]:
    """What the hub says of its realms."""
    async with connect(at) as hub:
        return await hub.get("realms")


def add(
    name: Annotated[str, typer.Argument(metavar="REALM", help="1 to 32 of a-z, 0-9 and -.")],
    url: Annotated[str, typer.Argument(metavar="URL", help="Its store, as HUB_REDIS_URL has it.")],
    label: Patterns = None,
    room: Patterns = None,
    node: Patterns = None,
    spill_to: Annotated[
        list[str] | None, typer.Option(metavar="REALM", help="May serve its tickets; the best first.")
    ] = None,
    spill_after: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="For how long a ticket waits in it before; else 5.")
    ] = None,
    file: File = None,
) -> None:
    """Add a realm at the end of the file; its rules come after those that are there."""
    path = _file(file)
    before = path.read_text() if path.exists() else ""
    lines = ["[[realms]]", f"name = {_quoted(name)}", f"url = {_quoted(url)}"]
    for kind, patterns in (("labels", label), ("rooms", room), ("nodes", node)):
        if patterns:
            lines.append(f"{kind} = [{', '.join(map(_quoted, patterns))}]")
    if spill_to:
        lines.append(f"spill_to = [{', '.join(map(_quoted, spill_to))}]")
    if spill_after is not None:
        lines.append(f"spill_after_s = {spill_after:g}")
    gap = "" if not before else "\n" if before.endswith("\n") else "\n\n"
    with _tried(path, before + gap + "\n".join(lines) + "\n") as (made, _):
        os.replace(made, path)
    output.put(f"{path} has realm {name}. Hubs serve it after SIGHUP.")


def rm(
    name: Annotated[str, typer.Argument(metavar="REALM", help="Its name.", autocompletion=completing.realms)],
    file: File = None,
) -> None:
    """Take a realm out of the file. Its store stays as it is."""
    path = _file(file)
    before, _, after, realms = _around(path, name)
    with _tried(path, before + after) as (made, found):
        if found != [each for each in realms if each.name != name]:
            raise Usage(f"{path} holds something between its realms; take the realm out by hand.")
        os.replace(made, path)
    output.put(f"{path} has realm {name} no longer. Hubs close it after SIGHUP; what is in its store stays there.")


def move(
    name: Annotated[str, typer.Argument(metavar="REALM", help="Its name.", autocompletion=completing.realms)],
    to: Annotated[
        str | None, typer.Option(metavar="URL", help="Where its store is to be; nothing of it is there.")
    ] = None,
    back: Annotated[bool, typer.Option("--back", help="Undo a move that is not over: the store stays.")] = False,
    file: File = None,
) -> None:
    """Move the store of a realm to another server while hubs run; they follow it. Repeat it if it was cut short."""
    if (to is not None) == back:
        raise Usage("Say where the store is to be with --to URL, or undo a move that is not over with --back.")
    path = _file(file)
    realm = next(each for each in _around(path, name)[3] if each.name == name)
    if not realm.url:
        raise Usage(
            f"{name} lives where HUB_REDIS_URL says: copy it with hub store export and import, the hubs stopped."
        )
    if to is None:
        asyncio.run(_stay(realm))
        output.put(f"The store of realm {name} stays at {realm.shown}.")
        return
    with _elsewhere(path, name, to) as (_, there):
        pass  # the file can be written; it is when the store is there
    if there.url == realm.url:
        output.put(f"Realm {name} lives at {there.shown}.")
        return
    keys, stood_s = asyncio.run(_carry(realm, there))
    with _elsewhere(path, name, to) as (made, there):
        os.replace(made, path)
    how = f"{output.plural(keys, 'key')} were copied in {output.duration(stood_s)}" if keys else "It was there before"
    output.put(f"Realm {name} lives at {there.shown}, and {path} says so. {how}; hubs follow by themselves.")


async def _carry(realm: Realm, there: Realm) -> tuple[int, float]:
    """How many keys were copied, and in how many seconds."""
    from hub.cli.direct import realm_settings
    from hub.store import moving
    from hub.store.connection import open_store

    async with (
        open_store(realm_settings(realm), opened=False) as old,
        open_store(realm_settings(there), opened=False) as new,
    ):
        output.note(f"realm {realm.name} stands still from now on, until everything is at {there.shown}.")
        began = time.monotonic()
        try:
            return await moving.move(old, new, there.url), time.monotonic() - began
        except StoreUnavailable as error:
            why = str(error.__cause__ or error).rstrip(".")
            raise HubError(f"{why}. Realm {realm.name} stands still: repeat this, or undo it with --back.") from error


async def _stay(realm: Realm) -> None:
    from hub.cli.direct import realm_settings
    from hub.store import moving
    from hub.store.connection import open_store

    async with open_store(realm_settings(realm), opened=False) as old:
        await moving.stay(old)


@contextmanager
def _elsewhere(path: Path, name: str, url: str) -> Iterator[tuple[Path, Realm]]:
    """The file with another URL for a realm, as it would be, and that realm."""
    before, own, after, realms = _around(path, name)
    with _tried(path, before + _URL.sub(lambda found: found[1] + _quoted(url), own, count=1) + after) as (made, found):
        there = next(each for each in found if each.name == name)
        if [replace(each, url=there.url) if each.name == name else each for each in realms] != found:
            raise Usage(
                f"{path} cannot be changed by this command: the url of {name} is not written in a line of its own."
            )
        yield made, there


def _around(path: Path, name: str) -> tuple[str, str, str, list[Realm]]:
    """The text of the file before a realm, of the realm, and after it; and all realms."""
    from hub.settings.realms import read_realms

    if not path.exists():
        raise Usage(f"There is no file {path}.")
    realms = [*read_realms(path)]
    names = [realm.name for realm in realms]
    if name not in names:
        raise Usage(f"{path} has no realm {output.one_line(name)}; it has {', '.join(names) or 'none'}.")
    text = path.read_text()
    starts = [*(found.start() for found in _BEGINS.finditer(text)), len(text)]
    if len(starts) != len(names) + 1:
        raise Usage(f"{path} is not written with [[realms]] above each; change it by hand.")
    begin, end = starts[names.index(name)], starts[names.index(name) + 1]
    return text[:begin], text[begin:end], text[end:], realms


def _file(given: Path | None) -> Path:
    named = environment().get("HUB_REALMS_FILE", "").strip()
    if given is None and not named:
        raise Usage("Which file? Say --file FILE, or set HUB_REALMS_FILE.")
    return given or Path(named)


def _quoted(text: str) -> str:
    import orjson  # a text of JSON is one of TOML, but for what is no character

    try:
        return orjson.dumps(text).decode().replace("\x7f", "\\u007f")
    except TypeError:
        raise Usage("A name, a URL or a pattern is no text.") from None


@contextmanager
def _tried(path: Path, text: str) -> Iterator[tuple[Path, list[Realm]]]:
    """The file as it would be, beside it, and its realms: nothing that a hub would refuse."""
    from hub.settings.realms import read_realms

    mode = path.stat().st_mode & 0o777 if path.exists() else 0o600  # there may be passwords in it
    handle, name = tempfile.mkstemp(dir=path.absolute().parent, prefix=f".{path.name}-")
    made = Path(name)
    try:
        with os.fdopen(handle, "w") as file:
            file.write(text)
        made.chmod(mode)
        try:
            found = [*read_realms(made)]
        except StartRefused as error:
            raise StartRefused(str(error).replace(name, str(path))) from None
        yield made, found
    finally:
        made.unlink(missing_ok=True)
