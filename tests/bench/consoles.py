"""Open consoles without a browser: each has a login and the stream of a page, and makes the calls that a real one made.

`python -m tests.bench.consoles URL SECRET MANY` reads the calls from its input, logs in and says `ready`. With the next
line it opens all, with the one after it closes them, and so on; it says `opened` and `closed` when it has. It speaks
HTTP by hand, for it shares its core with Redis and with the load.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import sys
from urllib.parse import urlsplit

GOOD = range(200, 300)
READ_EVERY_S = 5.0  # what came in from the stream of events


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

    def close(self) -> None:
        self._writer.close()

    async def ask(self, method: str, path: str, body: bytes = b"") -> str:
        """Return the head of the answer, once it is here whole; raises `AssertionError` for a refusal."""
        async with self._lock:
            head = await self._head(method, path, body)
            length = re.search(r"(?i)content-length: (\d+)", head)
            await self._reader.readexactly(int(length[1]) if length else 0)
            return head

    async def follow(self, path: str, begun: asyncio.Semaphore) -> None:
        """Take what comes, every few seconds, and leave it to the system meanwhile: to read each piece would take from
        the core of Redis and of the load what browsers, which are elsewhere, do not."""
        await self._head("GET", path, b"")
        begun.release()
        wire = self._writer.transport
        assert isinstance(wire, asyncio.Transport)
        while True:
            wire.pause_reading()
            await asyncio.sleep(READ_EVERY_S)
            wire.resume_reading()
            if not await self._reader.read(65_536):
                raise ConnectionError("the stream of events has ended")

    async def _head(self, method: str, path: str, body: bytes) -> str:
        said = (
            f"{method} {path} HTTP/1.1\r\nhost: {self._where.netloc}\r\ncookie: {self._cookie}\r\nx-hub-console: 1\r\n"
        )
        said += f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        self._writer.write(said.encode() + body)
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode()
        assert int(head.split(" ")[1]) in GOOD, head
        return head


async def log_in(url: str, secret: str) -> str:
    """Return the cookie of a new login."""
    door = await Connection(url).open()
    head = await door.ask("POST", "/console/session", json.dumps({"secret": secret}).encode())
    door.close()
    found = re.search(r"(?i)set-cookie: ([^;]+)", head)
    assert found, head
    return found[1]


async def look(url: str, cookie: str, calls: dict[str, float], begun: asyncio.Semaphore) -> None:
    """One console, until it is cancelled: `calls` is path -> calls per second."""
    asked, followed = await Connection(url, cookie).open(), await Connection(url, cookie).open()
    try:
        async with asyncio.TaskGroup() as together:
            for path, rate in calls.items():
                together.create_task(_ask(asked, path, 1 / rate))
            together.create_task(followed.follow("/console/events", begun))
    finally:
        asked.close()
        followed.close()


async def _ask(connection: Connection, path: str, every_s: float) -> None:
    await asyncio.sleep(random.uniform(0, every_s))
    while True:
        await connection.ask("GET", path)
        await asyncio.sleep(every_s)


async def main(url: str, secret: str, many: str) -> None:
    """Log in so often, then open and close them, a line each."""
    calls: dict[str, float] = json.loads(await _line())
    cookies = [await log_in(url, secret) for _ in range(int(many))]
    print("ready", flush=True)
    while await _line():
        begun = asyncio.Semaphore(0)
        async with asyncio.TaskGroup() as together:
            consoles = [together.create_task(look(url, cookie, calls, begun)) for cookie in cookies]
            for _ in consoles:
                await begun.acquire()
            print("opened", flush=True)
            await _line()
            for console in consoles:
                console.cancel()
        print("closed", flush=True)


async def _line() -> str:
    return await asyncio.to_thread(sys.stdin.readline)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
