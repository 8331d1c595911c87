"""A trial of a fleet file: each slot is started, checked and stopped once, without a hub."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from hub.fleet.file import FleetFile
from hub.fleet.fleet import Fleet
from hub.fleet.place import Home
from hub.fleet.processes import Unwell
from hub.fleet.supervised import Supervised
from hub.retries import now_s

Outcome = dict[str, str]


async def try_out(file: FleetFile, home: Home) -> list[Outcome]:
    """Return for each slot how long it took to start, to be checked and to be stopped, or why that failed."""
    fleet = Fleet(file, home)
    slots = await fleet.plan()
    listed = await asyncio.gather(*(_try(slot) for slot in slots))
    return [*listed, *({"slot": label, "start": "failed", "why": why} for label, why in fleet.troubles().items())]


async def _try(slot: Supervised) -> Outcome:
    outcome = {"slot": slot.place.id, "driver": slot.driver.table.driver}
    try:
        outcome["start"] = await _timed(slot.start())
        outcome["check"] = await _timed(slot.prove())
        outcome["address"] = slot.item().get("endpoint", "")
    except Unwell as unwell:
        outcome |= {"check" if "start" in outcome else "start": "failed", "why": str(unwell)}
    try:
        outcome["stop"] = await _timed(slot.end())
    except Unwell as unwell:
        outcome |= {"stop": "failed", "why": outcome.get("why", str(unwell))}
    return outcome


async def _timed(work: Awaitable[None]) -> str:
    began_s = now_s()
    await work
    return f"{now_s() - began_s:.1f} s"
