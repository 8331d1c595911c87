"""Open consoles without a browser: each has a login and the stream of events, and makes the calls that a real one made.

`python -m tests.bench.consoles URL SECRET MANY` reads the calls from its input, says `ready` when all have begun, and
goes on until it is ended.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from typing import Any

import httpx


async def look(url: str, secret: str, calls: dict[str, float], begun: asyncio.Semaphore) -> None:
    """One console: `calls` is path -> calls per second."""
    async with httpx.AsyncClient(base_url=url, timeout=30) as client:
        headers = {"x-hub-console": "1"}
        (await client.post("/console/session", json={"secret": secret}, headers=headers)).raise_for_status()
        asking = [asyncio.create_task(_ask(client, path, 1 / rate)) for path, rate in calls.items()]
        async with client.stream("GET", "/events", timeout=None) as stream:
            stream.raise_for_status()
            begun.release()
            async for _ in stream.aiter_raw():
                pass
        await asyncio.gather(*asking)


async def _ask(client: httpx.AsyncClient, path: str, every_s: float) -> None:
    await asyncio.sleep(random.uniform(0, every_s))
    while True:
        (await client.get(path)).raise_for_status()
        await asyncio.sleep(every_s)


async def main(url: str, secret: str, many: str) -> None:
    """Open so many."""
    calls: dict[str, Any] = json.loads(sys.stdin.readline())
    begun = asyncio.Semaphore(0)
    consoles = [asyncio.create_task(look(url, secret, calls, begun)) for _ in range(int(many))]
    for _ in consoles:
        await begun.acquire()
    print("ready", flush=True)
    await asyncio.gather(*consoles)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
