"""Borrowers that wait at a hub over HTTP."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any
from urllib.parse import quote

import httpx

from tests.world import borrow, eventually

LABEL = "Maps:Chromium:Prod"
NAMELESS = {"user": None, "team": None, "name": "127.0.0.1", "client": "127.0.0.1"}  # the holder of such a borrow
_numbers = itertools.count()


class People:
    """Borrowers that wait at a hub, one call each."""

    def __init__(self, api: httpx.AsyncClient) -> None:
        self.api = api
        self.calls: list[asyncio.Task[httpx.Response]] = []

    async def queue(self, **query: Any) -> dict[str, Any]:
        """Return the answer of `GET /queue`."""
        answer = await self.api.get("/queue", params=query)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    async def come(self, label: str = LABEL, *, key: str = "", run: str = "", **body: Any) -> Any:
        """Borrow, and return the call once it stands in the queue or is answered."""
        before = await self.waiting(label)
        call = self.start(label, key=key, run=run, **body)

        async def in_line() -> bool:
            return call.done() or await self.waiting(label) > before

        await eventually(in_line)
        return call

    async def waiting(self, label: str) -> int:
        """Return how many wait for a label; those for others may be leaving."""
        return sum(int(line["waiting"]) for line in (await self.queue(label=label))["labels"])

    def start(self, label: str = LABEL, *, key: str = "", run: str = "", **body: Any) -> asyncio.Task[httpx.Response]:
        """Borrow, and return the call at once."""
        headers = {"x-run-id": run or f"run-{next(_numbers)}", **({"idempotency-key": key} if key else {})}
        asked = self.api.post("/session/borrow", json={"labelKey": label, **body}, headers=headers, timeout=60)
        self.calls.append(asyncio.create_task(asked))
        return self.calls[-1]

    async def look(self, ticket: str, wait: str = "") -> httpx.Response:
        """`GET /queue/{ticket}`, by its key or its id."""
        headers = {"prefer": wait} if wait else {}
        return await self.api.get(f"/queue/{quote(ticket, safe='')}", headers=headers, timeout=60)

    async def state(self, ticket: str) -> str:
        """Return the state of a ticket."""
        return str((await self.look(ticket)).json()["state"])

    async def give_up(self, ticket: str) -> httpx.Response:
        """`DELETE /queue/{ticket}`."""
        return await self.api.delete(f"/queue/{quote(ticket, safe='')}")

    async def go_home(self) -> None:
        """Hang up."""
        for call in self.calls:
            call.cancel()
        await asyncio.gather(*self.calls, return_exceptions=True)


async def in_use(people: People, *slots: str, label: str = LABEL) -> list[dict[str, Any]]:
    """Publish slots that are lent again as they are, and lend them all."""
    listed = [{"labelKey": label, "slotId": slot} for slot in slots]
    await people.api.post("/node/register", json={"nodeId": "n1", "policy": "reuse", "slots": listed})
    answers = [await borrow(people.api, label, run=f"holder-{slot}") for slot in slots]
    assert [answer.status_code for answer in answers] == [200] * len(slots)
    return [answer.json() for answer in answers]


async def away(people: People, key: str, **body: Any) -> None:
    """A ticket whose call has ended in vain."""
    answer = await people.start(key=key, maxWaitSeconds=0.05, **body)
    assert answer.json()["code"] == "timeout", answer.text


def refused(answer: httpx.Response, code: str, status: int = 503) -> dict[str, Any]:
    document: dict[str, Any] = answer.json()
    assert (answer.status_code, document.get("code")) == (status, code), answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    return document
