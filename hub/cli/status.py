"""`hub status` and `hub memory`: show the state of the fleet, and who holds most of the memory."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Final

from typer import Option

from hub.cli import global_options, output, tables
from hub.cli.answers import CommandAnswer, Listing, each_realm
from hub.cli.command import command
from hub.cli.connection import HubApi, Row
from hub.errors import HubError

_CODES: Final = {"warning": 3, "critical": 4}  # 1 and 2 are for failures
_IN_BYTES: Final = {"tasks": "open tasks", "schemas": "schemas"}


@command(every_realm=True)
async def status(hub: HubApi) -> CommandAnswer:
    """Show the state of the fleet and every trouble. Exit codes: 0 no trouble, 3 a warning, 4 a critical trouble."""
    if global_options.realm() == global_options.ALL:
        return await _status_of_all(hub)
    calls = [hub.get("console", "overview")]
    if not global_options.is_given(global_options.JSON):
        calls.append(_memory_if_known(hub))
    overview, *held = await asyncio.gather(*calls)

    def show() -> None:
        output.put_line(str(overview.get("sentence")))
        for trouble in overview.get("troubles") or ():
            output.put_line(f"  {trouble.get('level')}: {trouble.get('title')}. {trouble.get('text')}")
        tables.put_facts(_facts(overview, held[0]["holders"]))

    return CommandAnswer(overview, show, code=_code(overview))


@command()
async def memory(
    hub: HubApi,
    store: bool = Option(False, "--store", help="Show as well how much of its memory Redis has in use."),
) -> CommandAnswer:
    """Show which users and rooms hold most of the open tasks, schemas, schedules, providers and rooms."""
    answer = await hub.get("console", "memory")

    def show() -> None:
        if store:
            tables.put_facts([("STORE", _memory(answer["store"]))])
        _HOLDERS.put(answer["holders"])

    return CommandAnswer(answer if store else {"holders": answer["holders"]}, show)


async def _memory_if_known(hub: HubApi) -> Row:
    try:
        return await hub.get("console", "memory")
    except HubError:  # a hub of an earlier version has no such operation
        return {"holders": []}


async def _status_of_all(hub: HubApi) -> CommandAnswer:
    """Return the answer with a line for each realm: its state, or the reason why it does not answer."""
    parts = await each_realm(hub, lambda realm: realm.get("console", "overview"))
    rows = [(part.realm, output.one_line(str((part.answer or {}).get("sentence") or part.error))) for part in parts]
    document = {"realms": [part.facts() | {"status": part.answer} for part in parts]}
    code = max((_code(part.answer) for part in parts), default=0)
    return CommandAnswer(document, lambda: tables.put_table(("REALM", "HOW IT IS"), rows), code=code)


def _code(overview: Row | None) -> int:
    """Return the exit code for the worst trouble of a realm, 0 without one; no answer (None) counts as critical."""
    if overview is None:
        return _CODES["critical"]
    return max((_CODES.get(str(trouble.get("level")), 0) for trouble in overview.get("troubles") or ()), default=0)


def _facts(overview: Row, holders: list[Row]) -> Iterable[tuple[str, Any]]:
    nodes, slots, queue, tasks = (overview.get(name) or {} for name in ("nodes", "slots", "queue", "tasks"))
    alive = f"{nodes.get('alive')} alive, {nodes.get('suspect')} suspect, {nodes.get('silent')} silent"
    held_back = f"{nodes.get('draining')} held back by an operator"
    yield "NODES", f"{alive}, {held_back}; {nodes.get('registered')} registered"
    yield "SLOTS", f"{slots.get('lent')} lent, {slots.get('free')} free, {slots.get('heldBack')} held back"
    oldest_s = queue.get("oldestSeconds")
    longest = "" if oldest_s is None else f", the longest for {output.duration(oldest_s)}"
    yield "QUEUE", f"{queue.get('waiting')} waiting{longest}"
    dead, workers = output.plural(tasks.get("dead"), "dead letter"), output.plural(tasks.get("workers"), "worker")
    yield "TASKS", f"{tasks.get('pending')} pending, {dead}, {workers}"
    for source in overview.get("stuck") or ():
        yield "RECORDS", f"{output.one_line(str(source.get('name')))}: {_stuck(source)}, {source.get('level')}"
    yield "STORE", _memory(overview.get("store") or {}) + _greatest_holder(holders)
    yield "HUBS", overview.get("hubs")


def _stuck(source: Row) -> str:
    if source.get("stuck") is not None:
        return f"{source['stuck']} stuck"
    return "no pass yet" if source.get("found") is None else f"{source['found']} stuck at the last pass"


def _memory(store: Row) -> str:
    """Return a text on the memory of Redis: the bytes in use, its limit, and the reserve for nodes and leases."""
    used, most, reserve = (store.get(name) or 0 for name in ("usedBytes", "limitBytes", "reserveBytes"))
    if not most:
        return f"{output.size(used)} in use; Redis has no maxmemory"
    kept = f"{output.size(reserve)} kept for nodes, leases and ends"
    return f"{output.size(used)} of {output.size(most)} in use, {kept}"


def _greatest_holder(holders: list[Row]) -> str:
    """Return a text on the user with most bytes of open tasks; empty when there is none."""
    for holder in holders:
        if holder["kind"] == "tasks" and holder["owner"] == "user":
            return f"; user {output.one_line(str(holder['name']))} holds {output.size(holder['held'])} of open tasks"
    return ""


def _amount(holder: Row, member: str) -> str:
    return output.size(holder[member]) if holder["kind"] in _IN_BYTES else str(holder[member])


_HOLDERS = Listing(
    "holders",
    {
        "WHAT": lambda holder: _IN_BYTES.get(holder["kind"], holder["kind"]),
        "OWNER": "owner",
        "NAME": "name",
        "HELD": lambda holder: _amount(holder, "held"),
        "AT MOST": lambda holder: _amount(holder, "limit"),
        "SHARE": lambda holder: f"{100 * holder['held'] / holder['limit']:.0f} %",
    },
    numbers=("HELD", "AT MOST", "SHARE"),
)
