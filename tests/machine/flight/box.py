"""A hub as its callers see it, in this process: requests, ticks and sweeps come when the machine says so."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import orjson
from redis.exceptions import ConnectionError as RedisConnectionError

from hub.api.app import create_app
from hub.api.handling.browsers import Gate
from hub.api.handling.context import Serving
from hub.core import Hub
from hub.errors import StoreUnavailable
from hub.store.clock import PERIOD_S
from hub.store.connection import make_client
from hub.store.library import Library, library
from hub.store.primary import Primary
from hub.store.store import Store
from hub.sweeping.tasks import TaskSweeperService
from hub.sweeping.workers import WorkerSweeperService
from hub.tokens.file import TokensFile
from hub.tokens.secrets import Secrets
from tests.machine.flight.servers import SHIFTED, TIME, Server
from tests.machine.flight.wire import Wire
from tests.world import settings_for, sweepers

NODE_S, WORKER_S, LEASE_S = 30, 30, 60


SECRET, STRANGER = "flight", "bob-in-flight"  # of every call; and the token of a user who holds nothing
TEAMS = {"ml": "ann-in-flight", "web": "cy-in-flight"}  # and those of users in teams


@dataclass(eq=False)
class Call:
    """A request under way. The caller may be gone by the time it is read or carried out."""

    what: str
    method: str
    path: str
    body: dict[str, Any] | None
    key: str = ""
    query: str = ""
    patience_s: int | None = None  # for how long the caller waits, where it says so
    secret: str = SECRET
    status: int = 0  # 0: no answer has come
    answer: Any = None
    disconnected: bool = False
    task: asyncio.Task[None] | None = None
    hung_up: asyncio.Event = field(default_factory=asyncio.Event)
    sent: bytes = b""
    sent_s: float = 0.0
    unread: bool = False  # its hub had not looked at it when the caller hung up
    _read: bool = False

    def hang_up(self) -> None:
        self.disconnected = True
        self.hung_up.set()

    @property
    def heard(self) -> bool:
        """Return whether an answer has reached a caller that was still there."""
        return self.status != 0 and not self.disconnected

    @property
    def scope(self) -> dict[str, Any]:
        length = len(orjson.dumps(self.body)) if self.body is not None else 0
        headers = [(b"content-type", b"application/json"), (b"content-length", str(length).encode())]
        headers.append((b"x-hub-secret", self.secret.encode()))
        if self.key:
            headers.append((b"idempotency-key", self.key.encode()))
        if self.patience_s is not None:
            headers.append((b"prefer", f"wait={self.patience_s}".encode()))
        return {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": self.method,
            "path": self.path, "raw_path": self.path.encode(), "query_string": self.query.encode(), "root_path": "",
            "headers": headers, "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80), "scheme": "http",
        }  # fmt: skip

    async def receive(self) -> dict[str, Any]:
        if not self._read:
            self._read = True
            return {"type": "http.request", "body": orjson.dumps(self.body) if self.body is not None else b""}
        await self.hung_up.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
        else:
            self.sent += message.get("body", b"")
            if not message.get("more_body"):
                self.answer = orjson.loads(self.sent) if self.sent else None
                self.status = self._status


class Watch:
    """The Sentinels, who all agree."""

    in_cluster = False

    def __init__(self, server: Callable[[], Server | None]) -> None:
        self._server = server

    async def find(self) -> tuple[str, int]:
        """Return the primary, as an address."""
        server = self._server()
        if server is None:
            raise RedisConnectionError("there is no primary")
        return server.name, 6379

    async def close(self) -> None:
        """There is nothing to let go of."""


class Box:
    """One hub; `begin` makes it anew, with nothing remembered."""

    def __init__(self, name: str, path: str, server: Callable[[], Server | None]) -> None:
        self.name = name
        self.primary_is = server
        self.wire = Wire(path, self.where)
        settings = settings_for(
            f"unix://{path}", node_timeout_s=NODE_S, worker_timeout_s=WORKER_S, borrow_ttl_s=LEASE_S,
            borrow_ttl_min_s=1, redis_timeout_s=0, redis_connect_timeout_s=0, borrow_queue_timeout_s=20,
            bundle_patience_s=3, runner_secret=SECRET, node_secret=SECRET,
        )  # fmt: skip
        self.settings = settings
        self.edge = create_app(settings, sweep=False)
        self.people = Path(path).parent / "people.toml"
        users = {STRANGER: ""} | {token: team for team, token in TEAMS.items()}
        of = {token: f'team = "{team}"' if team else "" for token, team in users.items()}
        rows = [f'[[tokens]]\ntoken = "{t}"\nuser = "{t[:3]}"\nscopes = ["borrow"]\n{of[t]}\n' for t in users]
        self.people.write_text("".join(rows))
        self.calls: list[Call] = []
        self.running = asyncio.Event()
        self.ticking: asyncio.Task[None] | None = None
        self.rounding: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        self.deaf = False  # no calls get through to it
        self.running.set()
        self.calls, self.ticking, self.rounding = [], None, None
        self.before: Server | None = None  # a primary that was demoted, and does not know it
        self.primary = Primary(Watch(self.primary_is))
        store = Store(make_client(self.settings.redis_url, self.settings, self.primary), "", self.primary)
        store.library = shifted()
        await store.open()
        store.ticks = True
        self.hub = Hub(store, self.settings)
        await self.hub.agreed.agree()
        self.edge.app.state.serving = Serving(
            self.hub, Secrets(self.settings), TokensFile(self.people), Gate(self.settings)
        )
        self.edge.app.state.serving.stalls = self  # the time of this process jumps
        self.node_sweeper, self.lease_sweeper = sweepers(self.hub)
        self.worker_sweeper = WorkerSweeperService(store, self.settings, self.hub.workers)
        self.task_sweeper = TaskSweeperService(store, self.settings, self.hub.workers)

    def where(self) -> Server | None:
        """Return where a new connection leads to: to the address that it was told last, until it asks again."""
        known = self.primary.address
        return self.before if self.before and known and known[0] == self.before.name else self.primary_is()

    async def end(self) -> None:
        self.wire.held = False
        self.running.set()
        tasks = [call.task for call in self.calls if call.task and not call.task.done()]
        tasks += [task for task in (self.ticking, self.rounding) if task]
        for task in tasks:
            task.cancel()
        self.wire.cut()
        if tasks:
            await asyncio.wait(tasks, timeout=1)
        with suppress(Exception):
            await self.hub.store.close()

    # -- standing still

    def is_over_just_now(self) -> bool:
        """Note which callers hung up while it stood still."""
        return False

    @property
    def due(self) -> bool:
        """Whether its next tick is due."""
        heard_at = self.hub.store.heard_at
        return not self.frozen and (heard_at is None or time.monotonic() - heard_at > PERIOD_S)

    @property
    def still(self) -> bool:
        return not self.running.is_set()

    def stand_still(self, *, between: bool) -> None:
        """Do nothing from now on; with `between`, read requests but hold their commands to Redis back."""
        self.wire.hold()
        if not between:
            self.running.clear()
        self.frozen = True

    def go_on(self) -> None:
        self.frozen = False
        self.running.set()
        self.wire.release()

    frozen = False

    # -- requests

    def begin_call(self, call: Call) -> Call:
        self.calls = [each for each in self.calls if each.task and not each.task.done()]
        self.calls.append(call)
        call.task = asyncio.ensure_future(self._serve(call))
        return call

    async def _serve(self, call: Call) -> None:
        await self.running.wait()
        await self.edge(call.scope, call.receive, call.send)  # type: ignore[arg-type]

    async def tick(self) -> None:
        """Tick the hub clock once."""
        await self.hub.clock.tick()

    async def look_after(self) -> None:
        """A round of its line."""
        with suppress(StoreUnavailable):
            await self.hub.queue.look_after()
            await self.hub.rules.enforce()
            await self.hub.teams.balance()

    async def sweep(self) -> None:
        services = (self.node_sweeper, self.lease_sweeper, self.worker_sweeper, self.task_sweeper)
        for done in await asyncio.gather(*(service.sweep() for service in services), return_exceptions=True):
            if isinstance(done, BaseException) and not isinstance(done, StoreUnavailable):
                raise done  # the loops that run them wait for the store, and fear nothing else either


@cache
def shifted() -> Library:
    """Return the library on a server whose time is shifted."""
    return library().replaced(TIME, SHIFTED)
