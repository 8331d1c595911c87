"""The store: calls scripts in batches, keeps them loaded, and opens itself again after a loss."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import (
    BusyLoadingError,
    MasterDownError,
    MaxConnectionsError,
    NoPermissionError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
)
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from hub.errors import ForeignKey, NotSent, StoreFault, StoreUnavailable
from hub.observability import metrics
from hub.observability.logs import get_logger
from hub.store.bells import Bells
from hub.store.keys import Keys
from hub.store.scripts import Script, load_all

BATCH = 128  # commands sent to Redis in one go; more would make the last of them wait for the first
DEBTS = 4 * BATCH  # paid with one tick of the hub clock
CLOSE_S = 2.0  # for batches under way when the hub stops
SETTLE_MS = 2000  # four ticks: every hub has noticed the loss and said what it lent
_AWAY = (
    RedisConnectionError,
    RedisTimeoutError,
    BusyLoadingError,
    ReadOnlyError,
    OutOfMemoryError,
    MasterDownError,
    MaxConnectionsError,
    NoPermissionError,
    OSError,
)
_AWAY_WORDS = ("MISCONF", "MASTERDOWN", "NOREPLICAS", "BUSY", "LOADING", "NOAUTH", "NOPERM", "CLUSTERDOWN", "OOM")
_REFUSED = "Redis does not answer; the hub keeps trying."
_log = get_logger("hub.store")


class Store:
    """One Redis under one prefix. All state changes go through `call`; plain reads through `read`."""

    def __init__(self, client: Redis, prefix: str = "") -> None:
        self.client = client
        self.keys = Keys(prefix)
        self.bells = Bells(client)
        self.generation: str | None = None
        self.highest_token = "0"  # of the grants this hub made or learned of
        self.node_timeout_ms = 0  # for a store that was emptied; whoever makes a hub of it sets it
        self.heard_at: float | None = None  # when the hub clock ticked last, by the monotonic clock
        self.away = False  # while it is, requests are refused at once instead of waiting for a timeout
        self._scripts = load_all(self.keys)
        self._queue: deque[tuple[tuple[Any, ...], asyncio.Future[Any]]] = deque()
        self._sender: asyncio.Task[None] | None = None
        self._opening = asyncio.Lock()
        self._openings = 0
        self._when_replaced: list[Callable[[], Awaitable[None]]] = []
        self._debts: deque[Callable[[], Awaitable[None]]] = deque(maxlen=10_000)

    def script(self, name: str) -> ScriptCall:
        """The script `lua/<name>.lua` as a coroutine function of its named arguments."""
        return ScriptCall(self, self._scripts[name])

    def when_replaced(self, action: Callable[[], Awaitable[None]]) -> None:
        """Run `action` whenever the store turns out to be another, or an older one, than the hub knew."""
        self._when_replaced.append(action)

    def later(self, action: Callable[[], Awaitable[None]]) -> None:
        """Do something when the store answers again; of more than 10,000 the oldest are given up."""
        self._debts.append(action)

    async def pay_debts(self) -> None:
        """Do some of what was left for later, side by side; what the store refuses again stays.

        The hub clock calls this with every tick, and must not be kept: a hub that does not tick is taken to be gone.
        """
        bite = [self._debts.popleft() for _ in range(min(DEBTS, len(self._debts)))]
        answers = await asyncio.gather(*(action() for action in bite), return_exceptions=True)
        for action, answer in zip(bite, answers, strict=True):
            if isinstance(answer, StoreUnavailable):
                self._debts.append(action)
            elif answer is not None:
                metrics.unhandled.inc()
                _log.error("left undone after an outage", why=str(answer), exc_info=answer)

    async def read(self, *command: Any) -> Any:
        """The answer of one plain command; raises `StoreUnavailable`, or `StoreFault` when Redis will not have it."""
        try:
            return await self._send(command)
        except ResponseError as error:
            raise StoreFault(f"{command[0]}: {error}") from error

    async def read_all(self, commands: Iterable[tuple[Any, ...]]) -> list[Any]:
        """The answers of several plain commands, sent together; raises `StoreUnavailable`."""
        return list(await asyncio.gather(*(self.read(*command) for command in commands)))

    async def close(self) -> None:
        """Take nothing more, wait for what is under way, so that no connection is left in use, and close the client."""
        self.set_away()
        if self._sender is not None:
            await asyncio.wait([self._sender], timeout=CLOSE_S)
        await self.bells.close()
        await self.client.aclose()

    async def ping(self) -> None:
        """Ask Redis itself, past everything that is waiting; raises `StoreUnavailable`."""
        try:
            await self.client.ping()
        except (RedisError, OSError) as error:
            raise StoreUnavailable("Redis does not answer.") from error

    async def open(self) -> None:
        """Make sure the store is open and its scripts are loaded; nothing else loads scripts.

        That order is what keeps tokens rising: a restarted server knows no script, so nobody can grant anything
        before `store/open` has moved the tokens past those the restart may have lost.
        """
        seen = self._openings
        async with self._opening:
            if self._openings != seen:
                return
            try:
                before, generation = self.generation, await self._open()
            except RedisError as error:
                raise translated(error) from error
            self._openings += 1
            self.away = False
        if before is not None and generation != before:
            await self.replaced(generation)

    async def replaced(self, generation: str) -> None:
        """Note that the store is another one than before, and let everybody say what they remember."""
        _log.warning("store replaced", generation=generation, before=self.generation)
        for action in self._when_replaced:
            await action()
        self.generation = generation  # last: should the store be lost again before all is said, it is said once more

    async def _open(self) -> str:
        run_id = await self._run_id()
        script = self._scripts["store/open"]
        lost = "0" if self.generation is None else "1"
        arguments = (run_id, lost, str(SETTLE_MS), self.highest_token, str(self.node_timeout_ms))
        word, generation = await self.client.eval(script.text, 1, self.keys.store, *arguments)
        pipe = self.client.pipeline(transaction=False)
        for each in self._scripts.values():
            pipe.script_load(each.text)
        await pipe.execute()
        _log.info("store opened", state=word, generation=generation, scripts=len(self._scripts))
        if self.generation is None:
            self.generation = generation
        return str(generation)

    async def _run_id(self) -> str:
        try:
            return str((await self.client.info("server"))["run_id"])
        except (ResponseError, KeyError):
            return "in-process"  # the store in memory has no server that could be restarted

    def set_away(self) -> None:
        """Redis does not answer: refuse what waits to be sent and what comes, until a probe gets through."""
        self.away = True
        waiting, self._queue = self._queue, deque()
        for _, answer in waiting:
            if not answer.done():
                answer.set_exception(NotSent(_REFUSED))

    async def call(self, script: Script, arguments: list[Any]) -> Any:
        """Run a script; loads it, or opens the store, when Redis has forgotten either."""
        return await self._run(script, arguments, self._send)

    async def probe(self, script: Script, arguments: list[Any]) -> Any:
        """Run a script past everything that waits, also while the store is away; raises `StoreUnavailable`."""
        reply = await self._run(script, arguments, self._send_alone)
        self.away = False
        return reply

    async def _run(
        self, script: Script, arguments: list[Any], send: Callable[[tuple[Any, ...]], Awaitable[Any]]
    ) -> Any:
        command = ("EVALSHA", script.sha, 1, self.keys.store, *arguments)
        for _ in range(2):
            try:
                return await send(command)
            except NoScriptError:
                await self.open()
            except ResponseError as error:
                if not str(error).startswith("UNOPENED"):
                    raise StoreFault(f"{script.name}: {error}") from error
                await self.open()
        return await send(command)

    async def _send_alone(self, command: tuple[Any, ...]) -> Any:
        try:
            return await self.client.execute_command(*command)  # type: ignore[no-untyped-call]
        except (RedisError, OSError) as error:
            raise translated(error) from error

    async def _send(self, command: tuple[Any, ...]) -> Any:
        if self.away:
            raise NotSent(_REFUSED)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._queue.append((command, answer))
        if self._sender is None or self._sender.done():
            self._sender = asyncio.create_task(self._drain(), name="store-sender")
        return await answer

    async def _drain(self) -> None:
        """Send what has gathered, in one go, until nothing is left: calls made meanwhile travel together next."""
        await asyncio.sleep(0)  # callers that are runnable now join the first batch
        while self._queue:
            batch = [self._queue.popleft() for _ in range(min(BATCH, len(self._queue)))]
            try:
                replies = await self._round_trip([command for command, _ in batch])
            except Exception as error:  # noqa: BLE001 - whatever it is belongs to the callers, every one of them
                replies = [error] * len(batch)
            for (_, answer), reply in zip(batch, replies, strict=True):
                if answer.done():
                    continue
                if isinstance(reply, Exception):
                    answer.set_exception(translated(reply))
                else:
                    answer.set_result(reply)

    async def _round_trip(self, commands: list[tuple[Any, ...]]) -> list[Any]:
        pipe = self.client.pipeline(transaction=False)
        for command in commands:
            pipe.execute_command(*command)
        metrics.redis_round_trips.inc()
        metrics.redis_commands.inc(len(commands))
        with metrics.redis_seconds.time():
            return list(await pipe.execute(raise_on_error=False))


class ScriptCall:
    """A script bound to a store: call it with its arguments by name, and `rest` for those it takes any number of."""

    def __init__(self, store: Store, script: Script) -> None:
        self._store = store
        self._script = script
        self._names = frozenset(script.arguments)
        self.name = script.name

    async def __call__(self, *, rest: Iterable[Any] = (), **named: Any) -> Any:
        """The script's answer; raises `StoreUnavailable`, and TypeError for names that are not its own."""
        return await self._store.call(self._script, self._arguments(rest, named))

    async def probe(self, **named: Any) -> Any:
        """As a call, but past everything that waits, and also while the store is away."""
        return await self._store.probe(self._script, self._arguments((), named))

    def _arguments(self, rest: Iterable[Any], named: dict[str, Any]) -> list[Any]:
        if named.keys() != self._names:
            raise TypeError(f"{self.name} takes {self._script.arguments}, not {tuple(named)}")
        return [*(named[name] for name in self._script.arguments), *rest]


def is_away(error: Exception) -> bool:
    """Whether this error means that Redis cannot serve now, whoever asks."""
    return isinstance(error, _AWAY) or (isinstance(error, ResponseError) and str(error).startswith(_AWAY_WORDS))


def translated(error: Exception) -> Exception:
    """An error of redis-py as one of the hub's where it means the store or a key; else the error itself."""
    if isinstance(error, ResponseError) and "WRONGTYPE" in str(error):
        return ForeignKey("A key of the hub holds another type than the hub writes; hub doctor tells which.")
    if not is_away(error):
        return error
    away = StoreUnavailable(
        "Redis does not answer; whether the change was made is not known, and repeating it is safe."
    )
    away.__cause__ = error
    return away
