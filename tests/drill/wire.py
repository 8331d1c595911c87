"""HTTP as cheap as it gets, so that one process can be ten thousand nodes: connections to any of the hubs."""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.2, 5.0  # as in the SDK


class NoAnswer(Exception):
    """No answer came; the request may have been carried out all the same."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a hub to a request that was sent at `sent` (monotonic)."""

    status: int
    body: bytes
    sent: float
    retry_after_s: float

    @property
    def data(self) -> Any:
        return orjson.loads(self.body)


class Wire:
    """One connection to a hub. When a hub fails, the next one is tried, as behind a load balancer."""

    def __init__(self, ports: Sequence[int], secret: str) -> None:
        self._ports = deque(random.sample(ports, len(ports)))
        self._head = f"host: drill\r\nx-hub-secret: {secret}\r\n"
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def post(self, path: str, body: bytes, timeout_s: float, headers: str = "") -> Answer:
        """Return the answer; raises `NoAnswer`."""
        sent = time.monotonic()
        try:
            async with asyncio.timeout(timeout_s):
                reader, writer = await self._connected()
                head = f"POST {path} HTTP/1.1\r\n{self._head}{headers}content-length: {len(body)}\r\n\r\n"
                writer.write(head.encode() + body)
                return await _answer(reader, sent)
        except (OSError, EOFError, TimeoutError) as error:
            self.close()
            self._ports.rotate(-1)
            raise NoAnswer(repr(error)) from error
        except asyncio.CancelledError:
            self.close()
            raise

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._reader and self._writer and not self._reader.at_eof():
            return self._reader, self._writer
        self.close()
        for _ in range(len(self._ports) - 1):
            try:
                return await self._connect()
            except ConnectionRefusedError:
                self._ports.rotate(-1)
        return await self._connect()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._ports[0], limit=1 << 20)
        return self._reader, self._writer

    def close(self) -> None:
        """Hang up; the next call connects again."""
        if self._writer:
            self._writer.close()
        self._reader = self._writer = None


async def _answer(reader: asyncio.StreamReader, sent: float) -> Answer:
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    body = await reader.readexactly(int(_header(head, b"content-length") or 0))
    return Answer(int(head[9:12]), body, sent, float(_header(head, b"retry-after") or 0))


def _header(head: bytes, name: bytes) -> bytes:
    _, found, rest = head.partition(b"\r\n" + name + b":")
    return rest.partition(b"\r\n")[0].strip() if found else b""


class Wires:
    """Connections that many callers share, at most so many requests under way at once."""

    def __init__(self, ports: Sequence[int], secret: str, at_once: int) -> None:
        self._ports, self._secret = ports, secret
        self._free: list[Wire] = []
        self._gate = asyncio.Semaphore(at_once)

    def close(self) -> None:
        """Close the connections that are not in use."""
        for wire in self._free:
            wire.close()

    async def post(self, path: str, document: Any, timeout_s: float, headers: str = "") -> Answer:
        """Call `Wire.post` with a document as the body."""
        async with self._gate:
            wire = self._free.pop() if self._free else Wire(self._ports, self._secret)
            try:
                return await wire.post(path, orjson.dumps(document), timeout_s, headers)
            finally:
                self._free.append(wire)


def pause_s(failures: int, asked_s: float = 0.0, longest_s: float = LONGEST_PAUSE_S) -> float:
    """How long to wait after so many failures in a row, as the SDK does: doubling, jittered, never less than asked."""
    backoff_s = min(longest_s, FIRST_PAUSE_S * 2.0 ** min(failures, 16)) * random.uniform(0.5, 1.0)
    return max(backoff_s, asked_s * random.uniform(1.0, 1.2))
