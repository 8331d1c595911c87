"""`hub sweep`, `expire`, `brake` and `doctor`: for operators."""

from __future__ import annotations

import asyncio
import dataclasses
import getpass
import os
import socket
from typing import Annotated, Any, Literal

import typer

from hub.cli import global_options, output, tables
from hub.cli.all_realms import RealmPart, note_errors
from hub.cli.connection import Address, connect, operating
from hub.cli.inputs import Usage
from hub.cli.options import AsJson, Secret, Url
from hub.cli.progress import Bar
from hub.cli.times import when
from hub.errors import HubError
from hub.wire import time_at

Switch = Literal["on", "off", "default"]

_SWITCH: dict[Switch, bool | None] = {"on": True, "off": False, "default": None}


def sweep(
    once: Annotated[bool, typer.Option("--once", help="Required: hubs sweep by themselves all the time.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Change nothing, show what would be done.")] = False,
    as_json: AsJson = False,
    url: Url = None,
    secret: Secret = None,
) -> None:
    """Look for dead nodes and lapsed leases now."""
    if not once:
        raise Usage("Hubs sweep by themselves all the time; say --once to sweep now as well.")
    asyncio.run(_sweep(operating(url, secret), as_json, dry_run=dry_run))


def expire(
    switch: Annotated[
        Literal["on", "off", "default"] | None,
        typer.Argument(help="on, off, or default: back to HUB_SWEEPER_EXPIRE. Nothing: show it."),
    ] = None,
    as_json: AsJson = False,
    url: Url = None,
    secret: Secret = None,
) -> None:
    """Switch whether dead nodes are removed, for all hubs at once; or show it."""
    asyncio.run(_expire(operating(url, secret), switch, as_json))


def brake(
    action: Annotated[
        Literal["status", "release"],
        typer.Argument(help="status: show it. release: have all removed that are silent now."),
    ] = "status",
    workers: Annotated[bool, typer.Option("--workers", help="The brake on workers; else that on nodes.")] = False,
    as_json: AsJson = False,
    url: Url = None,
    secret: Secret = None,
) -> None:
    """Show or release the brake: when very many nodes are silent at once, none goes at first, then a few at a time."""
    of: Literal["nodes", "workers"] = "workers" if workers else "nodes"
    asyncio.run(_brake(operating(url, secret), as_json, of=of, release=action == "release"))


def doctor(
    repair: Annotated[bool, typer.Option("--repair", help="Repair what can be repaired.")] = False,
    as_json: AsJson = False,
) -> int:
    """Check every invariant on Redis itself (HUB_REDIS_URL or the running embedded server)."""
    if global_options.realm() == global_options.ALL:
        return asyncio.run(_doctor_of_all(as_json, repair=repair))
    return asyncio.run(_doctor(as_json, repair=repair))


async def _sweep(at: Address, as_json: bool, *, dry_run: bool) -> None:
    """Look once for dead nodes and lapsed leases, and show what was done, or with `dry_run` would be."""
    async with connect(at) as hub:
        answer = await hub.post("admin", "sweep", body={"dryRun": dry_run})
    if as_json:
        output.put_json(answer)
        return
    nodes, leases = _part(answer, "nodes"), _part(answer, "leases")
    held = nodes.get("heldBack") or 0
    if dry_run:
        would = f"{'expired' if answer.get('expire') else 'kept as expiry is off'}"
        done = f", which would be {would}" + (f" but for {held} held back by the brake" if held else "")
    else:
        done = f": {nodes.get('expired')} expired, {nodes.get('refreshed')} kept"
        done += f", {held} held back by the brake" if held else ""
    output.put(
        f"Nodes: {nodes.get('scanned')} scanned, {nodes.get('stale')} stale{done}; "
        f"{output.plural(nodes.get('errors'), 'error')}, {nodes.get('elapsedMs')} ms."
    )
    output.put(
        f"Leases: {leases.get('processed')} scanned, {leases.get('returned')} {'overdue' if dry_run else 'returned'}; "
        f"{output.plural(leases.get('errors'), 'error')}, {leases.get('elapsedMs')} ms."
    )
    for name in nodes.get("names") or ():
        output.put(f"  stale: {output.one_line(str(name))}")
    if dry_run:
        output.put("Nothing was changed.")


async def _expire(at: Address, switch: Switch | None, as_json: bool) -> None:
    """Switch expiry for all hubs, or show how it is switched."""
    async with connect(at) as hub:
        if switch is None:
            answer = await hub.get("admin", "sweeper")
        else:
            answer = await hub.put("admin", "sweeper", body={"expire": _SWITCH[switch], "by": caller()})
    if as_json:
        output.put_json(answer)
        return
    state = "on: dead nodes are removed" if answer.get("expire") else "off: dead nodes are kept"
    if answer.get("source") == "setting":
        why = "HUB_SWEEPER_EXPIRE says so"
    else:
        who = f"set by {answer.get('setBy') or 'somebody'} {when(answer.get('setAt'))}"
        why = f"{who}; HUB_SWEEPER_EXPIRE says {'on' if answer.get('setting') else 'off'}"
    output.put(f"Expiry is {state} ({output.one_line(why)}).")


async def _brake(at: Address, as_json: bool, *, of: Literal["nodes", "workers"], release: bool) -> None:
    """Show a brake, or let those go that it holds back."""
    async with connect(at) as hub:
        if release:
            answer = await hub.post("admin", "brake", "release", body={"by": caller(), "of": of})
        else:
            answer = await hub.get("admin", "brake", of=of)
    if as_json:
        output.put_json(answer)
        return
    bounds = f"more than {answer.get('percent')} % of the {of}, and at least {answer.get('minimum')}"
    seen = f"{answer.get('stale')} of {answer.get('registered')} {of} are silent"
    again = "hub brake release" + (" --workers" if of == "workers" else "")
    match answer.get("state"):
        case "engaged":
            most, held = answer.get("perInterval"), answer.get("heldBack")
            goes = f"Each sweep interval removes at most {most} and holds {held} back"
            if why := answer.get("why"):
                goes = f"None is removed: {why}"
            text = f"The brake was engaged {when(answer.get('since'))}: {seen}. {goes}; `{again}` lets them go."
        case "released":
            text = (
                f"The brake was released by {answer.get('releasedBy')} {when(answer.get('releasedAt'))}: {seen}; "
                "all of them are removed by the next sweep, then the brake is ready again."
            )
        case _:
            text = f"The brake is off; it is engaged when {bounds}, are silent at once."
    output.put(output.one_line(text))


def caller() -> str:
    """Who will be shown as the one who switched."""
    try:
        return f"{getpass.getuser()}@{socket.gethostname()}"
    except (KeyError, OSError):  # a user id without a name
        return f"{os.getuid()}@{socket.gethostname()}"


async def _doctor(as_json: bool, *, repair: bool) -> int:
    """Check every invariant on Redis itself; 0 when all hold or what did not is repaired."""
    from hub.cli.direct import store_settings, store_shown  # these alone need the store's packages
    from hub.doctor import examine
    from hub.store.connection import open_store

    settings = store_settings("The doctor works on Redis itself")

    async with open_store(settings) as store:
        patience = asyncio.create_task(_ask_for_patience())
        try:
            with Bar("keys", await store.read("DBSIZE")) as bar:
                findings = await examine(store, repair=repair, settings=settings, seen=bar.to)
            idle = await store.libraries()
        finally:
            patience.cancel()
    open_ones = [finding for finding in findings if not finding.repaired]
    if as_json:
        output.put_json({"clean": not open_ones, "findings": [dataclasses.asdict(finding) for finding in findings]})
    elif findings:
        rows = [(each.invariant, each.subject, each.problem, each.repaired) for each in findings]
        tables.put_table(("RULE", "WHAT", "PROBLEM", "REPAIRED"), rows)
    else:
        output.put(f"Every invariant holds in {store_shown(settings)}.")
    for library, idle_s in sorted(idle.items()):
        output.note(f"{library} is a library of another version of the hub, last used {_ago(idle_s)}.")
    if open_ones:
        hint = "" if repair else "; `hub doctor --repair` repairs what can be repaired"
        output.note(f"{output.plural(len(open_ones), 'finding')}{hint}.")
    return 1 if open_ones else 0


async def _doctor_of_all(as_json: bool, *, repair: bool) -> int:
    """The same of every realm, side by side; one whose store does not answer is told as a realm that is not sound."""
    from hub.cli.direct import every_realm
    from hub.doctor import Finding, examine
    from hub.settings import Settings
    from hub.store.connection import open_store

    async def look(name: str, settings: Settings) -> RealmPart[list[Finding]]:
        try:
            async with open_store(settings) as store:
                found = await examine(store, repair=repair, settings=settings)
                return RealmPart(name, time_at(store.wall_s()), "", found)
        except HubError as error:
            return RealmPart(name, None, str(error), None)

    patience = asyncio.create_task(_ask_for_patience())
    try:
        parts = await asyncio.gather(*(look(name, settings) for name, settings in every_realm().items()))
    finally:
        patience.cancel()
    rows = [(part.realm, each) for part in parts for each in part.found or ()]
    open_ones = [each for _, each in rows if not each.repaired]
    if as_json:
        told = [part.facts() | {"findings": list(map(dataclasses.asdict, part.found or ()))} for part in parts]
        output.put_json({"clean": not open_ones and all(part.found is not None for part in parts), "realms": told})
    elif rows:
        said = [(realm, each.invariant, each.subject, each.problem, each.repaired) for realm, each in rows]
        tables.put_table(("REALM", "RULE", "WHAT", "PROBLEM", "REPAIRED"), said)
    elif sound := [part.realm for part in parts if part.found is not None]:
        output.put(f"Every invariant holds in {', '.join(sound)}.")
    if open_ones:
        output.note(f"{output.plural(len(open_ones), 'finding')}.")
    return max(note_errors(parts), 1 if open_ones else 0)


def _ago(seconds: float) -> str:
    return f"{output.plural(round(seconds // 3600), 'hour')} ago" if seconds >= 3600 else "within the last hour"


async def _ask_for_patience() -> None:
    await asyncio.sleep(3)
    output.note("something looks wrong; waiting to see whether the next sweep repairs it.")


def _part(answer: dict[str, Any], name: str) -> dict[str, Any]:
    part = answer.get(name)
    return part if isinstance(part, dict) else {}
