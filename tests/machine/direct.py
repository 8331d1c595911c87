"""The commands called one at a time over a plain connection, on a hub clock that only the test moves."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from redis import Redis
from redis.exceptions import ResponseError

from hub.capacity.shared import Shared
from hub.core import Hub
from hub.doctor import Finding, examine
from hub.store.connection import make_client
from hub.store.formats import FORMAT
from hub.store.keys import Keys
from hub.store.library import library
from hub.store.store import SETTLE_MS, Store
from tests.machine.records import TIMEOUT_MS
from tests.world import RedisServer, settings_for, sweepers

STOPPED_MS = 1  # a last tick so long ago that the hub clock stands still until the test moves it


class Direct:
    """A Redis server for any number of runs; `clear` begins the next run."""

    def __init__(self, server: RedisServer) -> None:
        self.redis: Redis = server.client()
        self.keys = Keys("")
        self.calls = 0
        self.reserved: list[str] = []  # what was set aside for a bundle before the last call, in its order
        self.teams: set[str] = set()  # those whose labels are to be known
        self.labels: dict[str, list[str]] = {}  # for which these waited before the last call, in their order
        self._library = library()
        settings = settings_for(server.url, node_timeout_s=TIMEOUT_MS / 1000)
        self._runner = asyncio.Runner()
        self._hub = Hub(Store(make_client(server.url, settings)), settings)
        self._sweepers = sweepers(self._hub)
        self._known = "0"  # whether this store was open before, as a hub would know

    def close(self) -> None:
        self._runner.run(self._hub.store.close())
        self._runner.close()
        self.redis.close()

    def clear(self, options: str, default_cap: int, grace_ms: int, caps: dict[str, int]) -> None:
        """An empty store, just opened and configured, an hour into its clock."""
        self.redis.flushall()
        self._known = "0"
        self.open()
        self.redis.hset(self.keys.store, mapping={"clock_ms": 3_600_000, "tick_ms": STOPPED_MS})
        trailing, prefix, wildcards = (flag == "1" for flag in options)
        given = Shared(TIMEOUT_MS, trailing, prefix, wildcards, default_cap, tuple(caps.items()), grace_ms)
        self.call("queue/agree", hub="", given=given.text)

    def open(self, run_id: str = "r") -> None:
        """Load the functions, or open the store, where that is missing, as `hub.store.store` does."""
        opening = {
            "run_id": run_id, "lost": self._known, "settle_ms": SETTLE_MS, "floor": "0", "timeout_ms": "0",
            "heard_ms": "0", "cluster": "0", "format": FORMAT,
        }  # fmt: skip
        known = self._library.commands["store/open"].ordered((), opening)
        with suppress(ResponseError):  # it is there
            self.redis.function_load(self._library.text)
        self.redis.execute_command(*self._library.call("store/open", self.keys, known))
        self._known = "1"
        self.redis.hset(self.keys.store, "tick_ms", STOPPED_MS)

    def call(self, name: str, /, *, rest: tuple[Any, ...] | list[Any] = (), **named: Any) -> Any:
        """Return the answer of a command; an error reply raises."""
        arguments = self._library.commands[name].ordered(rest, named)
        self.calls += 1
        self.reserved = self.redis.srandmember(self.keys.reserved, 1_000)
        self.labels = {team: self.redis.srandmember(self.keys.team_labels(team), 1_000) for team in self.teams}
        call = self._library.call(name, self.keys, arguments)
        try:
            return self.redis.execute_command(*call)
        except ResponseError as error:
            if "Function not found" not in str(error):
                raise
        self.open()
        return self.redis.execute_command(*call)

    def wait(self, ms: int) -> None:
        """Let time pass, on the hub clock alone."""
        self.redis.hincrby(self.keys.store, "clock_ms", ms)

    def tick(self, hub: str) -> None:
        """A hub is heard."""
        self.call("store/tick", hub_id=hub, leader_ms=2000, limits="reserve=10")
        self.redis.hset(self.keys.store, "tick_ms", STOPPED_MS)

    def sweep(self) -> dict[str, int]:
        """Make one pass of both sweepers and return the counts of what they ended."""

        async def once() -> dict[str, int]:
            first, second = [await service.sweep() for service in self._sweepers]
            return {"nodes": first.expired, "leases": second.expired, "errors": first.errors + second.errors,
                    "adopted": first.adopted + second.adopted}  # fmt: skip

        return self._runner.run(once())

    def examine(self) -> list[Finding]:
        """Return the findings of the doctor."""
        return self._runner.run(examine(self._hub.store, settings=self._hub.settings))
