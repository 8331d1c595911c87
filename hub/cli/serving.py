"""`hub serve` and `hub internal-worker`: run a hub, and the tasks of this deployment's `@internal` jobs."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
from collections.abc import Callable, Mapping
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING

from typer import Option

from hub.cli.inputs import Usage, given
from hub.cli.options import FILE, SECONDS, Input
from hub.errors import StartRefused
from hub.observability.logs import configure_logs, get_logger
from hub.settings import Settings, load_settings

if TYPE_CHECKING:
    from hub.internal.registry import Executable


def serve(
    host: str | None = Input("HOST").option("The address to listen on. Default: HUB_HOST, then 127.0.0.1."),
    port: int | None = Option(
        None, min=0, max=65_535, help="The port, 0 for a free one. Default: HUB_PORT, then 8080."
    ),
    workers: int | None = Option(None, min=1, max=256, help="The number of processes. Default: HUB_WORKERS, then 1."),
    realm: str | None = Input("NAMES").option("The realms to serve, comma-separated. Default: HUB_REALMS, then all."),
    tls_cert: str | None = FILE.option("The certificate of the hub. Default: HUB_TLS_CERT."),
    tls_key: str | None = FILE.option("The key of the certificate. Default: HUB_TLS_KEY."),
    tls_client_ca: str | None = FILE.option("Authorities of the certificates of callers. Default: HUB_TLS_CLIENT_CA."),
) -> int:
    """Run a hub until SIGTERM or Ctrl-C."""
    if host is not None and not host.strip():
        raise Usage("--host is empty.")
    variables = {"HUB_HOST": host, "HUB_PORT": port, "HUB_WORKERS": workers, "HUB_REALMS": realm}
    variables |= {"HUB_TLS_CERT": tls_cert, "HUB_TLS_KEY": tls_key, "HUB_TLS_CLIENT_CA": tls_client_ca}
    # Set in the environment of this process: with several server processes, each of them reads it again.
    os.environ.update({name: str(value) for name, value in given(variables).items()})
    settings = load_settings()
    configure_logs(settings)
    check_port(settings.host, settings.port, "HUB_PORT")
    log = get_logger("hub.serve")
    log.info("hub starting", env_file=str(settings.env_file or "none"), **settings.changed())
    for note in settings.notes:
        log.warning("setting problem", note=note)
    from hub.api.server import run  # after the logs above, so that they are printed even if this import fails

    return until_signalled(partial(run, settings))


def until_signalled(run: Callable[[], int]) -> int:
    """Run a server of uvicorn, which sends itself the signal that it has stopped on, and return the exit code."""
    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, _end)
    try:
        return run()
    except SystemExit as ended:  # the log of the server has said more than its exit codes
        return 1 if ended.code else 0


def check_port(host: str, port: int, variable: str) -> None:
    """Raise `StartRefused` for a port that is in use, before a store or a process is started."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                return  # the server itself refuses the address
            raise StartRefused(f"Port {port} of {host} is taken; name another with --port or {variable}.") from None


def _end(signum: int, frame: FrameType | None) -> None:
    """Exit with 0 on a signal that comes before the server handles signals itself, or after it has stopped."""
    raise SystemExit(0)


def internal_worker(
    concurrency: int = Option(4, min=1, max=1000, help="Run at most N tasks at once."),
    grace: float = SECONDS.option("The grace period for running tasks at shutdown.", default=20.0),
) -> int:
    """Run tasks of the @internal jobs in HUB_INTERNAL_JOBS until SIGTERM or Ctrl-C. A second Ctrl-C ends it at once."""
    settings = load_settings()
    configure_logs(settings)
    for note in settings.notes:
        get_logger("hub.internal").warning("setting problem", note=note)
    # Imported here: the packages of the store cost half a second.
    from hub.internal.registry import load_internal_jobs
    from hub.store.embedded import find_server

    if not settings.redis_url and not find_server():
        raise StartRefused("HUB_REDIS_URL names no Redis, and no server is installed: there is no store to share.")
    jobs = load_internal_jobs(settings)
    if not jobs:
        raise StartRefused("HUB_INTERNAL_JOBS names no module with @internal jobs: there is nothing to run.")
    return asyncio.run(_work(settings, jobs, concurrency, grace))


async def _work(settings: Settings, jobs: Mapping[str, Executable], concurrency: int, grace_s: float) -> int:
    from hub.cli.child import Signals
    from hub.core import Hub
    from hub.internal.worker import InternalWorker
    from hub.store.connection import open_store

    async with open_store(settings) as store:
        worker = InternalWorker(Hub(store, settings), jobs, concurrency, grace_s)
        with Signals(lambda _: worker.stop()):
            await worker.run()
    return 0
