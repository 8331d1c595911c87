"""The server: uvicorn in one process or several, its settings, and how it stops."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import os
import shutil
import signal
import ssl
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from types import FrameType
from typing import Any

import uvicorn

from hub.api.app import create_app, create_realms
from hub.api.dispatch.realms import Realms
from hub.api.handling.context import Serving
from hub.api.serving.handshakes import HubLoop
from hub.api.serving.private import Multiprocess
from hub.api.serving.protocol import REST_S, HubProtocol
from hub.api.serving.realm_protocol import RealmProtocol
from hub.api.serving.tls import Certificates
from hub.api.serving.upgrades import SocketProtocol, UpgradingProtocol
from hub.api.sockets.sockets import MESSAGE_BYTES, Sockets
from hub.errors import StartRefused
from hub.internal.registry import load_internal_jobs
from hub.observability.logs import configure_logs, get_logger
from hub.observability.tracing import wanted
from hub.recovery.file import declared
from hub.recovery.kinds import open_records
from hub.recovery.models import Source
from hub.recovery.webhook import webhook_url
from hub.settings import BadSetting, Settings, load_settings, mask_url
from hub.settings.addresses import has_password_in_plain_text
from hub.settings.realms import DEFAULT
from hub.settings.served import read_known, serves
from hub.store.connection import open_store
from hub.store.embedded import EmbeddedRedis, find_server
from hub.teams.file import read_teams
from hub.tokens.file import read_tokens
from hub.tokens.oidc import oidc_users

LINGER_S = 1.0  # between refusing borrows and closing the port: load balancers ask /health/ready about that often
GRACEFUL_S = 10  # for requests that are under way when the port is closed
SECRET_MIN = 16  # characters
_log = get_logger("hub.serve")


def take_over(serving: Serving, sockets: Sockets) -> None:
    """Connect a started application with its server: heartbeats may take their short way, and a signal stops the hub in
    two steps."""
    HubProtocol.serving = serving
    HubProtocol.known_hosts = serving.gate.known
    keep_what_is_made()
    refuse_before_stopping(serving, sockets)


def take_over_realms(realms: Realms) -> None:
    """Connect a started hub with realms with its server, as `take_over` does for one application."""
    RealmProtocol.realms = realms
    RealmProtocol.known_hosts = realms.known_hosts
    keep_what_is_made()
    refuse_before_stopping(realms, realms)


def keep_what_is_made() -> None:
    """Tell the garbage collector that all objects of the start stay; it then looks at later objects only, and less
    often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


def refuse_before_stopping(serving: Serving | Realms, sockets: Sockets | Realms) -> None:
    """Change the handlers of SIGTERM and SIGINT: on the first signal the hub refuses new borrows and is not ready any
    more, but takes returns; it stops `LINGER_S` seconds later.

    The handlers that the server has set are called then; on a second signal they are called at once.
    """
    loop = asyncio.get_running_loop()

    def wrap(number: signal.Signals) -> None:
        stop = signal.getsignal(number)

        def handle(given: int, frame: FrameType | None) -> None:
            if serving.stopping:
                loop.call_soon_threadsafe(sockets.hang_up)
                stop(given, frame)  # type: ignore[operator, misc]
                return
            serving.stop()
            _log.info("hub stopping", signal=signal.Signals(given).name, linger_s=LINGER_S)

            def stop_now() -> None:
                sockets.hang_up()  # else the server would wait for the answers to polls
                stop(given, frame)  # type: ignore[operator, misc]

            loop.call_later(LINGER_S, stop_now)

        if callable(stop):
            signal.signal(number, handle)

    wrap(signal.SIGTERM)
    wrap(signal.SIGINT)


def run(settings: Settings) -> int:
    """Serve until SIGTERM or SIGINT, and return the exit code. Raises `StartRefused` for settings or files that cannot
    be used, before the hub listens."""
    try:
        settings.refuse_open_access_beyond_loopback()
        settings.refuse_tls_in_part()
    except BadSetting as error:
        raise StartRefused(str(error)) from None
    if settings.tokens_file:
        read_tokens(settings.tokens_file)  # a bad file is reported once, and not by each of several processes
    if settings.teams_file:
        read_teams(settings.teams_file)
    oidc_users(settings, time.time)
    if settings.tls_cert:
        Certificates(settings)
    load_internal_jobs(settings)
    wanted(os.environ)
    sources = declared(settings)
    webhook_url(settings)
    # An embedded server is started here and runs until the end: worker processes that come and go share it, and a store
    # that cannot be used is reported now, in one sentence.
    read_known(settings)
    serves_default = serves(settings, DEFAULT)
    wants_own = serves_default and not settings.redis_url and find_server()
    embedded = EmbeddedRedis(settings.data_dir) if wants_own else None
    if embedded:
        asyncio.run(embedded.start())
    try:
        if serves_default and (settings.redis_url or sources or settings.grant_replicas):
            asyncio.run(_check_store(settings, sources))
        return _serve(settings)
    finally:
        if embedded:
            asyncio.run(embedded.stop())


async def _check_store(settings: Settings, sources: Sequence[Source]) -> None:
    """Open and close the store and each source, so that one which cannot be opened stops the start. No source is asked
    for records."""
    async with open_store(settings) as store:
        for source in sources:
            await open_records(source, store, settings).close()


def _serve(settings: Settings) -> int:
    if settings.open_access:
        _log.warning("open access", host=settings.host, why="no secret is set: all on this machine may do anything")
    elif not settings.node_secret:
        _log.warning("no node secret", why="HUB_NODE_SECRET is not set: only nodes with tokens of their own register")
    if not settings.open_access:
        _warn_of_weak_secrets(settings)
    if settings.listens_beyond_loopback and not settings.tls_cert:
        why = "secrets can be read on their way: set HUB_TLS_CERT, or let only a proxy with TLS reach this address"
        _log.warning("no tls", host=settings.host, why=why)
    if settings.redis_url and has_password_in_plain_text(settings.redis_url):
        _log.warning("redis without tls", redis=mask_url(settings.redis_url), why="its password can be read on its way")
    if settings.workers > 1:
        return _run_many(settings)
    app = _application(settings)
    server = uvicorn.Server(uvicorn.Config(app, **server_options(settings)))
    server.run()
    return 0 if server.started else 1


def _warn_of_weak_secrets(settings: Settings) -> None:
    """Warn of settings that let in more callers than the operator may expect."""
    secrets = {
        "HUB_RUNNER_SECRET": settings.runner_secret,
        "HUB_NODE_SECRET": settings.node_secret,
        "HUB_ADMIN_SECRET": settings.admin_secret,
    }
    for name, secret in secrets.items():
        members = [member.strip() for member in secret.get_secret_value().split(",")] if secret else []
        if any(0 < len(member) < SECRET_MIN for member in members):
            _log.warning("short secret", setting=name, why=f"fewer than {SECRET_MIN} characters can be guessed")
    if settings.runner_secret and not settings.admin_secret:
        _log.warning("no admin secret", why="HUB_ADMIN_SECRET is not set: HUB_RUNNER_SECRET opens admin calls")
    if settings.anonymous_reads:
        _log.warning(
            "anonymous reads allowed",
            why="HUB_ANONYMOUS_READS is true: every caller that can connect may read the payloads of all tasks",
        )


def _run_many(settings: Settings) -> int:
    """Serve with several processes behind one listening socket. They share nothing but Redis and a folder of
    metrics."""
    folder = tempfile.mkdtemp(prefix="capacity-hub-metrics-")
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder
    os.environ["HUB_WORKERS"] = str(settings.workers)
    config = uvicorn.Config(
        "hub.api.server:worker_app", factory=True, workers=settings.workers, **server_options(settings)
    )
    supervisor = _Supervisor(config, sockets=[config.bind_socket()])
    supervisor.passes_on = any((settings.tokens_file, settings.teams_file, settings.tls_cert, settings.realms_file))
    try:
        supervisor.run()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


def set_bounds(settings: Settings) -> None:
    """Set the bounds of this process: how long a client may keep it waiting, and how many connections there may be."""
    HubProtocol.head_timeout_s = settings.request_headers_timeout_s
    HubProtocol.body_timeout_s = settings.request_timeout_s + REST_S
    HubProtocol.all_open.configure(settings)


class _Supervisor(Multiprocess):
    """uvicorn's supervisor of processes, which passes SIGHUP on to them, so that they read the tokens file and
    certificates again. uvicorn would replace every process instead, which cuts sockets and may stop half way."""

    passes_on = False  # without a file to read again a process has no handler, and SIGHUP would end it

    def handle_hup(self) -> None:
        for process in self.processes:
            if self.passes_on and process.pid is not None:
                os.kill(process.pid, signal.SIGHUP)


def worker_app() -> Any:
    """Return the application of one of several processes, with the settings of its environment. The process ends with
    its supervisor."""
    threading.Thread(target=_end_with_the_supervisor, name="supervisor-watch", daemon=True).start()
    settings = load_settings()
    configure_logs(settings)
    return _application(settings)


def _application(settings: Settings) -> Any:
    set_bounds(settings)
    on_sighup = _read_certificates if settings.tls_cert else None
    if settings.realms_file:
        return create_realms(settings, when_started=take_over_realms, on_sighup=on_sighup)
    return create_app(settings, when_started=take_over, on_sighup=on_sighup)


def _read_certificates() -> None:
    if HubProtocol.certificates is not None:
        HubProtocol.certificates.read_again()


def _tls(settings: Settings, _: uvicorn.Config, __: Callable[[], ssl.SSLContext]) -> ssl.SSLContext:
    """Load the certificates of this process, and return their TLS context. uvicorn calls this once in each process that
    serves."""
    HubProtocol.certificates = Certificates(settings)
    return HubProtocol.certificates.context


def _end_with_the_supervisor() -> None:
    """Wait for the end of the process that started this one, and stop as on SIGTERM then: no other process would stop
    it."""
    supervisor = multiprocessing.parent_process()
    if supervisor is not None:
        supervisor.join()
        os.kill(os.getpid(), signal.SIGTERM)


def server_options(settings: Settings) -> dict[str, Any]:
    """Return the options of uvicorn."""
    return {
        "host": settings.host,
        "port": settings.port,
        "ssl_context_factory": partial(_tls, settings) if settings.tls_cert else None,
        "http": RealmProtocol if settings.realms_file else UpgradingProtocol,
        "loop": f"{HubLoop.__module__}:{HubLoop.__name__}",
        "ws": SocketProtocol,
        "ws_max_size": MESSAGE_BYTES,
        "ws_ping_interval": None,  # Socket.IO sends its own pings
        "ws_per_message_deflate": False,  # events are short, and a compressor takes 32 kB per connection
        "lifespan": "on",
        "log_config": None,
        "access_log": False,
        "proxy_headers": False,
        "server_header": False,
        "date_header": False,
        "timeout_keep_alive": int(settings.keep_alive_timeout_s),
        "timeout_graceful_shutdown": GRACEFUL_S,
        "timeout_worker_healthcheck": 30,  # a process that is still importing, on a busy machine, does not answer
    }
