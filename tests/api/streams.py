"""Listening to `GET /events` of an application in this process, or to what a page of the console follows.

The answer has no end, so it is read as it is sent.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.parse import urlencode

from hub.api.pipeline import RequestPipeline
from tests.contract.speech import check_heard
from tests.world import PATIENCE_S, eventually

EVENTS, PAGE_EVENTS = ENDLESS = "/events", "/console/events"


class Stream:
    """One listener. While `reading` is not set it reads nothing, like a client whose buffers are full."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.text = ""
        self.ended = False
        self.aborted = self.disconnected = False
        self.transport = self  # as the server's own record of an exchange has one
        self.reading = asyncio.Event()
        self.reading.set()
        self._gone = asyncio.Event()

    async def receive(self) -> dict[str, Any]:
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
            return
        await self.reading.wait()
        self.text += message.get("body", b"").decode()
        self.ended = not message.get("more_body", False)

    def hang_up(self) -> None:
        """Close the connection from this side."""
        self._gone.set()

    def abort(self) -> None:
        """Cut the connection, as the server does with one that takes nothing."""
        self.aborted = True
        self.reading.set()

    @property
    def frames(self) -> list[dict[str, str]]:
        """The fields of each block so far; a comment is under the empty name."""
        blocks = self.text.split("\n\n")[:-1]
        return [dict(line.split(":", 1) for line in block.split("\n")) for block in blocks]

    @property
    def events(self) -> list[dict[str, Any]]:
        """The documents of the events so far, which are what the contract says."""
        found = [(name, document) for name, document in self._said if name != "overview"]
        for name, document in found:
            check_heard(name if name in ("gap", "slow") else "event", document)
        return [document for _, document in found]

    @property
    def names(self) -> list[str]:
        """The names of the events so far."""
        return [name for name, _ in self._said if name != "overview"]

    @property
    def overviews(self) -> list[dict[str, Any]]:
        """Return the overviews that the page was sent so far, with their age."""
        return [document for name, document in self._said if name == "overview"]

    @property
    def _said(self) -> list[tuple[str, dict[str, Any]]]:
        return [(frame["event"].strip(), json.loads(frame["data"])) for frame in self.frames if "data" in frame]

    @property
    def last_id(self) -> str:
        """Return what a listener would send as `Last-Event-ID`."""
        return [frame["id"].strip() for frame in self.frames if "id" in frame][-1]

    async def until(self, count: int) -> list[dict[str, Any]]:
        """Return the events, as soon as there are so many."""
        await eventually(lambda: len(self.events) >= count)
        return self.events


@asynccontextmanager
async def listening(
    app: RequestPipeline, headers: dict[str, str] | None = None, path: str = EVENTS, **query: str
) -> AsyncIterator[Stream]:
    """Listen to an application; the answer has begun, and what happens from now on is in the stream."""
    stream = Stream()
    scope = {
        "type": "http", "asgi": {"version": "3.0", "spec_version": "2.3"}, "http_version": "1.1", "method": "GET",
        "scheme": "http", "path": path, "raw_path": path.encode(), "root_path": "",
        "query_string": urlencode(query).encode(), "client": ("127.0.0.1", 1), "server": ("hub", 80),
        "headers": [(name.encode(), value.encode()) for name, value in (headers or {}).items()],
    }  # fmt: skip
    task = asyncio.create_task(app(scope, stream.receive, stream.send))  # type: ignore[arg-type]
    await eventually(lambda: bool(stream.frames) or stream.ended or task.done() or not stream.reading.is_set())
    try:
        yield stream
    finally:
        stream.hang_up()
        with suppress(asyncio.CancelledError):
            await asyncio.wait_for(task, PATIENCE_S)
