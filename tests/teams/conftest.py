"""Borrowers of several teams at an application in this process, each with a token of their own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from tests.world import eventually

POOL = "gpu:a100"
ADMIN = {"x-hub-secret": "admin-secret-of-the-test"}
SECRETS = {f"{role}_secret": f"{role}-secret-of-the-test" for role in ("runner", "node", "admin")}


class Teams:
    """A hub with one node, and borrowers of teams."""

    def __init__(self, api: httpx.AsyncClient) -> None:
        self.api = api
        self.shown: dict[str, dict[str, str]] = {"": {"x-hub-secret": SECRETS["runner_secret"]}}
        self.calls: list[asyncio.Task[httpx.Response]] = []

    async def node(self, *slots: str, pool: str = POOL) -> None:
        """Register a node with slots."""
        body = {
            "nodeId": f"of-{slots[0]}",
            "policy": "reuse",
            "slots": [{"labelKey": pool, "slotId": s} for s in slots],
        }
        answer = await self.api.post("/node/register", json=body, headers={"x-hub-secret": SECRETS["node_secret"]})
        assert answer.status_code == 200, answer.text

    async def row(self, team: str, label: str = "gpu:*", **members: Any) -> dict[str, Any]:
        """Set the row of a team."""
        body = {"label": label, "by": "ann", **members}
        answer = await self.api.put(f"/admin/teams/{team}", json=body, headers=ADMIN)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    async def headers(self, team: str) -> dict[str, str]:
        """Return what borrowers of a team show."""
        if team not in self.shown:
            wish = {"user": f"u-{team}", "team": team, "scopes": ["borrow"]}
            made = await self.api.post("/admin/tokens", json=wish, headers=ADMIN)
            self.shown[team] = {"authorization": f"Bearer {made.json()['token']}"}
        return self.shown[team]

    async def ask(self, team: str, label: str = POOL, **body: Any) -> httpx.Response:
        """Borrow for a team."""
        sent = {"labelKey": label, **body}
        return await self.api.post("/session/borrow", json=sent, headers=await self.headers(team))

    async def held(self, team: str, label: str = POOL, **body: Any) -> dict[str, Any]:
        """Borrow for a team what is free, and return the lease."""
        answer = await self.ask(team, label, maxWaitSeconds=0, **body)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    async def come(self, team: str, label: str = POOL, key: str = "", **body: Any) -> asyncio.Task[httpx.Response]:
        """Borrow for a team, and return the call once it waits."""
        before = await self.waiting()
        sent = {"labelKey": label, "runId": f"run-{len(self.calls)}", **body}
        headers = {**await self.headers(team), **({"idempotency-key": key} if key else {})}
        call = asyncio.create_task(self.api.post("/session/borrow", json=sent, headers=headers))
        self.calls.append(call)

        async def waits() -> bool:
            return await self.waiting() > before

        await eventually(waits)
        return call

    async def waiting(self) -> int:
        """Return how many borrows wait."""
        return int((await self.api.get("/queue", headers=ADMIN)).json()["waiting"])

    async def waiting_bundles(self) -> int:
        """Return how many bundles wait."""
        return len((await self.api.get("/queue", headers=ADMIN)).json()["bundles"])

    async def give_back(self, team: str, lease: dict[str, Any]) -> None:
        """Return a slot."""
        body = {"labelKey": lease["labelKey"], "browserId": lease["browserId"], "leaseToken": lease["leaseToken"]}
        answer = await self.api.post("/session/return", json=body, headers=await self.headers(team))
        assert answer.status_code == 200, answer.text

    async def now(self, api: httpx.AsyncClient | None = None) -> dict[str, dict[str, Any]]:
        """Return what `GET /teams` says, by team."""
        answer = await (api or self.api).get("/teams", headers=ADMIN)
        assert answer.status_code == 200, answer.text
        return {each["team"]: each for each in answer.json()["teams"]}

    async def go_home(self) -> None:
        """End the calls that wait."""
        for call in self.calls:
            call.cancel()
        await asyncio.gather(*self.calls, return_exceptions=True)


@pytest.fixture
async def fleet(make_api: Any) -> AsyncIterator[Teams]:
    async with make_api(**SECRETS, borrow_queue_timeout_s=60) as api:
        found = Teams(api)
        yield found
        await found.go_home()
