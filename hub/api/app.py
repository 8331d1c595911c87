"""The application: its routes, its background loops, and how it starts and stops."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from functools import partial
from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from hub import __version__
from hub.api.callers.logins import LoginGate
from hub.api.capacity import (
    autoscaling,
    bundles,
    caps,
    holding,
    joining,
    leases,
    nodes,
    pool_rules,
    pools,
    queue,
    sessions,
    teams,
    using,
    watch,
)  # fmt: skip
from hub.api.console import jobs as console_jobs
from hub.api.console import logins, lookups, oidc, overview, pages, stuck_records, trend
from hub.api.contract.document import document
from hub.api.dispatch import views
from hub.api.dispatch.realms import Realms
from hub.api.handling import request_counts
from hub.api.handling.browsers import Gate
from hub.api.handling.context import Serving
from hub.api.handling.problems import on_http_error, on_hub_error
from hub.api.jobs import dead, jobs, progress, providers, schedules, tasks, workers
from hub.api.operations import Table
from hub.api.operators import (
    admin,
    documentation,
    events,
    health,
    hooks,
    memory,
    shared_settings,
    tokens,
    usage,
    worker_env,
)  # fmt: skip
from hub.api.pipeline import RequestPipeline
from hub.api.realms.spilling import spilling_over
from hub.api.sockets.sockets import Sockets
from hub.core import Hub
from hub.errors import HubError, StartRefused, StoreUnavailable
from hub.history.reading import History
from hub.hooks.delivery import HookDelivery
from hub.internal.registry import load_internal_jobs, offer
from hub.observability.logs import get_logger
from hub.observability.tracing import tracing
from hub.recovery.file import declared
from hub.recovery.kinds import open_records
from hub.recovery.leadership import Leadership
from hub.recovery.levels import Levels
from hub.recovery.models import Source
from hub.recovery.service import RecordSweeperService
from hub.recovery.webhook import Webhook, webhook_url
from hub.settings import Settings
from hub.store.cancelling import cancel_all
from hub.store.connection import open_store
from hub.sweeping.leases import LeaseSweeperService
from hub.sweeping.loop import Pass, SweepLoop
from hub.sweeping.nodes import NodeSweeperService
from hub.sweeping.noted import noted
from hub.sweeping.reconciler import Reconciler
from hub.sweeping.tasks import INTERVAL_S, LINE_S, TaskSweeperService
from hub.sweeping.workers import WorkerSweeperService
from hub.teams.file import TeamsFile
from hub.tokens.file import TokensFile
from hub.tokens.secrets import Secrets

_CAPACITY = (joining, watch, using, holding, nodes, leases, bundles, sessions, queue, autoscaling, pools, teams)
_OPERATORS = (
    admin, caps, pool_rules, shared_settings, tokens, hooks, events, health, views, memory, usage, worker_env,
    documentation,
)  # fmt: skip
_JOBS = (workers, jobs, tasks, progress, schedules, providers, dead)
_CONSOLE = (
    overview,
    trend,
    logins,
    oidc,
    lookups,
    stuck_records,
    console_jobs,
    pages,
)  # `pages` must come last: it takes every other path below /console/
_MODULES = (*_CAPACITY, *_OPERATORS, *_JOBS, *_CONSOLE)
TABLE = Table(route for module in _MODULES for route in module.router.routes)
_ABOUT: dict[str, Any] = {
    "title": "capacity-hub",
    "version": __version__,
    "summary": "Liveness and capacity on Redis: nodes beat, borrowers take slots, what dies gives back what it held.",
    "redirect_slashes": False,
    "docs_url": None,  # FastAPI's own pages fetch scripts from other hosts
    "redoc_url": None,
    "openapi_url": None,  # FastAPI would make the document anew for each request
}
_log = get_logger("hub.api")


def create_app(
    settings: Settings,
    *,
    sweep: bool = True,
    when_started: Callable[[Serving, Sockets], None] | None = None,
    on_sighup: Callable[[], None] | None = None,
    among: Realms | None = None,
    tokens_file: TokensFile | None = None,
) -> RequestPipeline:
    """Return the hub as an ASGI application; with `among`, the part of one realm, which shares the tokens file of the
    other realms. With `sweep=False` the application is for this process alone, such as a command that works straight on
    Redis: it answers calls, but does not sweep, does not advance the hub clock, and no web page can reach it."""
    tokens_file, gate = tokens_file or TokensFile(settings.tokens_file), Gate(settings, is_reached_by_pages=sweep)
    if among is not None:
        gate.known = among.known_hosts
    teams_file = among.teams_file if among else TeamsFile(settings.teams_file)
    internal_jobs = load_internal_jobs(settings) if sweep else {}
    sources = declared(settings) if sweep else []
    posted_to = webhook_url(settings) if sources else None

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with open_store(settings) as store:
            hub = spilling_over(Hub(store, settings), among)
            app.state.serving = Serving(hub, Secrets(settings), tokens_file, gate)
            app.state.sockets, app.state.logins = Sockets(app.state.serving, among), LoginGate(app.state.serving)
            await hub.agreed.agree(speaks=sweep)  # a command does not change what hubs agree on
            await offer(hub, internal_jobs)
            webhook = Webhook(posted_to)
            recovering = _record_sweepers(hub, sources, webhook)
            records = {service.source: service.records for service in recovering}
            app.state.stuck = stuck_records.StuckNow(records, hub.settings)
            jobs = [*_loops(app, recovering), *(await _sweepers(hub, teams_file) if sweep else [])]
            running = [asyncio.ensure_future(_logged(job)) for job in jobs]
            if when_started:
                when_started(app.state.serving, app.state.sockets)
            try:
                with nullcontext() if among else tokens_file.read_again_on_sighup(_also(on_sighup, teams_file)):
                    yield
            finally:
                await app.state.serving.close()
                await app.state.sockets.close()
                await cancel_all(running)
                await asyncio.gather(hub.validation.close(), webhook.close(), *(each.close() for each in recovering))

    app = FastAPI(lifespan=partial(_told, lifespan, sweep and among is None), **_ABOUT)
    app.state.realms = among
    app.state.sources = [source.name for source in sources]
    _furnish(app, settings)
    return RequestPipeline(app, settings, TABLE, gate if sweep else None)


def _also(on_sighup: Callable[[], None] | None, teams_file: TeamsFile) -> Callable[[], None] | None:
    """Return what is called on SIGHUP beside the reading of the tokens file; None for nothing."""
    given = [each for each in (on_sighup, teams_file.read_again if teams_file.path else None) if each]

    def call() -> None:
        for each in given:
            each()

    return call if given else None


def _furnish(app: FastAPI, settings: Settings) -> None:
    """Give an application its routes, its handlers of errors, and the caches that its endpoints keep in its state."""
    app.openapi = lambda: document(routes())  # type: ignore[method-assign]
    app.state.breaker = health.StoreBreaker(settings.redis_breaker_threshold, settings.redis_breaker_cooldown_ms / 1000)
    app.state.readiness = health.Readiness()
    app.state.overview, app.state.trend = overview.OverviewCache(app.state), trend.Trend()
    app.add_exception_handler(HubError, on_hub_error)
    app.add_exception_handler(HTTPException, on_http_error)
    app.add_exception_handler(Exception, on_hub_error)
    for module in _MODULES:
        # The routes themselves: `include_router` would make a copy of each at the first request that passes it.
        app.router.routes += module.router.routes


def create_realms(
    settings: Settings,
    *,
    sweep: bool = True,
    when_started: Callable[[Realms], None] | None = None,
    on_sighup: Callable[[], None] | None = None,
) -> Realms:
    """Return a hub with realms as an ASGI application, with an application of `create_app` for each realm."""

    def make(settings: Settings, tokens_file: TokensFile, realms: Realms) -> RequestPipeline:
        return create_app(settings, sweep=sweep, among=realms, tokens_file=tokens_file)

    return Realms(settings, TABLE, make, when_started=when_started, on_sighup=on_sighup)


def routes() -> list[APIRoute]:
    """Return the route of every operation in the contract."""
    return [row.route for row in TABLE.rows if row.route.include_in_schema]


@asynccontextmanager
async def _told(
    lifespan: Callable[[FastAPI], AbstractAsyncContextManager[None]], traced: bool, app: FastAPI
) -> AsyncIterator[None]:
    """Run `lifespan`, with traces where `traced` asks for them. When the application cannot start, keep the reason in
    its state as `refusal`."""
    started = False
    try:
        if traced:
            tracing.begin()
        async with lifespan(app):
            started = True
            yield
        await asyncio.to_thread(tracing.end)
    except (StartRefused, StoreUnavailable) as error:
        if not started:
            app.state.refusal = str(error)
        raise


async def _sweepers(hub: Hub, teams_file: TeamsFile) -> list[Callable[[], Awaitable[None]]]:
    settings = hub.settings
    hub.teams.follow(teams_file)
    await hub.teams.use_file()
    keep_history = partial(History(hub.store).keep, settings.history_max_entries)
    await keep_history()
    hub.store.when_replaced(keep_history)
    audit = Reconciler(hub.store, settings, hub.pools, hub.holds)
    node_sweeper = NodeSweeperService(hub.store, settings, hub.nodes, hub.clock, audit, hub.audit)
    lease_sweeper = LeaseSweeperService(hub.store, hub.settings, hub.leases, audit, hub.audit)
    worker_sweeper = WorkerSweeperService(hub.store, settings, hub.workers)
    task_sweeper = TaskSweeperService(hub.store, settings, hub.workers)
    for kind, secret in (("runner", settings.runner_secret), ("node", settings.node_secret)):
        if secret:
            await hub.audit.note_secrets(kind, secret.get_secret_value())
    override, by, _ = await hub.clock.read_switch()
    expires = settings.sweeper_expire if override is None else override
    said_by = "HUB_SWEEPER_EXPIRE" if override is None else f"hub expire, by {by}"
    _log.info(
        "sweepers started",
        node_interval_s=settings.node_sweep_interval_s,
        node_timeout_s=hub.nodes.timeout_ms / 1000,
        expire=expires,
        said_by=said_by,
        lease_interval_s=settings.borrow_ttl_sweep_s,
    )
    if not expires:
        why = "nothing dead is removed: set HUB_SWEEPER_EXPIRE=true on every hub, or say hub expire on"
        _log.warning("expiry off", said_by=said_by, why=why)
    return [
        hub.clock.run,
        hub.presence.run,
        hub.usage.run,
        HookDelivery(hub.store, hub.clock, settings.hook_hosts).run,
        _loop("node", settings.node_sweep_interval_s, hub, noted(hub.store, "node", node_sweeper.sweep)),
        _loop("lease", settings.borrow_ttl_sweep_s, hub, noted(hub.store, "lease", lease_sweeper.sweep)),
        _loop("worker", settings.worker_sweep_interval_s, hub, noted(hub.store, "worker", worker_sweeper.sweep)),
        _loop("task", INTERVAL_S, hub, task_sweeper.sweep, line_s=LINE_S),
    ]


def _record_sweepers(hub: Hub, sources: Sequence[Source], webhook: Webhook) -> list[RecordSweeperService]:
    settings = hub.settings
    names = ",".join(source.name for source in sources)
    if not sources:
        return []
    if not settings.zombie_cleanup_enabled:
        _log.warning("recovery off", sources=names, why="HUB_ZOMBIE_CLEANUP_ENABLED is false: nobody is looking")
        return []
    _log.info("recovery started", sources=names, interval_minutes=settings.zombie_cleanup_interval_minutes)
    levels = Levels(hub.store, settings, webhook)
    return [
        RecordSweeperService(hub.store, hub.clock.hub_id, open_records(source, hub.store, settings), levels)
        for source in sources
    ]


def _loops(app: FastAPI, services: Sequence[RecordSweeperService]) -> list[Callable[[], Awaitable[None]]]:
    """Return the background loops of an application besides the sweepers of capacity: those of the queue, request
    counts and overview, and one for each source of records, so that a source that hangs holds up no other."""
    serving: Serving = app.state.serving
    hub, overviews = serving.hub, app.state.overview
    interval_s = hub.settings.zombie_cleanup_interval_minutes * 60
    cleaning = [
        _loop(
            "record", interval_s, hub, noted(hub.store, "record", service.sweep),
            leads=Leadership(hub.store, hub.clock.hub_id, service.source, hub.settings).wait,
            about={"source": service.source},
        )
        for service in services
    ]  # fmt: skip
    telling, sampling = partial(overviews.keep_telling, serving), partial(app.state.trend.keep_sampling, hub)
    shown = [sampling] if hub.settings.console != "off" else []
    rounds = [hub.queue.listen, hub.queue.go_round, hub.rules.go_round, hub.teams.go_round]
    return [*rounds, request_counts.keep_flushing, telling, *shown, *cleaning]


def _loop(
    name: str, interval_s: float, hub: Hub, sweep: Callable[[], Awaitable[Pass | None]], **options: Any
) -> Callable[[], Awaitable[None]]:
    """Return the function that runs a sweeper of this hub every `interval_s` seconds; it logs its passes as
    HUB_SWEEP_LOG asks."""
    return SweepLoop(
        name, interval_s, hub.clock, sweep, only_changes=hub.settings.sweep_log == "changes", **options
    ).run


async def _logged(job: Callable[[], Awaitable[None]]) -> None:
    """Run a background loop, and log its failure. A loop that ends is a bug: without the log a hub would go on without
    sweeping, and nothing would show it."""
    try:
        await job()
    except Exception as error:
        _log.critical("background loop crashed", why=repr(error), exc_info=error)
        raise
