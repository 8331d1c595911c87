"""The steps of a pass, one after the other: a failure in one skips no other."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from hub.errors import StoreFull, StoreUnavailable
from hub.observability import metrics
from hub.observability.logs import get_logger

_log = get_logger("hub.sweeping")


class Counted(Protocol):
    """The numbers of a pass, errors included."""

    errors: int


P = TypeVar("P", bound=Counted)


async def in_turn(service: str, done: P, *steps: Callable[[P], Awaitable[None]]) -> None:
    """Run the steps; log failures and count them in `done`. Raises `StoreUnavailable`, which ends the pass."""
    for step in steps:
        try:
            await step(done)
        except Exception as error:  # the next step must come, also where Redis is full: it may free something
            if isinstance(error, StoreUnavailable) and not isinstance(error, StoreFull):
                raise
            done.errors += 1
            metrics.sweep_errors.labels(service).inc()
            _log.error(
                "sweep step failed", service=service, step=getattr(step, "__name__", "").strip("_"), why=repr(error)
            )
