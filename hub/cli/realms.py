"""`hub realm`: the realms that a hub serves, and the file that names them."""

from __future__ import annotations

import asyncio
import os
import re
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from hub.cli import moments, output, tables
from hub.cli.inputs import Usage
from hub.cli.options import AsJson, Secret, Url
from hub.cli.reach import Address, looking, reach
from hub.cli.surroundings import environment
from hub.errors import HubError, StartRefused

File = Annotated[Path | None, typer.Option(dir_okay=False, metavar="FILE", help="The file; else HUB_REALMS_FILE.")]
Patterns = Annotated[list[str] | None, typer.Option(metavar="PATTERN", help="Of what is its own; * is any text.")]
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
            moments.when(each["asOf"]) or "never",
            each["url"],
            output.one_line(each["error"] or ""),
        )
        for each in found["realms"]
    ]
    tables.put_table(("REALM", "STATE", "AS OF", "STORE", "ERROR"), rows, expendable=("AS OF",))


def show(
    name: Annotated[str, typer.Argument(metavar="REALM", help="Its name; default for the one without a name.")],
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
    tables.put_facts(facts)


def _seen(realm: dict[str, Any]) -> str:
    return moments.when(realm["asOf"]) or "never"


async def realms_at(at: Address) -> dict[str, Any]:
    """What the hub says of its realms."""
    async with reach(at) as hub:
        return await hub.get("realms")


def add(
    name: Annotated[str, typer.Argument(metavar="REALM", help="1 to 32 of a-z, 0-9 and -.")],
    url: Annotated[str, typer.Argument(metavar="URL", help="Its store, as HUB_REDIS_URL has it.")],
    label: Patterns = None,
    room: Patterns = None,
    node: Patterns = None,
    file: File = None,
) -> None:
    """Add a realm at the end of the file; its rules come after those that are there."""
    path = _file(file)
    before = path.read_text() if path.exists() else ""
    lines = ["[[realms]]", f"name = {_quoted(name)}", f"url = {_quoted(url)}"]
    for kind, patterns in (("labels", label), ("rooms", room), ("nodes", node)):
        if patterns:
            lines.append(f"{kind} = [{', '.join(map(_quoted, patterns))}]")
    gap = "" if not before else "\n" if before.endswith("\n") else "\n\n"
    _replace(path, before + gap + "\n".join(lines) + "\n")
    output.put(f"{path} has realm {name}. Hubs serve it after SIGHUP.")


def rm(
    name: Annotated[str, typer.Argument(metavar="REALM", help="Its name.")],
    file: File = None,
) -> None:
    """Take a realm out of the file. Its store stays as it is."""
    path = _file(file)
    if not path.exists():
        raise Usage(f"There is no file {path}.")
    from hub.settings.realms import read_realms

    names = [realm.name for realm in read_realms(path)]
    if name not in names:
        raise Usage(f"{path} has no realm {output.one_line(name)}; it has {', '.join(names) or 'none'}.")
    text = path.read_text()
    starts = [found.start() for found in _BEGINS.finditer(text)]
    if len(starts) != len(names):
        raise Usage(f"{path} is not written with [[realms]] above each; take the realm out by hand.")
    at = names.index(name)
    left = text[: starts[at]] + (text[starts[at + 1] :] if at + 1 < len(starts) else "")
    _replace(path, left, [each for each in names if each != name])
    output.put(f"{path} has realm {name} no longer. Hubs close it after SIGHUP; what is in its store stays there.")


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


def _replace(path: Path, text: str, names: list[str] | None = None) -> None:
    """Write the file anew, at once or not at all, and only what a hub would take."""
    from hub.settings.realms import read_realms

    mode = path.stat().st_mode & 0o777 if path.exists() else 0o600  # there may be passwords in it
    handle, made = tempfile.mkstemp(dir=path.absolute().parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "w") as file:
            file.write(text)
        os.chmod(made, mode)
        try:
            found = [realm.name for realm in read_realms(Path(made))]
        except StartRefused as error:
            raise StartRefused(str(error).replace(made, str(path))) from None
        if names is not None and found != names:
            raise Usage(f"{path} holds something between its realms; take the realm out by hand.")
        os.replace(made, path)
    finally:
        Path(made).unlink(missing_ok=True)
