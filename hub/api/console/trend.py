"""The last hour in figures, for the charts of the console."""

from __future__ import annotations

from collections import deque
from typing import Final, Never

from fastapi import APIRouter, Request
from starlette.responses import Response

from hub.api.handling.context import in_ms
from hub.api.inputs import Hub
from hub.api.operations import unlisted
from hub.api.operators.health import count_slots
from hub.api.shapes.answer import Answer
from hub.core import Hub as Core
from hub.observability import metrics
from hub.observability.logs import get_logger
from hub.store.rounds import rounds
from hub.tokens.secrets import ADMIN, RUNNER

router = APIRouter()
STEP_S: Final = 10.0
KEPT: Final = 360  # samples: an hour
_log = get_logger("hub.api")


class Trend:
    """How many slots were lent and free and how many borrowers waited in the last hour, as this hub has counted them.
    Every hub counts the same store, so the hubs behind a balancer agree."""

    def __init__(self) -> None:
        self.samples: deque[tuple[int, int, int, int]] = deque(maxlen=KEPT)  # ms since 1970, lent, free, waiting

    async def keep_sampling(self, hub: Core) -> Never:
        """Count every ten seconds, until cancelled."""

        async def sample() -> None:
            slots, (_, waiting, _) = await count_slots(hub), await hub.tickets.counts()
            self.samples.append((int(1000 * hub.store.wall_s()), slots.lent, slots.free, waiting))

        await rounds(STEP_S, sample, _not_sampled)


def _not_sampled(error: Exception) -> None:
    metrics.unhandled.inc()
    _log.error("figures for the charts not read", why=repr(error))


@router.get("/console/trend", **unlisted(page=True, who=(RUNNER, ADMIN)))
async def trend(request: Request, hub: Hub) -> Response:
    """Return the samples of the last hour."""
    return Answer({"samples": list(request.app.state.trend.samples), "now": in_ms(hub, 0)})
