"""`hub serve`: runs a hub."""

from __future__ import annotations

import errno
import os
import signal
import socket
from types import FrameType
from typing import Annotated

import typer

from hub.cli.inputs import Usage
from hub.errors import StartRefused
from hub.observability.logs import configure_logs, get_logger
from hub.settings import load_settings


def serve(
    host: Annotated[
        str | None, typer.Option(metavar="HOST", help="The address to listen on. Default: HUB_HOST, then 127.0.0.1.")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65_535, help="The port to listen on; 0 is a free one. Default: HUB_PORT, then 8080."),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, max=256, help="The number of processes. Default: HUB_WORKERS, then 1.")
    ] = None,
    realm: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help="The realms to serve, comma-separated. Default: HUB_REALMS, then all."),
    ] = None,
    tls_cert: Annotated[
        str | None, typer.Option(metavar="FILE", help="The certificate of the hub. Default: HUB_TLS_CERT.")
    ] = None,
    tls_key: Annotated[
        str | None, typer.Option(metavar="FILE", help="The key of the certificate. Default: HUB_TLS_KEY.")
    ] = None,
    tls_client_ca: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="The authorities that sign certificates of callers. Default: HUB_TLS_CLIENT_CA."
        ),
    ] = None,
) -> int:
    """Run a hub until SIGTERM or Ctrl-C."""
    if host is not None and not host.strip():
        raise Usage("--host is empty.")
    files = {"HUB_TLS_CERT": tls_cert, "HUB_TLS_KEY": tls_key, "HUB_TLS_CLIENT_CA": tls_client_ca}
    return _serve({"HUB_HOST": host, "HUB_PORT": port, "HUB_WORKERS": workers, "HUB_REALMS": realm, **files})


def _serve(overrides: dict[str, object | None]) -> int:
    """Run a hub until a signal, with options of the command line in place of variables; return the exit code."""
    # Set in the environment of this process: with several server processes, each of them reads it again.
    os.environ.update({name: str(value) for name, value in overrides.items() if value is not None})
    settings = load_settings()
    configure_logs(settings)
    _check_port(settings.host, settings.port)
    log = get_logger("hub.serve")
    log.info("hub starting", env_file=str(settings.env_file or "none"), **settings.changed())
    for note in settings.notes:
        log.warning("setting problem", note=note)
    from hub.api.server import run  # after the logs above, so that they are printed even if this import fails

    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, _end)
    try:
        return run(settings)
    except SystemExit as ended:  # the log of the server has said more than its exit codes
        return 1 if ended.code else 0


def _check_port(host: str, port: int) -> None:
    """Raise `StartRefused` for a port that is in use, before a store or a process is started."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                return  # the server itself refuses the address
            raise StartRefused(f"Port {port} of {host} is taken; name another with --port or HUB_PORT.") from None


def _end(signum: int, frame: FrameType | None) -> None:
    """Exit with 0 on a signal that comes before the server handles signals itself, or after it has stopped."""
    raise SystemExit(0)
