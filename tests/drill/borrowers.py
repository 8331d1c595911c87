"""Simulated borrowers: they wait for a slot, hold it, renew it, give it back, and remember exactly what they held.

A borrower never gives up a lease by its own clock: the hub promises that no lease is lost in an outage, so each
borrower goes on until a hub has answered. Broken promises are noted: a lease that was ended meanwhile is "lost"; a slot
that two borrowers held at once, each according to the answers it got, was "lent twice".
"""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from redis.asyncio import Redis

from tests.drill.fleet import Fleet, Node
from tests.drill.wire import Answer, NoAnswer, Wires, pause_s
from tests.races.ledger import Hold, broken

RENEWING_AT_ONCE = 32
RESERVE = 64  # borrow calls under way beyond the waiters, which are served at once
ATTEMPT_S = 15.0  # as in the SDK


@dataclass(slots=True, eq=False)
class Lease:
    """A slot that a borrower holds."""

    slot: str
    token: str
    label: str
    node: Node
    hold: Hold
    due: float  # when it is to be renewed


class Borrowers:
    """So many borrowers; where they are more than there are wanted slots, the others wait for one."""

    def __init__(
        self, fleet: Fleet, count: int, ports: Sequence[int], secret: str, lease_s: float, wait_s: float
    ) -> None:
        self._fleet = fleet
        self._count = count
        self._lease_s = lease_s
        self._wait_s = wait_s
        self._hold_s = 2 * lease_s  # on average
        self._line = Wires(ports, secret, max(0, count - len(fleet.nodes)) + RESERVE)
        self._calls = Wires(ports, secret, RENEWING_AT_ONCE)
        self._holds: list[Hold] = []
        self.leases: dict[str, Lease] = {}
        self.lost: list[str] = []
        self.late: list[str] = []  # returns that the hub took for repeats: the lease had been ended before
        self.refusals: Counter[str] = Counter()
        self.granted = 0
        self.waiting = 0

    def run(self) -> Iterator[asyncio.Task[None]]:
        """Start them all; each borrows, holds and returns until cancelled."""
        for number in range(self._count):
            label = self._fleet.wanted[number % len(self._fleet.wanted)]
            yield asyncio.create_task(self._borrow_for_ever(label, f"run-{number}"))

    def close(self) -> None:
        """Hang up."""
        self._line.close()
        self._calls.close()

    async def _borrow_for_ever(self, label: str, run: str) -> None:
        while True:
            self.waiting += 1
            lease = await self._borrow(label, run)
            self.waiting -= 1
            if await self._keep(lease):
                await self._give_back(lease)

    async def _borrow(self, label: str, run: str) -> Lease:
        wanted = {"labelKey": label, "ttlSeconds": self._lease_s}
        key, failures = secrets.token_hex(12), 0
        while True:
            headers = f"x-run-id: {run}\r\nidempotency-key: {key}\r\n"
            try:
                answer = await self._line.post("/session/borrow", wanted, ATTEMPT_S + self._wait_s, headers)
            except NoAnswer:
                await asyncio.sleep(pause_s(failures))
                failures += 1
                continue
            if answer.status == 200:
                return self._granted(label, answer)
            code = answer.data["code"]
            self.refusals[code] += 1
            if answer.status == 409:  # the lease of this key was made, not delivered, and has been taken back
                key = secrets.token_hex(12)
            elif answer.status != 503:
                raise AssertionError(f"a borrow was answered {answer.status}: {answer.body!r}")
            await asyncio.sleep(0 if code == "timeout" else pause_s(failures, answer.retry_after_s))
            failures = 0 if code == "timeout" else failures + 1

    def _granted(self, label: str, answer: Answer) -> Lease:
        data = answer.data
        now, node = time.monotonic(), self._fleet.by_id[data["nodeId"]]
        hold = Hold(data["browserId"], int(data["leaseToken"]), node.id, now, answer.sent + data["ttlSeconds"])
        due = now + random.random() * self._lease_s / 3  # renewals come evenly from the beginning
        lease = Lease(hold.slot, data["leaseToken"], label, node, hold, due)
        self._holds.append(hold)
        self.leases[lease.slot] = lease
        self.granted += 1
        return lease

    async def _keep(self, lease: Lease) -> bool:
        """Renew the lease until its borrower is done with it; False when it was ended before."""
        done = time.monotonic() + random.expovariate(1 / self._hold_s)
        failures = 0
        while (now := time.monotonic()) < done:
            if now < lease.due:
                await asyncio.sleep(min(lease.due, done) - now)
                continue
            body = {"browserId": lease.slot, "leaseToken": lease.token, "ttlSeconds": self._lease_s}
            try:
                answer = await self._calls.post("/session/renew", body, ATTEMPT_S)
            except NoAnswer:
                await asyncio.sleep(pause_s(failures))
                failures += 1
                continue
            if answer.status == 200:
                lease.hold.end = max(lease.hold.end, answer.sent + answer.data["ttlSeconds"])
                lease.due = time.monotonic() + self._lease_s / 3 * random.uniform(0.85, 1.0)
                failures = 0
            elif answer.status == 409:
                self._ended(lease)
                return False
            else:
                self.refusals[answer.data["code"]] += 1
                await asyncio.sleep(pause_s(failures, answer.retry_after_s))
                failures += 1
        return True

    async def _give_back(self, lease: Lease) -> None:
        self.leases.pop(lease.slot, None)
        lease.hold.end = min(lease.hold.end, time.monotonic())
        body = {"labelKey": lease.label, "browserId": lease.slot, "leaseToken": lease.token}
        key, failures = f"idempotency-key: {secrets.token_hex(12)}\r\n", 0
        while True:
            try:
                answer = await self._calls.post("/session/return", body, ATTEMPT_S, key)
            except NoAnswer:
                await asyncio.sleep(pause_s(failures))
                failures += 1
                continue
            if answer.status == 200:
                # Of a repeat it is not certain that the attempt before did not get through.
                if "note" in answer.data and not failures and not lease.node.dead:
                    self.late.append(f"{lease.slot} with token {lease.token}: it had been ended before it was returned")
                return
            await asyncio.sleep(pause_s(failures, answer.retry_after_s))
            failures += 1

    def _ended(self, lease: Lease) -> None:
        if self.leases.get(lease.slot) is lease:
            del self.leases[lease.slot]
        lease.hold.end = min(lease.hold.end, time.monotonic())
        if not lease.node.dead:
            self.lost.append(f"{lease.slot} with token {lease.token}: a renewal was refused")

    # -- afterwards -----------------------------------------------------------------------------------------------

    def overdue(self) -> int:
        """Return how many leases should have been renewed and were not yet."""
        now = time.monotonic()
        return sum(lease.due < now - 0.5 for lease in self.leases.values())

    async def missing(self, redis: Redis) -> list[str]:
        """Leases that the hub does not have under the token of their holder, by the sessions in Redis."""
        held = [lease for lease in self.leases.values() if not lease.node.dead]
        pipe = redis.pipeline(transaction=False)
        for lease in held:
            pipe.hget(f"session:{lease.slot}", "leaseToken")
        tokens = await pipe.execute()
        return [
            f"{lease.slot} with token {lease.token}: its session has {token}"
            for lease, token in zip(held, tokens, strict=True)
            if token != lease.token and self.leases.get(lease.slot) is lease
        ]

    def lent_twice(self) -> list[str]:
        """Return every slot that two were sure to hold at once, and every token that is not above the one before."""
        return broken(self._holds, ())
