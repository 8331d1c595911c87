"""The counters and the log lines of a loop; each event is one line of `key=value`."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

log = logging.getLogger("hub.client")


@dataclass
class Counts:
    """The counters of one call of `process(..., counts=counts)`, up to date while it runs. The first eight count
    records by what happened to them, `sessions` and `refusals` requests for a session.
    """

    claimed: int = 0
    done: int = 0
    failed: int = 0
    """Records marked as failed: the handler raised or took too long, or there was no session for it."""
    returned: int = 0
    """Records given back, to be claimed again: not started, cancelled, or the handler's writes were lost."""
    lost: int = 0
    """Records that another program changed meanwhile: nothing was written."""
    parked: int = 0
    """Records whose outcome waits in Redis until the database is back."""
    settled: int = 0
    """Parked outcomes that were written, of any loop."""
    zombies: int = 0
    """Records left unchanged, because their outcome could not be written; recovery finds them."""
    sessions: int = field(default=0, compare=False)
    """Requests for a session."""
    refusals: int = 0
    """Requests that were refused."""
    on_change: Callable[[str, Any], None] | None = field(default=None, compare=False, repr=False)
    """Called with the name of each counter that rises, and the id of the record or None."""

    def add(self, name: str, id: Any = None, some: int = 1) -> None:
        """Add `some` to the counter `name`, and call `on_change` with the name and the id of the record."""
        setattr(self, name, getattr(self, name) + some)
        if self.on_change is not None and some:
            try:
                self.on_change(name, id)
            except Exception as error:  # noqa: BLE001 - an error of `on_change` must not fail the record
                log_event(logging.ERROR, "on_change failed", counted=name, id=id, why=reason(error))

    def numbers(self) -> dict[str, int]:
        """Return all counters by name."""
        return {name: value for name, value in vars(self).items() if name != "on_change"}


def log_event(level: int, event: str, **facts: Any) -> None:
    """Log an event. The facts are in the line as `key=value` and are attributes of the log record."""
    log.log(level, "%s %s", event, " ".join(f"{name}={_shown(value)}" for name, value in facts.items()), extra=facts)


def reason(error: BaseException) -> str:
    """Return the class of an error and its text, or that its text cannot be made."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception as trouble:  # noqa: BLE001 - `str` of a foreign exception may raise anything
        return f"{type(error).__name__}, which cannot be shown: {type(trouble).__name__}"


def _shown(value: Any) -> str:
    text = str(value)
    return text if text and text.isprintable() and not set(text) & set(' "=\\') else json.dumps(text)
