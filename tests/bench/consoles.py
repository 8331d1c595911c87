"""Open consoles without a browser: each has a login and the stream of events, and makes the calls that a real one made.

`python -m tests.bench.consoles URL SECRET MANY` reads the calls from its input, says `ready` when all have begun, and
goes on until it is ended. It speaks HTTP by hand, for it shares its core with Redis and with the load.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import sys
from urllib.parse import urlsplit

GOOD = range(200, 300)


class Connection:
    """A connection of a browser to the hub."""

    def __init__(self, url: str, cookie: str = "") -> None:
        self._where = urlsplit(url)
        self._cookie = cookie
        self._lock = asyncio.Lock()

    async def open(self) -> Connection:
        assert self._where.hostname
        self._reader, self._writer = await asyncio.open_connection(self._where.hostname, self._where.port)
        return self

    async def ask(self, method: str, path: str, body: bytes = b"") -> str:
        """The head of the answer, once it is here whole; raises `AssertionError` for a refusal."""
        async with self._lock:
            head = await self._head(method, path, body)
            length = re.search(r"(?i)content-length: (\d+)", head)
            await self._reader.readexactly(int(length[1]) if length else 0)
            return head

    async def follow(self, path: str, begun: asyncio.Semaphore) -> None:
        """Take what comes, until the end."""
        await self._head("GET", path, b"")
        begun.release()
        while await self._reader.read(65_536):
            pass

    async def _head(self, method: str, path: str, body: bytes) -> str:
        said = (
            f"{method} {path} HTTP/1.1\r\nhost: {self._where.netloc}\r\ncookie: {self._cookie}\r\nx-hub-console: 1\r\n"
        )
        said += f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        self._writer.write(said.encode() + body)
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode()
        assert int(head.split(" ")[1]) in GOOD, head
        return head


async def look(url: str, secret: str, calls: dict[str, float], begun: asyncio.Semaphore) -> None:
    """One console: `calls` is path -> calls per second."""
    door = await Connection(url).open()
    head = await door.ask("POST", "/console/session", json.dumps({"secret": secret}).encode())
    found = re.search(r"(?i)set-cookie: ([^;]+)", head)
    assert found, head
    cookie = found[1]
    asked, followed = await Connection(url, cookie).open(), await Connection(url, cookie).open()
    async with asyncio.TaskGroup() as together:
        for path, rate in calls.items():
            together.create_task(_ask(asked, path, 1 / rate))
        together.create_task(followed.follow("/events", begun))


async def _ask(connection: Connection, path: str, every_s: float) -> None:
    await asyncio.sleep(random.uniform(0, every_s))
    while True:
        await connection.ask("GET", path)
        await asyncio.sleep(every_s)


async def main(url: str, secret: str, many: str) -> None:
    """Open so many."""
    calls: dict[str, float] = json.loads(sys.stdin.readline())
    begun = asyncio.Semaphore(0)
    consoles = [asyncio.create_task(look(url, secret, calls, begun)) for _ in range(int(many))]
    for _ in consoles:
        await begun.acquire()
    print("ready", flush=True)
    await asyncio.gather(*consoles)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
