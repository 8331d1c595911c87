"""A worker of the hub: `hub_starts.py URL` prints where to submit tasks, and the time at which it starts each."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from typing import Any

from hub.client.jobs import Worker

ROOM, CATEGORY, NAME = "bench", "modifiers", "Noop"


async def main(url: str) -> None:
    worker = Worker(url, os.environ["TOKEN"], concurrency=1)

    @worker.job(CATEGORY, NAME)
    async def noop(_payload: Any, _task: Any) -> None:
        print(time.time(), flush=True)

    async with worker:
        print(f"/v1/joblib/rooms/{ROOM}/tasks/@global:{CATEGORY}:{NAME}", flush=True)
        await worker.ended()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
