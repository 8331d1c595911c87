"""The wait at the end of a command for the delivery of calls that the hub has not taken yet."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from hub.cli import output
from hub.cli.child import Signals
from hub.client.backlog import EXIT_S, drop_everything, everything_told
from hub.retries import now_s

PATIENCE_S = 30.0  # longer than most restarts of a hub or its store
_LOOK_S = 0.1


@asynccontextmanager
async def late(signals: Signals) -> AsyncIterator[None]:
    """Wait after the block for the delivery of all calls: up to half a minute, or five seconds after an error.

    A signal ends the wait. Calls that are not delivered then are logged and dropped.
    """
    patience_s = EXIT_S
    try:
        yield
        patience_s = PATIENCE_S
    finally:
        if not everything_told():
            await _until_told(signals, patience_s)


async def _until_told(signals: Signals, patience_s: float) -> None:
    told_to_stop = asyncio.Event()
    signals.then = lambda _: told_to_stop.set()
    output.note(f"waiting up to {patience_s:.0f} s for the hub; Ctrl-C ends that.")
    until_s = now_s() + patience_s
    while not everything_told() and not told_to_stop.is_set() and now_s() < until_s:
        with suppress(TimeoutError):
            async with asyncio.timeout(_LOOK_S):
                await told_to_stop.wait()
    drop_everything()
