"""A service in a process of its own that resets batch after batch: `python -m tests.recovery.resetting SOURCE`."""

from __future__ import annotations

import asyncio
import sys

from hub.recovery.models import SqlSource
from hub.recovery.sql import SqlRecords


async def main(source: SqlSource) -> None:
    """Begins with a line on its input and ends when nothing is left; prints `ready`, and the ids of each batch."""
    records = SqlRecords(source)
    await records.check()
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    while (done := await records.reset()).count:
        print(*done.reset, flush=True)
    await records.close()


if __name__ == "__main__":
    asyncio.run(main(SqlSource.model_validate_json(sys.argv[1])))
