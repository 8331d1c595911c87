"""`hub sweep`, `expire`, `brake` and `doctor`: sweep now, switch expiry, release the brake, check the store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, astuple
from typing import TYPE_CHECKING, Any, Literal

from typer import Argument, Option

from hub.cli import global_options, output, tables
from hub.cli.answers import CommandAnswer, RealmPart, silent_realms
from hub.cli.command import Work, command
from hub.cli.connection import HubApi, Row
from hub.cli.environment import caller
from hub.cli.inputs import Usage
from hub.cli.options import DRY_RUN
from hub.cli.output import when
from hub.cli.progress import bar
from hub.errors import HubError
from hub.wire import time_at

if TYPE_CHECKING:
    from hub.doctor import Finding

Switch = Literal["on", "off", "default"]

_PATIENCE = "something looks wrong; waiting to see whether the next sweep repairs it."
_FINDING = ("RULE", "WHAT", "PROBLEM", "REPAIRED")
_SWITCH: dict[Switch, bool | None] = {"on": True, "off": False, "default": None}


@command("admin")
def sweep(
    hub: HubApi,
    once: bool = Option(False, "--once", help="Confirm a sweep by hand. Required, because hubs sweep by themselves."),
    dry_run: bool = DRY_RUN,
) -> Work:
    """Look for dead nodes and expired leases now."""
    if not once:
        raise Usage("Hubs sweep by themselves all the time; say --once to sweep now as well.")
    return _sweep(hub, dry_run=dry_run)


async def _sweep(hub: HubApi, *, dry_run: bool) -> CommandAnswer:
    answer = await hub.ask("POST", "admin", "sweep", body={"dryRun": dry_run})
    nodes, leases = (answer.get(noun) or {} for noun in ("nodes", "leases"))
    held = nodes.get("heldBack") or 0
    if dry_run:
        would = f"{'expired' if answer.get('expire') else 'kept as expiry is off'}"
        done = f", which would be {would}" + (f" but for {held} held back by the brake" if held else "")
    else:
        done = f": {nodes.get('expired')} expired, {nodes.get('refreshed')} kept"
        done += f", {held} held back by the brake" if held else ""
    lines = [
        f"Nodes: {nodes.get('scanned')} scanned, {nodes.get('stale')} stale{done}; {_errors(nodes)}",
        f"Leases: {leases.get('processed')} scanned, {leases.get('returned')} {'overdue' if dry_run else 'returned'}; "
        f"{_errors(leases)}",
        *(f"  stale: {output.one_line(str(name))}" for name in nodes.get("names") or ()),
        *(["Nothing was changed."] if dry_run else ()),
    ]
    return CommandAnswer(answer, "\n".join(lines))


def _errors(swept: Row) -> str:
    return f"{output.plural(swept.get('errors'), 'error')}, {swept.get('elapsedMs')} ms."


@command("admin")
async def expire(
    hub: HubApi,
    switch: Switch | None = Argument(
        None,
        help="Set the switch: on, off, or default for what HUB_SWEEPER_EXPIRE says. Without it, show the switch.",
    ),
) -> CommandAnswer:
    """Switch the removal of dead nodes on or off for all hubs, or show the switch."""
    if switch is None:
        answer = await hub.get("admin", "sweeper")
    else:
        answer = await hub.ask("PUT", "admin", "sweeper", body={"expire": _SWITCH[switch], "by": caller()})
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
    action: Literal["status", "release"] = Argument(
        "status", help="Show the brake, or release it: remove all that are silent now."
    ),
    workers: bool = Option(False, "--workers", help="The brake on workers instead of the brake on nodes."),
) -> CommandAnswer:
    """Show or release the brake: when very many nodes are silent at once, none is removed at first, then a few."""
    of = "workers" if workers else "nodes"
    if action == "release":
        answer = await hub.ask("POST", "admin", "brake", "release", body={"by": caller(), "of": of})
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
    repair: bool = Option(False, "--repair", help="Repair what can be repaired."),
) -> CommandAnswer:
    """Check every invariant on Redis itself: at HUB_REDIS_URL, or on the embedded server."""
    look = _doctor_of_all if global_options.realm() == global_options.ALL else _doctor
    return await look(repair=repair)


async def _doctor(*, repair: bool) -> CommandAnswer:
    from hub.cli.direct import store_settings, store_shown  # imported only for this command
    from hub.doctor import examine
    from hub.store.connection import open_store

    settings = store_settings("The doctor works on Redis itself")

    async with open_store(settings) as store, _patience():
        with bar("keys", await store.read("DBSIZE")) as moved_to:
            findings = await examine(store, repair=repair, settings=settings, seen=moved_to)
        idle = await store.libraries()
    notes = [
        f"{library} is a library of another version of the hub, last used {_ago(idle_s)}."
        for library, idle_s in sorted(idle.items())
    ]
    if unrepaired := _unrepaired(findings):
        hint = "" if repair else "; `hub doctor --repair` repairs what can be repaired"
        notes.append(f"{output.plural(unrepaired, 'finding')}{hint}.")

    def show() -> None:
        if findings:
            tables.put_table(_FINDING, list(map(astuple, findings)))
        else:
            output.put(f"Every invariant holds in {store_shown(settings)}.")

    document = {"clean": not unrepaired, "findings": list(map(asdict, findings))}
    return CommandAnswer(document, show, notes, 1 if unrepaired else 0)


async def _doctor_of_all(*, repair: bool) -> CommandAnswer:
    """Examine all realms at the same time. A realm whose store does not answer counts as not clean."""
    from hub.cli.direct import every_realm
    from hub.doctor import examine
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
    notes, code = silent_realms(parts)
    if unrepaired := sum(_unrepaired(part.answer or ()) for part in parts):
        notes.insert(0, f"{output.plural(unrepaired, 'finding')}.")
        code = 1

    def show() -> None:
        if rows := [(part.realm, *astuple(finding)) for part in parts for finding in part.answer or ()]:
            tables.put_table(("REALM", *_FINDING), rows)
        elif sound := [part.realm for part in parts if part.answer is not None]:
            output.put(f"Every invariant holds in {', '.join(sound)}.")

    realms = [part.facts() | {"findings": list(map(asdict, part.answer or ()))} for part in parts]
    return CommandAnswer({"clean": code == 0, "realms": realms}, show, notes, code)


def _unrepaired(findings: Sequence[Finding]) -> int:
    return sum(not finding.repaired for finding in findings)


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
