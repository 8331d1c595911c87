"""`hub status`: how the fleet is, once, in one sentence and some figures."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Final

from hub.cli import output, tables
from hub.cli.options import AsJson, Secret, Url
from hub.cli.reach import Address, address, plain_logs, reach

_CODES: Final = {"warning": 3, "critical": 4}  # 1 and 2 say that nobody knows


def status(as_json: AsJson = False, url: Url = None, secret: Secret = None) -> int:
    """Say how the fleet is, and name every trouble. Exit codes: 0 all is well, 3 a warning, 4 something critical."""
    plain_logs()
    return asyncio.run(_status(address(url, secret, "look"), as_json))


async def _status(at: Address, as_json: bool) -> int:
    async with reach(at) as hub:
        seen = await hub.get("console", "overview")
    if as_json:
        output.put_json(seen)
    else:
        output.put(output.one_line(str(seen.get("sentence"))))
        for trouble in seen.get("troubles") or ():
            said = f"{trouble.get('level')}: {trouble.get('title')}. {trouble.get('text')}"
            output.put(f"  {output.one_line(said)}")  # it may name who switched something, in his own words
        tables.put_facts(_facts(seen))
    return max((_CODES.get(str(each.get("level")), 0) for each in seen.get("troubles") or ()), default=0)


def _facts(seen: dict[str, Any]) -> Iterable[tuple[str, Any]]:
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
            f"{output.one_line(str(source.get('name')))}: {source.get('found')} stuck, {source.get('level')}",
        )
    yield "HUBS", seen.get("hubs")
