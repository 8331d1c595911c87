"""`hub serve`: the hub itself."""

from __future__ import annotations

import os

from hub.observability.logs import configure_logs, get_logger
from hub.settings import load_settings


def serve(overrides: dict[str, object | None]) -> int:
    """Run a hub until it is told to stop; what the command line says goes before the environment. The exit code."""
    # Into the environment of this process: several workers are processes that read it again.
    os.environ.update({name: str(value) for name, value in overrides.items() if value is not None})
    settings = load_settings()
    configure_logs(settings)
    log = get_logger("hub.serve")
    log.info("settings", **settings.masked())
    for note in settings.notes:
        log.warning("setting", note=note)
    from hub.api.server import run  # the logs above come first, also when an import of a broken installation fails

    return run(settings)
