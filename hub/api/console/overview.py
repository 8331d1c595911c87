"""The overview: what is alive, lent, waited for and wrong at one moment."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import Any, Final, Never

from fastapi import APIRouter, Request
from starlette.datastructures import State
from starlette.responses import Response

from hub.api.callers.credentials import credential
from hub.api.console.health import sentence, troubles
from hub.api.console.losses import lost_and_stale
from hub.api.handling.context import in_ms
from hub.api.inputs import Hub, Serving
from hub.api.operations import unlisted
from hub.api.operators.admin import brake_shape
from hub.api.operators.events import After, EventStream
from hub.api.operators.health import count_slots
from hub.api.operators.memory import memory
from hub.api.paths import AGE_MS
from hub.history.events import wanted
from hub.observability import metrics
from hub.observability.logs import get_logger
from hub.store.lenient import read_each
from hub.store.rounds import rounds
from hub.sweeping.brake import Brake
from hub.teams.models import pattern_of
from hub.tokens.secrets import ADMIN, RUNNER
from hub.wire import to_json

router = APIRouter()
FRESH_S: Final = 1.0  # the greatest age of an overview that is reused
TELL_S: Final = 2.0  # between overviews sent to pages
WANTED_S: Final = 60.0  # overviews are sent for this time after a request; pages ask twice as often
UNWELL_MS: Final = 60_000  # a slot that is held for less may just be started again by its node
_LABELS: Final = 200  # labels of the queue that are checked for a pool
_POOLS: Final = 10  # pools looked up for a label
_UNMANAGED: Final = 1000
_JOBS: Final = 1000
_COUNT_S: Final = 0.5  # to count stuck records; later the count of the last pass is shown
_log = get_logger("hub.api")


class OverviewCache:
    """The last overview, reused for a second."""

    def __init__(self, state: State) -> None:
        self._state = state  # the application's
        self._at = float("-inf")
        self._seen = b""
        self._changes = self._changes_seen = 0
        self._looking = asyncio.Lock()
        self._asked = float("-inf")

    def changed(self) -> None:
        """Make a new overview for all later calls."""
        self._changes += 1

    async def asked(self, hub: Hub) -> tuple[bytes, float]:
        """Return what `seen` returns, and send overviews to pages from now on."""
        self._asked = time.monotonic()
        return await self.seen(hub)

    async def seen(self, hub: Hub) -> tuple[bytes, float]:
        """Return the overview as JSON, and when it was made on the monotonic clock."""
        async with self._looking:
            if time.monotonic() - self._at >= FRESH_S or self._changes_seen != self._changes:
                changes = self._changes
                self._seen = to_json(await _look(hub, self._state))
                self._at, self._changes_seen = time.monotonic(), changes
            return self._seen, self._at

    async def keep_telling(self, found: Serving) -> Never:
        """Send the overview to pages that follow events, until cancelled; make none while no page shows it."""

        async def tell() -> None:
            if found.live.takes_latest and time.monotonic() - self._asked < WANTED_S:
                found.live.tell(partial(_frame, *await self.seen(found.hub)))

        await rounds(TELL_S, tell, _not_told)


def _frame(seen: bytes, at_s: float) -> bytes:
    """Return an event without an id: a page that was cut off resumes after the last event with an id."""
    return b'event: overview\ndata: {"ageMs":%d,"seen":%b}\n\n' % (_age_ms(at_s), seen)


def _age_ms(at_s: float) -> int:
    return int(1000 * (time.monotonic() - at_s))


def _not_told(error: Exception) -> None:
    metrics.unhandled.inc()
    _log.error("overview not sent", why=repr(error))


@router.get("/console/overview", **unlisted(page=True, who=(RUNNER, ADMIN)))
async def overview(request: Request, hub: Hub) -> Response:
    """Return counts, a sentence, and every trouble by name."""
    seen, at_s = await request.app.state.overview.asked(hub)
    return Response(seen, media_type="application/json", headers={AGE_MS: str(_age_ms(at_s))})


@router.get("/console/events", **unlisted(page=True, endless=True, who=(RUNNER, ADMIN)))
async def follow(request: Request, serving: Serving, after: After) -> Response:
    """Stream all events, and the overview every two seconds for a minute after it was requested."""
    return EventStream(serving.live, wanted("", {}), after, await credential(request), latest=True)


async def _look(hub: Hub, state: State) -> dict[str, Any]:
    (
        nodes, slots, queue, tasks, stuck, brakes, sweeper, shared, conflicts, unfresh, unwell, more, hooks
    ) = await asyncio.gather(
        _nodes(hub), _slots(hub), _queue(hub), _tasks(hub), state.stuck.look(hub.store, state.sources, _COUNT_S),
        _brakes(hub), _sweeper(hub), _shared(hub), _conflicts(hub), _unfresh(hub), _unwell(hub), lost_and_stale(hub),
        hub.hooks.stuck(),
    )  # fmt: skip
    seen: dict[str, Any] = {
        "nodes": nodes, "slots": slots, "queue": queue, "tasks": tasks, "stuck": stuck, "brakes": brakes,
        "sweeper": sweeper, "shared": shared, "conflicts": conflicts, "unfresh": unfresh, "unwell": unwell,
        "hooks": [{"id": each["id"], "why": each["paused"]} for each in hooks],
        "guarantees": await _guarantees(hub), **more, "now": in_ms(hub, 0), "store": await memory(hub),
    }  # fmt: skip
    found = troubles(seen)
    return {"sentence": sentence(seen, found), "troubles": [each._asdict() for each in found], **seen}


async def _nodes(hub: Hub) -> dict[str, int]:
    keys, timeout_ms = hub.store.keys, hub.nodes.timeout_ms
    clock_ms = int(await hub.store.read("HGET", keys.store, "clock_ms") or 0)
    registered, beaten, heard, silent, draining = await hub.store.read_all(
        [
            ("SCARD", keys.nodes), ("ZCARD", keys.beats), ("ZCOUNT", keys.beats, clock_ms - timeout_ms // 2, "+inf"),
            ("ZCOUNT", keys.beats, "-inf", f"({clock_ms - timeout_ms}"), ("SCARD", keys.draining),
        ]
    )  # fmt: skip
    counts = {"alive": heard, "suspect": beaten - heard - silent, "silent": silent}
    if registered > beaten:  # unmanaged nodes
        unmanaged = await hub.store.read("ZDIFF", 2, keys.nodes, keys.beats)
        for node in await hub.nodes.describe(unmanaged[:_UNMANAGED]):
            counts["silent" if node.state == "stale" else node.state] += 1
    return {"registered": registered, "draining": draining, **counts, "timeoutSeconds": timeout_ms // 1000}


async def _slots(hub: Hub) -> dict[str, Any]:
    found = await count_slots(hub)
    return {
        "total": found.total, "lent": found.lent, "free": found.free,
        "heldBack": max(0, found.total - found.lent - found.free), "pools": found.pools,
        "maintenance": found.maintenance[:10],
    }  # fmt: skip


async def _queue(hub: Hub) -> dict[str, Any]:
    (labels, waiting, away), named = await asyncio.gather(hub.tickets.counts(), hub.tickets.labels(0, _LABELS))
    queues = await hub.tickets.queues(named, 1)
    since = [ticket.since_ms for queue in queues for ticket in queue.tickets]
    oldest_s = max(0.0, hub.store.wall_s() - min(since) / 1000) if since else None
    queues = [queue for queue in queues if queue.waiting]
    pools = dict(
        zip([each.label for each in queues], await _pools_of(hub, [each.label for each in queues]), strict=True)
    )
    unserved = [label for label, some in pools.items() if some == []]
    capped = [
        queue.label
        for queue in queues
        if 0 < queue.cap <= queue.in_flight or await hub.queue.served_cap(queue.label) is not None
    ]
    others = {label: some for label, some in pools.items() if label not in (*unserved, *capped)}
    ceilings, held = await _at_ceilings(hub, others), await _held_back(hub, others)
    return {
        "labels": labels, "waiting": waiting, "away": away, "oldestSeconds": oldest_s, "unserved": unserved,
        "capped": capped, "ceilings": ceilings, "held": held,
        "full": [label for label in others if label not in (*ceilings, *held)],
    }  # fmt: skip


async def _pools_of(hub: Hub, labels: list[str]) -> list[list[str] | None]:
    """Return pools that may serve each label, free or not; None for a wildcard label, which takes a long search."""
    keys, matching, wanted = hub.store.keys, hub.agreed.holds, []
    commands: list[tuple[Any, ...]] = []
    for label in labels:
        parts = label.split(":")
        short = range(len(parts) - 1, 1, -1) if matching.trailing else ()
        wanted.append([label, *(":".join(parts[:n]) for n in short)])
        commands.append(("ZMSCORE", keys.pools, *wanted[-1]))
        commands.append(("ZRANGE", keys.pools, f"[{label}:", f"({label};", "BYLEX", "LIMIT", 0, _POOLS))
    found = await hub.store.read_all(commands)
    pools: list[list[str] | None] = []
    for label, stems, scores, longer in zip(labels, wanted, found[::2], found[1::2], strict=True):
        some = [stem for stem, score in zip(stems, scores, strict=True) if score is not None]
        some += longer if matching.prefix else []
        pools.append(None if "*" in label.split(":") else some)
    return pools


async def _at_ceilings(hub: Hub, pools: dict[str, list[str] | None]) -> list[str]:
    """Return the labels for which only teams wait that are at their ceilings in all its pools."""
    counts = await hub.teams.counts() if hub.teams.is_used else []
    patterns, full = {each.pattern for each in counts}, {(each.team, each.pattern) for each in counts if each.is_full}
    labels = [label for label, some in pools.items() if some and full]
    lines = await hub.store.read_all([("SMEMBERS", hub.store.keys.line_teams(label)) for label in labels])
    return [
        label
        for label, teams in zip(labels, lines, strict=True)
        if teams and all((team, pattern_of(pool, patterns)) in full for team in teams for pool in pools[label] or ())
    ]


async def _guarantees(hub: Hub) -> list[str]:
    """Return a sentence for each pattern of pools whose guarantees together exceed the slots that are published."""
    return list((await hub.teams.warnings()).values()) if hub.teams.is_used else []


async def _held_back(hub: Hub, pools: dict[str, list[str] | None]) -> list[str]:
    """Return the labels whose pools have slots held back, none lent, and none that its node is making fresh in time."""
    keys = hub.store.keys
    names = sorted({pool for some in pools.values() for pool in some or ()})
    asked = (
        command
        for pool in names
        for command in (("SCARD", keys.pool_slots(pool)), ("LLEN", keys.inuse(pool)), ("LLEN", keys.available(pool)))
    )
    counts = await read_each(hub.store, asked, 0)
    held = {
        pool: slots - lent - free
        for pool, slots, lent, free in zip(names, *(counts[n::3] for n in range(3)), strict=True)
    }
    lent = dict(zip(names, counts[1::3], strict=True))
    idle = [
        label
        for label, some in pools.items()
        if some and not any(lent[pool] for pool in some) and any(held[pool] > 0 for pool in some)
    ]
    refreshing = await hub.pools.refreshing() if idle else set()
    return [label for label in idle if refreshing.isdisjoint(pools[label] or ())]


async def _tasks(hub: Hub) -> dict[str, Any]:
    keys = hub.store.keys
    jobs, workers, dead, later = await hub.store.read_all(
        [
            ("ZRANGE", keys.heads, 0, _JOBS - 1), ("ZCARD", keys.workers), ("ZCARD", keys.dead),
            ("ZCARD", keys.later),
        ]
    )  # fmt: skip
    lengths = await read_each(hub.store, (("ZCARD", keys.job_queue(full)) for full in jobs), 0)
    return {"pending": sum(lengths), "jobsWaiting": len(jobs), "workers": workers, "dead": dead, "later": later}


async def _brakes(hub: Hub) -> dict[str, Any]:
    nodes, workers = await asyncio.gather(
        brake_shape(Brake(hub.store, hub.settings, "nodes")), brake_shape(Brake(hub.store, hub.settings, "workers"))
    )
    return {"nodes": nodes, "workers": workers}


async def _sweeper(hub: Hub) -> dict[str, Any]:
    override, by, at = await hub.clock.read_switch()
    return {
        "expire": hub.settings.sweeper_expire if override is None else override,
        "source": "setting" if override is None else "run-time", "setBy": by, "setAt": at,
        "setting": hub.settings.sweeper_expire,
    }  # fmt: skip


async def _conflicts(hub: Hub) -> list[dict[str, Any]]:
    return [{"slot": each.slot, "node": each.node, "other": each.other} for each in await hub.pools.conflicts()]


async def _unfresh(hub: Hub) -> dict[str, Any]:
    found = await hub.pools.unfresh()
    return {"slots": found.number, "first": [{"slot": slot, "node": node} for slot, node in found.first]}


async def _unwell(hub: Hub) -> dict[str, Any]:
    number, first = await hub.holds.unwell(UNWELL_MS, 3)
    return {"slots": number, "first": [{"slot": slot, "node": of.node, "reason": of.reason} for slot, of in first]}


async def _shared(hub: Hub) -> list[dict[str, Any]]:
    """Return the settings that all hubs share, with the hubs that were given another value."""
    return [{"name": each.name, "agreed": each.agreed, "otherwise": each.otherwise} for each in await hub.agreed.look()]
