"""`hub sweep`, `expire`, `brake` and `doctor`: sweep now, switch expiry, release the brake, check the store."""

from __future__ import annotations

import asyncio
import dataclasses
import getpass
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any, Literal

import typer

from hub.cli import global_options, output, tables
from hub.cli.all_realms import RealmPart, silent_realms
from hub.cli.answers import CommandAnswer
from hub.cli.command import Work, command
from hub.cli.connection import HubApi
from hub.cli.inputs import Usage
from hub.cli.progress import Bar
from hub.cli.times import when
from hub.errors import HubError
from hub.wire import time_at

Switch = Literal["on", "off", "default"]

_PATIENCE = "something looks wrong; waiting to see whether the next sweep repairs it."
_FINDING = ("RULE", "WHAT", "PROBLEM", "REPAIRED")
_SWITCH: dict[Switch, bool | None] = {"on": True, "off": False, "default": None}


@command("admin")
def sweep(
    hub: HubApi,
    once: Annotated[
        bool, typer.Option("--once", help="Confirm a sweep by hand. Required, because hubs sweep by themselves.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and change nothing.")] = False,
) -> Work:
    """Look for dead nodes and expired leases now."""
    if not once:
        raise Usage("Hubs sweep by themselves all the time; say --once to sweep now as well.")
    return _sweep(hub, dry_run=dry_run)


async def _sweep(hub: HubApi, *, dry_run: bool) -> CommandAnswer:
    answer = await hub.post("admin", "sweep", body={"dryRun": dry_run})
    nodes, leases = _part(answer, "nodes"), _part(answer, "leases")
    held = nodes.get("heldBack") or 0
    if dry_run:
        would = f"{'expired' if answer.get('expire') else 'kept as expiry is off'}"
        done = f", which would be {would}" + (f" but for {held} held back by the brake" if held else "")
    else:
        done = f": {nodes.get('expired')} expired, {nodes.get('refreshed')} kept"
        done += f", {held} held back by the brake" if held else ""
    lines = [
        f"Nodes: {nodes.get('scanned')} scanned, {nodes.get('stale')} stale{done}; "
        f"{output.plural(nodes.get('errors'), 'error')}, {nodes.get('elapsedMs')} ms.",
        f"Leases: {leases.get('processed')} scanned, {leases.get('returned')} {'overdue' if dry_run else 'returned'}; "
        f"{output.plural(leases.get('errors'), 'error')}, {leases.get('elapsedMs')} ms.",
        *(f"  stale: {output.one_line(str(name))}" for name in nodes.get("names") or ()),
        *(["Nothing was changed."] if dry_run else ()),
    ]
    return CommandAnswer(answer, "\n".join(lines))


@command("admin")
async def expire(
    hub: HubApi,
    switch: Annotated[
        Literal["on", "off", "default"] | None,
        typer.Argument(
            help="The switch: on, off, or default for what HUB_SWEEPER_EXPIRE says. Without it the switch is shown."
        ),
    ] = None,
) -> CommandAnswer:
    """Switch the removal of dead nodes on or off for all hubs, or show the switch."""
    if switch is None:
        answer = await hub.get("admin", "sweeper")
    else:
        answer = await hub.put("admin", "sweeper", body={"expire": _SWITCH[switch], "by": caller()})
    state = "on: dead nodes are removed" if answer.get("expire") else "off: dead nodes are kept"
    if answer.get("source") == "setting":
        why = "HUB_SWEEPER_EXPIRE says so"
    else:
        who = f"set by {answer.get('setBy') or 'somebody'} {when(answer.get('setAt'))}"
        why = f"{who}; HUB_SWEEPER_EXPIRE says {'on' if answer.get('setting') else 'off'}"
    return CommandAnswer(answer, f"Expiry is {state} ({output.one_line(why)}).")


@command("admin")
async def brake(
    hub: HubApi,
    action: Annotated[
        Literal["status", "release"],
        typer.Argument(help="Show the brake with status, or remove all that are silent now with release."),
    ] = "status",
    workers: Annotated[
        bool, typer.Option("--workers", help="The brake on workers instead of the brake on nodes.")
    ] = False,
) -> CommandAnswer:
    """Show or release the brake: when very many nodes are silent at once, none is removed at first, then a few."""
    of = "workers" if workers else "nodes"
    if action == "release":
        answer = await hub.post("admin", "brake", "release", body={"by": caller(), "of": of})
    else:
        answer = await hub.get("admin", "brake", of=of)
    return CommandAnswer(answer, output.one_line(_brake_sentence(answer, of)))


def _brake_sentence(answer: dict[str, Any], of: str) -> str:
    bounds = f"more than {answer.get('percent')} % of the {of}, and at least {answer.get('minimum')}"
    silent = f"{answer.get('stale')} of {answer.get('registered')} {of} are silent"
    again = "hub brake release" + (" --workers" if of == "workers" else "")
    match answer.get("state"):
        case "engaged":
            most, held = answer.get("perInterval"), answer.get("heldBack")
            goes = f"Each sweep interval removes at most {most} and holds {held} back"
            if why := answer.get("why"):
                goes = f"None is removed: {why}"
            return f"The brake was engaged {when(answer.get('since'))}: {silent}. {goes}; `{again}` lets them go."
        case "released":
            return (
                f"The brake was released by {answer.get('releasedBy')} {when(answer.get('releasedAt'))}: {silent}; "
                "all of them are removed by the next sweep, then the brake is ready again."
            )
        case _:
            return f"The brake is off; it is engaged when {bounds}, are silent at once."


@command()
async def doctor(
    repair: Annotated[bool, typer.Option("--repair", help="Repair what can be repaired.")] = False,
) -> CommandAnswer:
    """Check every invariant on Redis itself: at HUB_REDIS_URL, or on the embedded server."""
    look = _doctor_of_all if global_options.realm() == global_options.ALL else _doctor
    return await look(repair=repair)


def caller() -> str:
    """Return `user@host` of this process, which the hub records with a change that this command makes."""
    try:
        return f"{getpass.getuser()}@{socket.gethostname()}"
    except (KeyError, OSError):  # a user id without a name
        return f"{os.getuid()}@{socket.gethostname()}"


async def _doctor(*, repair: bool) -> CommandAnswer:
    from hub.cli.direct import store_settings, store_shown  # imported only for this command
    from hub.doctor import examine
    from hub.store.connection import open_store

    settings = store_settings("The doctor works on Redis itself")

    async with open_store(settings) as store, _patience():
        with Bar("keys", await store.read("DBSIZE")) as bar:
            findings = await examine(store, repair=repair, settings=settings, seen=bar.to)
        idle = await store.libraries()
    open_ones = [finding for finding in findings if not finding.repaired]
    notes = [
        f"{library} is a library of another version of the hub, last used {_ago(idle_s)}."
        for library, idle_s in sorted(idle.items())
    ]
    if open_ones:
        hint = "" if repair else "; `hub doctor --repair` repairs what can be repaired"
        notes.append(f"{output.plural(len(open_ones), 'finding')}{hint}.")

    def show() -> None:
        if findings:
            rows = [(each.invariant, each.subject, each.problem, each.repaired) for each in findings]
            tables.put_table(_FINDING, rows)
        else:
            output.put(f"Every invariant holds in {store_shown(settings)}.")

    document = {"clean": not open_ones, "findings": [dataclasses.asdict(finding) for finding in findings]}
    return CommandAnswer(document, show, notes, 1 if open_ones else 0)


async def _doctor_of_all(*, repair: bool) -> CommandAnswer:
    """Examine all realms at the same time. A realm whose store does not answer counts as not clean."""
    from hub.cli.direct import every_realm
    from hub.doctor import Finding, examine
    from hub.settings import Settings
    from hub.store.connection import open_store

    async def look(name: str, settings: Settings) -> RealmPart[list[Finding]]:
        try:
            async with open_store(settings) as store:
                findings = await examine(store, repair=repair, settings=settings)
                return RealmPart(name, time_at(store.wall_s()), "", findings)
        except HubError as error:
            return RealmPart(name, None, str(error), None)

    async with _patience():
        parts = await asyncio.gather(*(look(name, settings) for name, settings in every_realm().items()))
    findings = [(part.realm, finding) for part in parts for finding in part.answer or ()]
    open_ones = [finding for _, finding in findings if not finding.repaired]
    notes, code = silent_realms(parts)
    if open_ones:
        notes.insert(0, f"{output.plural(len(open_ones), 'finding')}.")

    def show() -> None:
        if findings:
            rows = [(realm, each.invariant, each.subject, each.problem, each.repaired) for realm, each in findings]
            tables.put_table(("REALM", *_FINDING), rows)
        elif sound := [part.realm for part in parts if part.answer is not None]:
            output.put(f"Every invariant holds in {', '.join(sound)}.")

    realms = [part.facts() | {"findings": list(map(dataclasses.asdict, part.answer or ()))} for part in parts]
    document = {"clean": not open_ones and all(part.answer is not None for part in parts), "realms": realms}
    return CommandAnswer(document, show, notes, max(code, 1 if open_ones else 0))


def _ago(seconds: float) -> str:
    return f"{output.plural(round(seconds // 3600), 'hour')} ago" if seconds >= 3600 else "within the last hour"


@asynccontextmanager
async def _patience() -> AsyncIterator[None]:
    """Print a note that asks for patience when the block takes more than three seconds."""
    asking = asyncio.get_running_loop().call_later(3, output.note, _PATIENCE)
    try:
        yield
    finally:
        asking.cancel()


def _part(answer: dict[str, Any], name: str) -> dict[str, Any]:
    part = answer.get(name)
    return part if isinstance(part, dict) else {}
