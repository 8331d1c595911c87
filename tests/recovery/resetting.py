"""A service in a process of its own that resets batch after batch: its one word is the source."""

from __future__ import annotations

import asyncio
import signal
import sys

from hub.recovery.models import SqlSource
from hub.recovery.sql import SqlRecords


def main() -> None:
    """Prints `ready`, begins with SIGUSR1, prints the ids of each batch, and ends when nothing is left."""
    asyncio.run(_reset(SqlSource.model_validate_json(sys.argv[1])))


async def _reset(source: SqlSource) -> None:
    records = SqlRecords(source)
    await records.check()
    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, told.set)
    print("ready", flush=True)
    await told.wait()
    while (done := await records.reset()).count:
        print(*done.reset, flush=True)
    await records.close()
