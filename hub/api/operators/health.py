"""The endpoints for health, readiness, metrics and diagnostics."""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import APIRouter, Depends, Request
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest, multiprocess
from starlette.datastructures import State
from starlette.responses import Response

from hub import __version__
from hub.api.capacity.pools import state
from hub.api.handling import context, request_counts
from hub.api.handling.context import in_ms
from hub.api.inputs import Hub, Serving, serving_of
from hub.api.operations import EVERYTHING, Raw, operation
from hub.api.realms.others import ServedRealms
from hub.api.realms.subjects import NAMED
from hub.api.shapes.answer import Answer
from hub.api.shapes.operators import (
    DiagnosticsShape,
    EnvironmentShape,
    HealthShape,
    HubConfigShape,
    HubLiveShape,
    HubReadyShape,
    ReadyShape,
    RedisHealthShape,
)
from hub.errors import StoreFault, StoreUnavailable, Unavailable
from hub.observability import metrics
from hub.observability.realms import AllRealms
from hub.recovery.alerts import LEVELS
from hub.recovery.leadership import known_sources
from hub.settings import mask_url, own_variables
from hub.settings.realms import DEFAULT
from hub.store.lenient import read_each
from hub.tokens.secrets import ADMIN, HEADER, NODE, RUNNER

router = APIRouter(tags=["operations"])
COUNTED_S = 1.0  # the greatest age of counts that callers without a secret are shown
HELD_MAX = 1000  # the most claimed or running tasks that are counted by job
SEEN_S = 120  # a node heard within this time makes the hub ready


class StoreBreaker:
    """A circuit breaker for the health check: after `threshold` errors in a row, or one lost connection, Redis is not
    asked again until a cooldown of `cooldown_s` seconds is over."""

    def __init__(self, threshold: int, cooldown_s: float) -> None:
        self._threshold = threshold
        self._cooldown_s = cooldown_s
        self._errors = 0
        self._open_until = 0.0

    @property
    def is_open(self) -> bool:
        return time.monotonic() < self._open_until

    def failed(self, *, disconnected: bool) -> None:
        self._errors += 1
        if disconnected or self._errors >= self._threshold:
            self._open_until = time.monotonic() + self._cooldown_s
            self._errors = 0

    def succeeded(self) -> None:
        self._errors, self._open_until = 0, 0.0


@router.get("/health", **operation("getHealth", (), about=EVERYTHING))
async def health(request: Request, serving: Serving) -> Answer[HealthShape]:
    """Return whether Redis answers a ping, and how fast."""
    breaker: StoreBreaker = request.app.state.breaker
    if breaker.is_open:
        raise StoreUnavailable("Redis does not answer.")
    started = time.monotonic()
    try:
        async with asyncio.timeout(serving.hub.settings.redis_health_timeout_ms / 1000):
            await serving.hub.store.ping()
    except TimeoutError:
        raise StoreUnavailable("Redis did not answer in time.") from None
    except StoreUnavailable as error:
        breaker.failed(disconnected=isinstance(error.__cause__, OSError))
        raise
    breaker.succeeded()
    return Answer(
        HealthShape(status="ok", redis=RedisHealthShape(pingMs=round((time.monotonic() - started) * 1000, 2)))
    )


def _ready(request: Request) -> context.Serving:
    """Return the `Serving` of the application; raises `Unavailable` when the hub stops."""
    found = serving_of(request)
    if found.stopping:
        raise Unavailable("The hub is stopping.", retry_after_s=30)
    return found


ReadyServing = Annotated[context.Serving, Depends(_ready)]


@router.get("/health/ready", **operation("getHubReadiness", (), about=EVERYTHING))
async def health_ready(request: Request, serving: ReadyServing) -> Answer[HubReadyShape]:
    """Tell load balancers whether this hub takes requests and Redis answers; free slots do not matter.

    A hub with realms is ready when the store of one realm answers; `realms` has the state of each.
    """
    realms: ServedRealms | None = request.app.state.realms
    if realms is None or request.scope.get(NAMED) is not None:
        await serving.hub.store.read("PING")
        return Answer(HubReadyShape(status="ready"))
    await realms.look()
    states = {part.name or DEFAULT: "away" if part.error else "ready" for part in realms.parts.values()}
    if "ready" not in states.values():
        raise StoreUnavailable("No store of any realm answers.")
    return Answer(HubReadyShape(status="ready", realms=states))


@router.get("/health/live", **operation("getLiveness", (), about=EVERYTHING))
async def health_live() -> Answer[HubLiveShape]:
    """Tell a supervisor that this process answers, with or without Redis."""
    return Answer(HubLiveShape(status="live"))


@dataclass
class SlotCounts:
    """The number of slots in all pools, of those that are lent and free, and the pools under maintenance."""

    total: int = 0
    lent: int = 0
    free: int = 0
    pools: int = 0
    maintenance: list[str] = field(default_factory=list)


class Readiness:
    """The counts over all pools, whose cost grows with the number of pools. Callers without a secret get counts of up
    to a second ago."""

    def __init__(self) -> None:
        self._counted_at = -math.inf
        self._counts: tuple[int, SlotCounts] = (0, SlotCounts())
        self._counting = asyncio.Lock()

    async def counts(self, hub: Hub, *, fresh: bool) -> tuple[int, SlotCounts]:
        """Return the number of nodes heard within two minutes, and the counts of slots."""
        if fresh:
            return await hub.nodes.heard_within(SEEN_S), await count_slots(hub)
        async with self._counting:
            if time.monotonic() - self._counted_at >= COUNTED_S:
                self._counts = await hub.nodes.heard_within(SEEN_S), await count_slots(hub)
                self._counted_at = time.monotonic()
            return self._counts


async def count_slots(hub: Hub) -> SlotCounts:
    """Count the slots of all pools."""
    found, offset = SlotCounts(), 0
    while True:
        found.pools, labels = await hub.pools.labels(offset, 1000)
        for pool in await hub.pools.describe(labels):
            found.total += pool.published
            found.lent += pool.lent
            found.free += pool.free
            found.maintenance += [pool.label] if pool.maintenance else []
        offset += 1000
        if offset >= found.pools:
            return found


@router.get("/ready", **operation("getReadiness", ()))
async def ready(request: Request, serving: ReadyServing) -> Answer[ReadyShape]:
    """Return whether a borrow could succeed: a node was heard within two minutes and a slot is free.

    Without a secret the answer may be a second old.
    """
    readiness: Readiness = request.app.state.readiness
    is_known = serving.secrets.accepts(request.headers.get(HEADER, ""), RUNNER, NODE, ADMIN)
    workers, slots = await readiness.counts(serving.hub, fresh=is_known)
    if not (workers and slots.free):
        raise Unavailable("No node was heard within 2 minutes." if not workers else "No slot is free.")
    return Answer(
        ReadyShape(status="ready", workers=workers, total=slots.total, borrowed=slots.lent, available=slots.free)
    )


@router.get(
    "/metrics", **operation("getMetrics", (), raw=Raw("text/plain", "hub_nodes_registered 40\n"), about=EVERYTHING)
)
async def show_metrics(request: Request) -> Response:
    """Return the metrics as Prometheus text. Gauges of the store are read for this call; while the store is away they
    keep their last value."""
    serving_of(request)
    realms: ServedRealms | None = request.app.state.realms
    if realms is None:
        await _read_gauges(request.app.state)
    else:
        await realms.each(_read_gauges)
    request_counts.flush()
    registry = metrics.registry
    if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
        registry = CollectorRegistry()
        multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        registry.register(metrics.queue_length)
        registry.register(metrics.pending_tasks)
        registry.register(metrics.jobs_at_work)
        registry.register(metrics.zombies)
    return Response(generate_latest(AllRealms(registry) if realms else registry), media_type=CONTENT_TYPE_LATEST)


async def _read_gauges(state: State) -> None:
    """Set the gauges of one realm: those of its store, and those of the sources of records that this hub has
    declared."""
    try:
        await _refresh(state.serving.hub)
        await _refresh_zombies(state.serving.hub, state.sources)
    except StoreUnavailable:
        metrics.store_up.set(0)


async def _refresh(hub: Hub) -> None:
    keys = hub.store.keys
    nodes, sessions, brake, workers, jobs, later, dead, unwell, paused, classes, *lines = await hub.store.read_all(
        [
            ("SCARD", keys.nodes), ("ZCARD", keys.deadlines), ("HGET", keys.brake, "state"),
            ("ZCARD", keys.worker_beats), ("ZCARD", keys.heads), ("ZCARD", keys.later), ("ZCARD", keys.dead),
            ("ZCARD", keys.unwell), ("HLEN", keys.hooks_paused), ("SCARD", keys.classes), ("SCARD", keys.all_lines),
            ("ZCARD", keys.bundles), ("SCARD", keys.reserved),
        ]
    )  # fmt: skip
    with suppress(StoreFault):  # fakeredis keeps no statistics
        functions = (await hub.store.read("INFO", "commandstats")).get("cmdstat_fcall", {})
        metrics.script_calls.set(functions.get("calls", 0))
        metrics.script_seconds.set(functions.get("usec", 0) / 1e6)
    metrics.nodes_registered.set(nodes)
    metrics.sessions.set(sessions)
    metrics.brake_engaged.set(brake == "engaged")
    metrics.workers_registered.set(workers)
    metrics.jobs_waiting.set(jobs)
    metrics.tasks_put_off.set(later)
    metrics.dead_letters.set(dead)
    metrics.slots_not_fresh.set((await hub.pools.unfresh()).number)
    metrics.slots_unwell.set(unwell)
    metrics.slot_classes.set(classes)
    metrics.wanted_lines.set(lines[0])
    metrics.bundles_waiting.set(lines[1])
    metrics.bundle_slots_reserved.set(lines[2])
    hooks = await hub.hooks.all()
    metrics.hook_messages_waiting.set(sum(int(each["waiting"]) for each in hooks))
    metrics.hooks_paused.set(paused)
    await _refresh_queue(hub)
    await _refresh_tasks(hub)
    await _refresh_teams(hub)
    _, labels = await hub.pools.labels(0, metrics.LABELS_MAX)
    for pool in await hub.pools.describe(labels):
        shown = metrics.bounded(pool.label)
        metrics.pool_available.labels(shown).set(pool.free)
        both = pool.free + pool.lent
        metrics.pool_utilization.labels(shown).set(pool.lent / both if both else 0)


async def _refresh_queue(hub: Hub) -> None:
    keys = hub.store.keys
    waiting = await hub.store.read("ZRANGE", keys.turns, 0, metrics.LABELS_MAX - 1)
    lengths = await read_each(hub.store, (("ZCARD", keys.queue(label)) for label in waiting), 0)
    shown: Counter[str] = Counter()
    for label, length in zip(waiting, lengths, strict=True):
        shown[metrics.bounded(label)] += length
    metrics.queue_length.numbers = shown


async def _refresh_teams(hub: Hub) -> None:
    shown: dict[tuple[str, str], tuple[int, int]] = {}
    for each in await hub.teams.counts():
        pair = metrics.bounded_team(each.team, each.pattern)
        held, waiting = shown.get(pair, (0, 0))
        shown[pair] = held + each.held, waiting + each.waiting
    metrics.teams.numbers = shown


async def _refresh_tasks(hub: Hub) -> None:
    """Set the gauges of tasks by job, for the jobs whose first task has waited longest. The cost depends on the number
    of jobs, not of tasks."""
    keys = hub.store.keys
    heads = await hub.store.read("ZRANGE", keys.heads, 0, metrics.LABELS_MAX - 1, "WITHSCORES")
    lengths = await read_each(hub.store, (("ZCARD", keys.job_queue(full)) for full, _ in heads), 0)
    now_s, shown = hub.store.wall_s(), dict[str, tuple[float, ...]]()
    for (full, score), length in zip(heads, lengths, strict=True):
        if length:  # else its last task was claimed meanwhile
            job = metrics.bounded_job(full)
            pending, age_s = shown.get(job, (0, 0.0))
            shown[job] = pending + length, max(age_s, now_s - float(score) / 1e6)
    metrics.pending_tasks.numbers = shown
    count, ids = await hub.store.read_all([("ZCARD", keys.held_tasks), ("ZRANGE", keys.held_tasks, 0, HELD_MAX - 1)])
    metrics.tasks_held.set(count)
    held = Counter(filter(None, await read_each(hub.store, [("HGET", keys.task(task), "job") for task in ids])))
    jobs = list(dict.fromkeys([*(full for full, _ in heads), *held]))
    workers = await read_each(hub.store, (("SCARD", keys.job_workers(full)) for full in jobs), 0)
    at_work: dict[str, tuple[float, ...]] = {}
    for full, serving_it in zip(jobs, workers, strict=True):
        job = metrics.bounded_job(full)
        others, more = at_work.get(job, (0, 0))
        at_work[job] = others + held[full], more + serving_it
    metrics.jobs_at_work.numbers = at_work


async def _refresh_zombies(hub: Hub, sources: Sequence[str]) -> None:
    """Set the gauges of stuck records to what the last pass over each source found, by whichever hub, also for sources
    that this hub has not declared. For a source without a pass the gauge of its age counts from when the source became
    known."""
    keys = hub.store.keys
    known = await known_sources(hub.store)
    names = list(dict.fromkeys([*sources, *known]))
    noted = await hub.store.read_all(("HMGET", keys.zombies(name), "found", "level", "at") for name in names)
    metrics.zombies.numbers = {
        name: (int(found), LEVELS.index(level), int(at) / 1000)
        for name, (found, level, at) in zip(names, noted, strict=True)
        if found is not None and level in LEVELS and at is not None
    }
    metrics.zombies.unseen = {name: at for name, at in known.items() if name not in metrics.zombies.numbers}


@router.get("/diagnostics", **operation("getDiagnostics", (ADMIN,)))
async def diagnostics(hub: Hub) -> Answer[DiagnosticsShape]:
    """Return the settings of this hub and the nodes it knows."""
    settings = hub.settings
    config = HubConfigShape(
        redisUrl=mask_url(settings.redis_url or "embedded"),
        borrowTrailingFallback=hub.agreed.holds.trailing,
        borrowPrefixExpand=hub.agreed.holds.prefix,
        borrowWildcards=hub.agreed.holds.wildcards,
        nodeTimeoutSeconds=hub.nodes.timeout_ms / 1000,
        dashboardUrl=settings.dashboard_url,
        version=__version__[:15],
    )
    return Answer(DiagnosticsShape(hubConfig=config, workers=(await state(hub, 0, 1))["workers"], now=in_ms(hub, 0)))


@router.get("/diagnostics/env", **operation("getEnvironment", (ADMIN,)))
async def diagnostics_env(hub: Hub) -> Answer[EnvironmentShape]:
    """Return the hub's own variables in the environment of this process, without secrets."""
    return Answer(EnvironmentShape(env=own_variables(), now=in_ms(hub, 0)))
