"""The steps of a pass, run one after the other; a step that fails does not keep the later ones from running."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from hub.errors import StoreFull, StoreUnavailable
from hub.observability import metrics
from hub.observability.logs import get_logger

_log = get_logger("hub.sweeping")


@dataclass
class Sweep:
    """The result of one pass: how many records were looked at and how many were ended, removed or failed; errors."""

    scanned: int = 0
    expired: int = 0
    errors: int = 0
    elapsed_ms: float = 0

    def facts(self) -> dict[str, Any]:
        """Return the fields of the log line that sums up the pass."""
        return asdict(self)


P = TypeVar("P", bound=Sweep)


async def in_turn(service: str, done: P, *steps: Callable[[P], Awaitable[None]]) -> None:
    """Run the steps in turn; log and count failed ones. Raises `StoreUnavailable`, which ends the pass."""
    for step in steps:
        try:
            await step(done)
        except Exception as error:  # the next step must run, also if Redis is full: it may free memory
            if isinstance(error, StoreUnavailable) and not isinstance(error, StoreFull):
                raise
            done.errors += 1
            metrics.sweep_errors.labels(service).inc()
            _log.error(
                "sweep step failed", service=service, step=getattr(step, "__name__", "").strip("_"), why=repr(error)
            )
