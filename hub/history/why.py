"""The answer of `hub why`: the state of a thing, what happened to it by which rule, and what happens next."""

from __future__ import annotations

from typing import get_args

from hub.core import Hub
from hub.errors import NotFound
from hub.history.events import Wanted
from hub.history.explained import Explanation, Kind, Now
from hub.history.nodes import node_now
from hub.history.reading import FoundEvents, History
from hub.history.schedules import schedule_now
from hub.history.slots import slot_now
from hub.history.tasks import job_now, task_now
from hub.history.tickets import run_now, ticket_ids, ticket_now
from hub.history.workers import worker_now
from hub.jobs.names import dashed, to_id
from hub.store.keys import key_part

KINDS = get_args(Kind)
_IDS = ("task", "worker")  # kinds whose ids are UUIDs, which callers may write with or without hyphens
_NOW = {
    "node": node_now, "slot": slot_now, "ticket": ticket_now, "task": task_now, "worker": worker_now, "job": job_now,
    "schedule": schedule_now,
}  # fmt: skip
# Events of ordinary lending are not shown for a node: they would push out the events about the node itself.
_LENDING = frozenset({"grant.lent", "grant.handed", "grant.returned"})


async def why(hub: Hub, history: History, kind: Kind, given: str, limit: int) -> Explanation:
    """Return the explanation of a thing, with its last `limit` events; raises `NotFound` if nothing is known."""
    for name in _names(kind, given):
        past = await history.find(
            Wanted(names={kind: name}, without=_LENDING if kind == "node" else frozenset()), limit
        )
        now = await _now(hub, kind, name, past)
        if now is not None or past.events:
            return Explanation(kind, dashed(name) if kind in _IDS else name, now or _gone(past), past)
    raise NotFound(f"nothing is known of a {kind} {given}")


def _names(kind: str, given: str) -> tuple[str, ...]:
    if kind == "ticket":
        return ticket_ids(given)
    if kind in _IDS:
        try:
            return (to_id(given.strip()),)
        except ValueError:
            return ()
    if kind == "schedule" and given.count(":") != 1:  # it must be `room:name`
        return ()
    return (key_part(given),) if kind == "slot" else (given,)


async def _now(hub: Hub, kind: str, name: str, past: FoundEvents) -> Now | None:
    return await run_now(hub, name, past) if kind == "run" else await _NOW[kind](hub, name)


def _gone(past: FoundEvents) -> Now:
    last = past.events[0]
    return Now("gone", f"{last.what} at {last.at}: {last.why}" if last.why else f"{last.what} at {last.at}.")
