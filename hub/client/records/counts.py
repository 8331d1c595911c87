"""What a loop counts, and the lines it logs: one event, one line of `key=value`."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from typing import Any

log = logging.getLogger("hub.client")


@dataclass
class Counts:
    """What became of the records of one `process`."""

    claimed: int = 0
    done: int = 0
    failed: int = 0
    """Marked as failed: their handler raised or took too long, or there was no session for it."""
    returned: int = 0
    """Given back, to be claimed again: not started, cancelled, or their handler's writes were lost."""
    lost: int = 0
    """Somebody else had changed them meanwhile: nothing was written."""
    parked: int = 0
    """Their outcome waits in Redis until the database is back."""
    settled: int = 0
    """Parked outcomes, of whomever, that were written."""
    zombies: int = 0
    """Left as they are: nobody could write what became of them, and recovery finds them."""
    refusals: int = 0
    """Sessions that could not be had."""


def say(level: int, event: str, **facts: Any) -> None:
    """Log an event; the facts stand in the line, and are attributes of the log record."""
    log.log(level, "%s %s", event, " ".join(f"{name}={_shown(value)}" for name, value in facts.items()), extra=facts)


def reason(error: BaseException) -> str:
    """What it is and what it says, if it can say something."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception as trouble:  # noqa: BLE001 - of somebody else's making, and handed on
        return f"{type(error).__name__}, which cannot be shown: {type(trouble).__name__}"


def _shown(value: Any) -> str:
    text = str(value)
    return text if text and text.isprintable() and not set(text) & set(' "=\\') else json.dumps(text)
