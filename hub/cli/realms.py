"""`hub realm`: shows the realms that a hub serves, and changes the file that names them."""

from __future__ import annotations

import asyncio
import os
import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from typer import Option

from hub.cli import output
from hub.cli.answers import Columns, CommandAnswer, Listing, facts
from hub.cli.command import command
from hub.cli.connection import HubApi, Row
from hub.cli.environment import environment
from hub.cli.inputs import Usage
from hub.cli.options import REALM, Input
from hub.errors import HubError, StartRefused, StoreUnavailable

if TYPE_CHECKING:
    from hub.settings.realms import Realm

_NAME = REALM.argument("The name of the realm.")
_FILE = Option(None, dir_okay=False, metavar="FILE", help="The file of realms. Default: HUB_REALMS_FILE.")
_PATTERNS = Input("PATTERN").option("A pattern for what belongs to the realm, where * is any text. Repeatable.")
_URL = re.compile(r"""(?m)^([ \t]*url[ \t]*=[ \t]*)(?:"[^"\n]*"|'[^'\n]*')""")
_BEGINS = re.compile(r"(?m)^[ \t]*\[\[[ \t]*realms[ \t]*\]\]")


@command("figures")
async def ls(hub: HubApi) -> CommandAnswer:
    """Show the realms that the hub serves."""
    answer = await hub.get("realms")
    return CommandAnswer(answer, lambda: _REALMS.put(answer["realms"]))


@command("figures")
async def show(
    hub: HubApi,
    name: str = REALM.argument("The name of the realm; the realm without a name is called default."),
) -> CommandAnswer:
    """Show a realm, with the labels, rooms and nodes that belong to it."""
    realms = (await hub.get("realms"))["realms"]
    realm = next((realm for realm in realms if realm["name"] == name), None)
    if realm is None:
        names = ", ".join(realm["name"] for realm in realms)
        raise HubError(f"This hub serves no realm {output.one_line(name)}; it serves {names}.")
    return facts(realm, _FACTS, only_known=True)


def _spills_over_to(realm: Row) -> str:
    after = output.duration(realm["spillAfterSeconds"])
    return f"{', '.join(realm['spillTo'])} after {after}" if realm["spillTo"] else ""


_REALMS = Listing(
    "realms",
    {
        "REALM": "name", "STATE": "state", "AS OF": lambda realm: output.when(realm["asOf"]) or "never",
        "STORE": "url", "ERROR": "error",
    },
    expendable=("AS OF",),
)  # fmt: skip
_FACTS: Columns = {
    **_REALMS.columns,
    "LABELS": lambda realm: "  ".join(realm["labels"]),
    "ROOMS": lambda realm: "  ".join(realm["rooms"]),
    "NODES": lambda realm: "  ".join(realm["nodes"]),
    "SPILLS OVER TO": _spills_over_to,
}


def add(
    name: str = Input("REALM").argument("The name of the realm: 1 to 32 of a-z, 0-9 and -."),
    url: str = Input("URL").argument("The Redis of the realm, written as in HUB_REDIS_URL."),
    label: list[str] | None = _PATTERNS,
    room: list[str] | None = _PATTERNS,
    node: list[str] | None = _PATTERNS,
    spill_to: list[str] | None = REALM.option("A realm that may serve its tickets, best first. Repeatable."),
    spill_after: float | None = Option(None, help="How long a ticket waits in its own realm first. Default: 5."),
    file: Path | None = _FILE,
) -> None:
    """Add a realm at the end of the file; its rules come after the others."""
    path = _file(file)
    before = path.read_text() if path.exists() else ""
    lines = ["[[realms]]", f"name = {_quoted(name)}", f"url = {_quoted(url)}"]
    for key, texts in (("labels", label), ("rooms", room), ("nodes", node), ("spill_to", spill_to)):
        if texts:
            lines.append(f"{key} = [{', '.join(map(_quoted, texts))}]")
    if spill_after is not None:
        lines.append(f"spill_after_s = {spill_after:g}")
    gap = "" if not before else "\n" if before.endswith("\n") else "\n\n"
    with _tried(path, before + gap + "\n".join(lines) + "\n") as (made, _):
        os.replace(made, path)
    output.put(f"{path} has realm {name}. Hubs serve it after SIGHUP.")


def rm(name: str = _NAME, file: Path | None = _FILE) -> None:
    """Remove a realm from the file. Its store stays as it is."""
    path = _file(file)
    before, _, after, realms = _around(path, name)
    with _tried(path, before + after) as (made, left):
        if left != [other for other in realms if other.name != name]:
            raise Usage(f"{path} holds something between its realms; take the realm out by hand.")
        os.replace(made, path)
    output.put(f"{path} has realm {name} no longer. Hubs close it after SIGHUP; what is in its store stays there.")


def move(
    name: str = _NAME,
    to: str | None = Input("URL").option("The new Redis of the realm, where nothing of the realm is yet."),
    back: bool = Option(False, "--back", help="Undo a move that is not finished: the store stays where it is."),
    file: Path | None = _FILE,
) -> None:
    """Move the store of a realm to another server while hubs run. Repeat it if it was interrupted."""
    if (to is not None) == back:
        raise Usage("Say where the store is to be with --to URL, or undo a move that is not over with --back.")
    path = _file(file)
    realm = next(realm for realm in _around(path, name)[3] if realm.name == name)
    if not realm.url:
        raise Usage(f"{name} lives where HUB_REDIS_URL says: stop the hubs, and use hub store export and import.")
    if to is None:
        asyncio.run(_move(realm, None))
        output.put(f"The store of realm {name} stays at {realm.shown}.")
        return
    with _elsewhere(path, name, to) as (_, there):
        pass  # only checks that the file can be changed; it is written after the copy
    if there.url == realm.url:
        output.put(f"Realm {name} lives at {there.shown}.")
        return
    keys, stood_s = asyncio.run(_move(realm, there))
    with _elsewhere(path, name, to) as (made, there):
        os.replace(made, path)
    how = f"{output.plural(keys, 'key')} were copied in {output.duration(stood_s)}" if keys else "It was there before"
    output.put(f"Realm {name} lives at {there.shown}, and {path} says so. {how}; hubs follow by themselves.")


async def _move(realm: Realm, there: Realm | None) -> tuple[int, float]:
    """Copy the store of a realm to its new place; return the number of keys and the seconds that it took.

    With None undo a move that is not finished.
    """
    from hub.cli.direct import realm_settings
    from hub.store import moving
    from hub.store.connection import open_store

    async with AsyncExitStack() as stack:
        old = await stack.enter_async_context(open_store(realm_settings(realm), opened=False))
        if there is None:
            await moving.stay(old)
            return 0, 0.0
        new = await stack.enter_async_context(open_store(realm_settings(there), opened=False))
        output.note(f"realm {realm.name} stands still from now on, until everything is at {there.shown}.")
        began = time.monotonic()
        try:
            return await moving.move(old, new, there.url), time.monotonic() - began
        except StoreUnavailable as error:
            why = str(error.__cause__ or error).rstrip(".")
            raise HubError(f"{why}. Realm {realm.name} stands still: repeat this, or undo it with --back.") from error


@contextmanager
def _elsewhere(path: Path, name: str, url: str) -> Iterator[tuple[Path, Realm]]:
    """Yield the path of a draft of the file with another URL for a realm, and that realm; raises `Usage`."""
    before, own, after, realms = _around(path, name)
    changed_text = before + _URL.sub(lambda match: match[1] + _quoted(url), own, count=1) + after
    with _tried(path, changed_text) as (made, changed):
        there = next(realm for realm in changed if realm.name == name)
        if [replace(realm, url=there.url) if realm.name == name else realm for realm in realms] != changed:
            raise Usage(
                f"{path} cannot be changed by this command: the url of {name} is not written in a line of its own."
            )
        yield made, there


def _around(path: Path, name: str) -> tuple[str, str, str, list[Realm]]:
    """Return the text of the file before the entry of a realm, the entry, the text after it, and all realms.

    Raises `Usage` when the file lacks the realm, or its entries cannot be told apart.
    """
    from hub.settings.realms import read_realms

    if not path.exists():
        raise Usage(f"There is no file {path}.")
    realms = [*read_realms(path)]
    names = [realm.name for realm in realms]
    if name not in names:
        raise Usage(f"{path} has no realm {output.one_line(name)}; it has {', '.join(names) or 'none'}.")
    text = path.read_text()
    starts = [*(match.start() for match in _BEGINS.finditer(text)), len(text)]
    if len(starts) != len(names) + 1:
        raise Usage(f"{path} is not written with [[realms]] above each; change it by hand.")
    begin, end = starts[names.index(name)], starts[names.index(name) + 1]
    return text[:begin], text[begin:end], text[end:], realms


def _file(given: Path | None) -> Path:
    named = environment().get("HUB_REALMS_FILE", "").strip()
    if given is None and not named:
        raise Usage("No file of realms is named: say --file FILE, or set HUB_REALMS_FILE.")
    return given or Path(named)


def _quoted(text: str) -> str:
    import orjson  # a JSON string is a TOML string, but for one character

    try:
        return orjson.dumps(text).decode().replace("\x7f", "\\u007f")
    except TypeError:
        raise Usage("A name, a URL or a pattern is not text in UTF-8.") from None


@contextmanager
def _tried(path: Path, text: str) -> Iterator[tuple[Path, list[Realm]]]:
    """Write `text` as a draft next to the file, and yield the draft's path and realms; delete the draft at the end.

    Raises `StartRefused` when a hub would refuse the text.
    """
    from hub.settings.realms import read_realms

    mode = path.stat().st_mode & 0o777 if path.exists() else 0o600  # URLs may have passwords
    handle, name = tempfile.mkstemp(dir=path.absolute().parent, prefix=f".{path.name}-")
    made = Path(name)
    try:
        with os.fdopen(handle, "w") as file:
            file.write(text)
        made.chmod(mode)
        try:
            realms = [*read_realms(made)]
        except StartRefused as error:
            raise StartRefused(str(error).replace(name, str(path))) from None
        yield made, realms
    finally:
        made.unlink(missing_ok=True)
