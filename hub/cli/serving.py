"""`hub serve`: the hub itself."""

from __future__ import annotations

import os
import signal
from types import FrameType

from hub.observability.logs import configure_logs, get_logger
from hub.settings import load_settings


def serve(overrides: dict[str, object | None]) -> int:
    """Run a hub until it is told to stop; what the command line says goes before the environment. The exit code."""
    # Into the environment of this process: several workers are processes that read it again.
    os.environ.update({name: str(value) for name, value in overrides.items() if value is not None})
    settings = load_settings()
    configure_logs(settings)
    log = get_logger("hub.serve")
    log.info("settings", env_file=str(settings.env_file or "none"), **settings.masked())
    for note in settings.notes:
        log.warning("setting", note=note)
    from hub.api.server import run  # the logs above come first, also when an import of a broken installation fails

    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, _end)
    try:
        return run(settings)
    except SystemExit as ended:  # the server's own codes say no more than its log does
        return 1 if ended.code else 0


def _end(signum: int, frame: FrameType | None) -> None:
    """Told to stop before the server listens to signals itself, or once more when it has stopped: no failure."""
    raise SystemExit(0)
