"""`hub status`: how the fleet is, once, in one sentence and some figures."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Final

from hub.cli import global_options, output, tables, usage
from hub.cli.all_realms import each_realm
from hub.cli.connection import Address, address, connect, plain_logs
from hub.cli.options import AsJson, Secret, Url

_CODES: Final = {"warning": 3, "critical": 4}  # 1 and 2 say that nobody knows


def status(as_json: AsJson = False, url: Url = None, secret: Secret = None) -> int:
    """Say how the fleet is, and name every trouble. Exit codes: 0 all is well, 3 a warning, 4 something critical."""
    plain_logs()
    if global_options.realm() == global_options.ALL:
        return asyncio.run(_status_of_all(address(url, secret, "look", of_all=True), as_json))
    return asyncio.run(_status(address(url, secret, "look"), as_json))


async def _status_of_all(at: Address, as_json: bool) -> int:
    """Of each realm a line, side by side; one that does not answer says so in its own."""
    async with connect(at) as hub:
        parts = await each_realm(hub, lambda realm: realm.get("console", "overview"))
    if as_json:
        output.put_json({"realms": [part.facts() | {"status": part.found} for part in parts]})
    else:
        said = [(part.realm, output.one_line(str((part.found or {}).get("sentence") or part.error))) for part in parts]
        tables.put_table(("REALM", "HOW IT IS"), said)
    return max((_code(part.found) for part in parts), default=0)


def _code(seen: dict[str, Any] | None) -> int:
    """The exit code for how a realm is; a realm of which nothing is known is critical."""
    if seen is None:
        return _CODES["critical"]
    return max((_CODES.get(str(each.get("level")), 0) for each in seen.get("troubles") or ()), default=0)


async def _status(at: Address, as_json: bool) -> int:
    async with connect(at) as hub:
        seen = await hub.get("console", "overview")
        holders = [] if as_json else (await hub.get("console", "usage"))["holders"]
    if as_json:
        output.put_json(seen)
    else:
        output.put(output.one_line(str(seen.get("sentence"))))
        for trouble in seen.get("troubles") or ():
            said = f"{trouble.get('level')}: {trouble.get('title')}. {trouble.get('text')}"
            output.put(f"  {output.one_line(said)}")  # it may name who switched something, in his own words
        tables.put_facts(_facts(seen, holders))
    return _code(seen)


def _facts(seen: dict[str, Any], holders: list[dict[str, Any]]) -> Iterable[tuple[str, Any]]:
    nodes, slots, queue, tasks = (seen.get(name) or {} for name in ("nodes", "slots", "queue", "tasks"))
    yield (
        "NODES",
        (
            f"{nodes.get('alive')} alive, {nodes.get('suspect')} suspect, {nodes.get('silent')} silent, "
            f"{nodes.get('draining')} held back by an operator; {nodes.get('registered')} registered"
        ),
    )
    yield "SLOTS", f"{slots.get('lent')} lent, {slots.get('free')} free, {slots.get('heldBack')} held back"
    longest = (
        "" if queue.get("oldestSeconds") is None else f", the longest for {output.duration(queue['oldestSeconds'])}"
    )
    yield "QUEUE", f"{queue.get('waiting')} waiting{longest}"
    yield (
        "TASKS",
        (
            f"{tasks.get('pending')} pending, {output.plural(tasks.get('dead'), 'dead letter')}, "
            f"{output.plural(tasks.get('workers'), 'worker')}"
        ),
    )
    for source in seen.get("stuck") or ():
        yield (
            "RECORDS",
            f"{output.one_line(str(source.get('name')))}: {_stuck(source)}, {source.get('level')}",
        )
    yield "STORE", usage.memory(seen.get("store") or {}) + usage.most_held(holders)
    yield "HUBS", seen.get("hubs")


def _stuck(source: dict[str, Any]) -> str:
    if source.get("stuck") is not None:
        return f"{source['stuck']} stuck"
    return "no pass yet" if source.get("found") is None else f"{source['found']} stuck at the last pass"
