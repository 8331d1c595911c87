"""Borrowers that write down every answer, so that the answers can be checked against each other afterwards."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any

import httpx

Note = Callable[..., None]
ATTEMPT_S = 4.0
RETURN_S = 60.0  # for so long a return is repeated


async def keep_for_ever(job: dict[str, Any], name: str, note: Note) -> None:
    """Borrow with a key, renew, ask whether it is valid, give back until that is answered, ask once more."""
    async with httpx.AsyncClient(headers={"x-hub-secret": job["secret"]}, timeout=ATTEMPT_S) as http:
        for number in itertools.count():
            await _Careful(job, f"{name}.{os.getpid()}.{number}", note, http).run()


class _Careful:
    """One lease, from the wanted to the return."""

    def __init__(self, job: dict[str, Any], name: str, note: Note, http: httpx.AsyncClient) -> None:
        self._job, self._name, self._note, self._http = job, name, note, http

    async def run(self) -> None:
        said = await self._borrow()
        if said is None:
            return
        slot, token, until = said
        kept = await self._keep(slot, token, until, time.time() + random.expovariate(1 / self._job["holds_s"]))
        if not kept:
            return
        self._note("gives", slot=slot, token=token)
        back = {"labelKey": self._job["label"], "browserId": slot, "leaseToken": token}
        ends = time.monotonic() + RETURN_S
        while time.monotonic() < ends:
            answer = await self._ask("POST", "/session/return", back, f"{self._name}-back")
            if answer is not None and answer.status_code == 200:
                self._note("returned", slot=slot, token=token)
                await asyncio.sleep(random.choice([0, 0.1, 1.0]))
                await self._doubt(slot, token)
                return

    async def _borrow(self) -> tuple[str, str, float] | None:
        wanted = {
            "labelKey": self._job["label"],
            "ttlSeconds": self._job["ttl"],
            "maxWaitSeconds": 2,
            "runId": self._name,
        }
        for _ in range(20):
            sent = time.time()
            answer = await self._ask("POST", "/session/borrow", wanted, self._name)
            if answer is None:
                continue
            said = answer.json()
            if answer.status_code == 200:
                slot, token, until = said["browserId"], said["leaseToken"], sent + said["ttlSeconds"]
                expires = _instant(said["expiresAtUtc"])
                self._note("holds", slot=slot, token=token, node=said["nodeId"], until=until, expires=expires)
                return slot, token, until
            if answer.status_code == 409:
                return None
            await asyncio.sleep(random.uniform(0, 0.3))
        return None

    async def _keep(self, slot: str, token: str, until: float, done: float) -> bool:
        """Renew the lease until `done`; return whether it is still held then."""
        ttl = self._job["ttl"]
        body = {"browserId": slot, "leaseToken": token, "ttlSeconds": ttl}
        while time.time() < min(done, until):
            await asyncio.sleep(min(ttl / 4, max(0.0, min(done, until) - time.time())))
            sent = time.time()
            answer = await self._ask("POST", "/session/renew", body)
            if answer is not None and answer.status_code == 200:
                until = max(until, sent + answer.json()["ttlSeconds"])
                expires = _instant(answer.json()["expiresAtUtc"])
                self._note("holds", slot=slot, token=token, node="", until=until, expires=expires)
            elif answer is not None and answer.status_code == 409:
                self._note("invalid", slot=slot, token=token, why="a renewal was refused")
                return False
        return time.time() < until

    async def _doubt(self, slot: str, token: str) -> None:
        answer = await self._ask("GET", f"/leases/{slot}/verify?token={token}")
        if answer is not None and answer.status_code == 200 and answer.json()["valid"]:
            self._note("revived", slot=slot, token=token)

    async def _ask(self, method: str, path: str, body: Any = None, key: str = "") -> httpx.Response | None:
        """Ask one of the hubs at random; return its answer, or None when none came."""
        headers = {"idempotency-key": key} if key else {}
        try:
            url = f"http://127.0.0.1:{random.choice(self._job['ports'])}{path}"
            return await self._http.request(method, url, json=body, headers=headers)
        except httpx.HTTPError:
            await asyncio.sleep(random.uniform(0, 0.2))
            return None


def _instant(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
