"""The store: sends commands to Redis in batches, loads the library, and opens the store again after a loss."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import RedisError, ResponseError

from hub.errors import NotSent, StoreFault, StoreFull, StoreUnavailable
from hub.observability import metrics
from hub.observability.logs import get_logger
from hub.store.callers import is_urgent, until_ms, urgent
from hub.store.faults import Late, LostAgain, Overdue, refusal_of, refuse_unopened, translated, unanswered
from hub.store.formats import FORMAT
from hub.store.keys import Keys
from hub.store.library import NO_FENCE, Command, Library, library
from hub.store.loading import MISSING, call, idle_libraries
from hub.store.notifications import Notifications
from hub.store.pipeline import Pipeline
from hub.store.primary import ASK_S, HIDDEN, AnotherServer, Primary
from hub.store.silence import SILENT_S, Silence

BATCH = 128  # most commands in one batch, whose answers come together: in a larger one the first would wait longer
DEBTS = 4 * BATCH  # most postponed calls that are made with one tick of the hub clock
CLOSE_S = 2.0  # how long a stopping hub waits for batches under way
SETTLE_MS = 2000  # four ticks: by then every hub has noticed a loss and reported its leases
FRESH_S = 1.0  # two ticks: for so long after an answered tick the hub takes it that the primary is still the same
OPENINGS = 4  # how often one call opens the store before it is refused
AWAY = "Redis does not answer; the hub keeps trying."
_log = get_logger("hub.store")


class Store:
    """A store: one Redis under one prefix. All changes of state go through `call`, plain commands through `read`."""

    def __init__(self, client: Redis, prefix: str = "", primary: Primary | None = None) -> None:
        self.client = client
        self.primary = primary
        self.keys = Keys(prefix, int(client.connection_pool.connection_kwargs.get("db") or 0))
        self.in_cluster = primary is not None and primary.in_cluster
        self.notifications = Notifications(client, in_cluster=self.in_cluster)
        self.generation: str | None = None
        self._born, self.emptied = "", False  # the generation with which it began; whether the last loss emptied it
        self.highest_token = "0"  # the highest one that the last tick or a lease of this hub showed
        self.node_timeout_ms = 0  # the one that holds, as this hub heard it last; a store that was emptied is told it
        self.heard_at: float | None = None  # when a tick was answered last, by the monotonic clock
        self.asked_at: float | None = None  # when that tick was sent
        self.clock_ms = self.highest_ms = 0  # the hub clock as this hub heard it last, and the highest it ever heard
        self.ticks = False  # whether a hub clock runs on this store
        self.silence = Silence()
        self.fence: tuple[Any, Any] = NO_FENCE  # sent with every call: generation and hub clock as heard last
        self.after_reports: Callable[[], Awaitable[None]] | None = None  # called after the actions of `when_replaced`
        self._wall_s: float | None = None  # the time of Redis minus the monotonic clock
        self._tick_over = asyncio.Event()
        self._reporting: asyncio.Event | None = None  # not None while those actions run; set when they are done
        self.away, self._why_away = False, AWAY  # while `away` is True, calls are refused at once, with `_why_away`
        self.library: Library = library()
        self._queue: deque[tuple[tuple[Any, ...], asyncio.Future[Any]]] = deque()
        self._sender: asyncio.Task[None] | None = None
        self._pipeline = Pipeline(client)
        self._opening, self._openings = asyncio.Lock(), 0
        self._when_replaced: list[Callable[[], Awaitable[None]]] = []
        self._debts: deque[Callable[[], Awaitable[None]]] = deque(maxlen=10_000)

    def script(self, name: str) -> ScriptCall:
        """Return the command `lua/commands/<name>.lua` as a coroutine function of its named arguments."""
        return ScriptCall(self, self.library.commands[name])

    def when_replaced(self, action: Callable[[], Awaitable[None]]) -> None:
        """Register an action to run whenever the store has lost data, because it came back empty or older."""
        self._when_replaced.append(action)

    def later(self, action: Callable[[], Awaitable[None]]) -> None:
        """Postpone an action until the store answers again. Of more than 10,000 the oldest are dropped."""
        self._debts.append(action)

    async def pay_debts(self) -> None:
        """Run some of the postponed actions side by side; those that raise `StoreUnavailable` stay for later. It is
        part of every tick, and must be short: a hub that does not tick is taken for gone."""
        batch = [self._debts.popleft() for _ in range(min(DEBTS, len(self._debts)))]
        answers = await asyncio.gather(*(action() for action in batch), return_exceptions=True)
        for action, answer in zip(batch, answers, strict=True):
            if isinstance(answer, StoreUnavailable):
                self._debts.append(action)
            elif answer is not None:
                metrics.unhandled.inc()
                _log.error("postponed call failed", why=str(answer), exc_info=answer)

    async def read(self, *command: Any) -> Any:
        """Return the answer of a plain command; raises `StoreUnavailable`, or `StoreFault` when Redis refuses it."""
        try:
            return await self._send(command)
        except ResponseError as error:
            raise StoreFault(f"{command[0]}: {error}") from error

    async def read_all(self, commands: Iterable[tuple[Any, ...]]) -> list[Any]:
        """Return the answers of several plain commands, sent together; raises `StoreUnavailable`."""
        return list(await asyncio.gather(*(self.read(*command) for command in commands)))

    async def libraries(self) -> dict[str, float]:
        """Return the libraries of other versions of the hub on this server -> for how many seconds each is unused."""
        try:
            return await idle_libraries(self.client, self.library)
        except (RedisError, OSError) as error:
            raise translated(error) from error

    async def close(self) -> None:
        """Refuse new calls, wait for batches under way, so that no connection is left in use, and close the client."""
        self.set_away()
        if self._sender is not None:
            await asyncio.wait([self._sender], timeout=CLOSE_S)
        await self.notifications.close()
        await self.client.aclose()

    async def ping(self) -> None:
        """Ping Redis at once, past the calls that wait to be sent; raises `StoreUnavailable`."""
        try:
            await self.client.ping()
        except (RedisError, OSError) as error:
            raise StoreUnavailable("Redis does not answer.") from error

    async def open(self) -> None:
        """Open the store with the script `store/open`, and load the library; raises `StoreUnavailable`.

        A server that was restarted or became the primary refuses every command until this is done. So nothing is lent
        before `store/open` has moved the tokens above all that may have been lost, and tokens only rise.
        """
        seen = self._openings
        async with self._opening:
            if self._openings != seen:
                return
            try:
                before, generation = self.generation, await self._open()
            except (RedisError, OSError) as error:
                raise translated(error) from error
            self._openings += 1
            if before is not None and generation != before:
                await self._replaced(generation)
            self.away = False

    async def open_anew(self) -> None:
        """Close every connection and open the store of the server that is the primary now."""
        if self.primary is not None:
            self.primary.forget()
        await self.drop_connections()
        await self.open()

    async def drop_connections(self) -> None:
        """Close all connections, also those that wait for an answer: their server may hang or be demoted."""
        with contextlib.suppress(RedisError, OSError):
            await self.client.connection_pool.disconnect()

    async def check(self) -> None:
        """Open the store anew if the server is not the primary whose store is open; raises `StoreUnavailable`."""
        if self.primary is None:
            return
        try:
            if await self.primary.ask_again():
                _log.warning("Redis primary changed", address=":".join(map(str, self.primary.address or ())))
                raise AnotherServer("the primary has moved")
            await self.primary.check(self.client)
        except AnotherServer:
            await self.open_anew()
        except (RedisError, OSError) as error:
            raise translated(error) from error

    async def follow_primary(self) -> None:
        """Ask for ever where the primary is; when it has moved, close the connections, so that no call waits for the
        old primary. The next tick opens the store of the new one."""
        while self.primary is not None and self.primary.may_move:
            await asyncio.sleep(ASK_S)
            with contextlib.suppress(RedisError, OSError):  # the tick asks too, and logs it
                if await self.primary.ask():
                    _log.warning("Redis primary changed", address=":".join(map(str, self.primary.address or ())))
                    await self.drop_connections()

    async def replaced(self, generation: str) -> None:
        """Take over a store of another generation, which another hub has opened after a loss."""
        async with self._opening:
            await self._replaced(generation)
            self.away = False

    async def _replaced(self, generation: str) -> None:
        """Run the actions of `when_replaced`, which report what this hub remembers; all other calls wait meanwhile."""
        _log.warning("store replaced", generation=generation, before=self.generation)
        self._reporting = asyncio.Event()
        try:
            with urgent():
                self.emptied = (born := await self.read("HGET", self.keys.store, "born") or "") != self._born
                for action in self._when_replaced:
                    try:
                        await action()
                    except StoreFull:  # it is repeated with each tick, and the hub goes on meanwhile
                        self.later(action)
                if self.after_reports is not None:
                    await self.after_reports()
        finally:
            told, self._reporting = self._reporting, None
            told.set()
        self.generation, self._born = generation, born  # last, so that a loss meanwhile starts this again

    async def _open(self) -> str:
        arguments = {
            "run_id": await self._identity(),
            "lost": "0" if self.generation is None else "asleep" if self.silence.is_over_just_now() else "1",
            "settle_ms": SETTLE_MS,
            "floor": self.highest_token,
            "timeout_ms": self.node_timeout_ms,
            "heard_ms": self.highest_ms,
            "cluster": "1" if self.in_cluster else "0",
            "format": FORMAT,
        }
        command = self.library.call("store/open", self.keys, self.library.commands["store/open"].ordered((), arguments))
        word, generation, clock_ms, now_ms, born = await call(self.client, self.library, command)
        refuse_unopened(word, generation)
        _log.info("store opened", state=word, generation=generation, library=self.library.name)
        if self.generation is None:
            self.generation, self._born = generation, born
        self.hear(generation, int(clock_ms), int(now_ms))
        return str(generation)

    def hear(self, generation: str, clock_ms: int, now_ms: int) -> None:
        """Note the generation of the store, its hub clock, and the time of Redis, as a tick or an opening gave them."""
        self.clock_ms, self._wall_s = clock_ms, now_ms / 1000 - time.monotonic()
        self.highest_ms = max(self.highest_ms, clock_ms)
        if self.ticks:
            self.fence = (generation, clock_ms)

    def wall_s(self) -> float:
        """Return the time of Redis in seconds since 1970, or that of this machine until Redis has told its own."""
        return time.time() if self._wall_s is None else time.monotonic() + self._wall_s

    def latest_ms(self) -> int | None:
        """Return the highest reading the hub clock can have now, counted from the sending of the last tick, or None."""
        if not self.ticks or self.asked_at is None:
            return None
        return self.clock_ms + 1 + int(1000 * (time.monotonic() - self.asked_at))

    def tick_is_over(self, heard: bool) -> None:
        """Let calls go on that wait for a tick. The hub clock calls this after each; `heard`: Redis answered it."""
        self.silence.ticked()
        if heard:
            self.heard_at = time.monotonic()
        self._tick_over.set()
        self._tick_over = asyncio.Event()

    def _sure(self) -> bool:
        """Return whether a tick was answered within `FRESH_S`, so that its server surely still is the primary."""
        return not self.ticks or self.heard_at is None or time.monotonic() - self.heard_at <= FRESH_S

    async def _identity(self) -> str:
        if self.primary is None:
            return await self._run_id()
        await self.client.ping()  # makes a connection, which reads the identity of the server
        known = self.primary.identity
        return await self._run_id() if known in (None, HIDDEN) else str(known)

    async def _run_id(self) -> str:
        try:
            return str((await self.client.info("server"))["run_id"])
        except (ResponseError, KeyError):
            return "in-process"  # the store in memory has no server that could be restarted

    def set_away(self, why: str = AWAY) -> None:
        """Refuse the calls that wait to be sent, and all new ones, until Redis answers a tick again."""
        self.away, self._why_away = True, why
        waiting, self._queue = self._queue, deque()
        for _, answer in waiting:
            if not answer.done():
                answer.set_exception(NotSent(self._why_away))

    async def call(self, command: Command, arguments: list[Any]) -> Any:
        """Run a command of the library and return its answer; opens the store when Redis has lost it or the library."""
        began, heard_at = time.monotonic(), self.heard_at
        while True:
            try:
                return await self._run(command, arguments, self.fence, self._send)
            except Late as late:
                # If this hub ticks, another one has just opened the store: the call may be sent again after a tick.
                stood_still = heard_at is None or began - heard_at > SILENT_S
                over = isinstance(late, Overdue) or time.monotonic() - began > SILENT_S
                if stood_still or over or is_urgent() or not self.ticks:
                    raise
                await self._tick_over.wait()

    async def probe(self, command: Command, arguments: list[Any]) -> Any:
        """Run a command at once, past the calls that wait, also while Redis is away; raises `StoreUnavailable`."""
        return await self._run(command, arguments, NO_FENCE, self._send_alone)

    async def _run(
        self,
        command: Command,
        arguments: list[Any],
        fence: tuple[Any, Any],
        send: Callable[[tuple[Any, ...]], Awaitable[Any]],
    ) -> Any:
        call = self.library.call(command.name, self.keys, arguments, fence, until_ms())
        for _ in range(OPENINGS):
            try:
                return await send(call)
            except StoreUnavailable as error:
                raise unanswered(error, changes=command.changes) from error.__cause__
            except ResponseError as error:
                if (refusal := refusal_of(error)) is not None:
                    metrics.store_full.inc(isinstance(refusal, StoreFull))
                    raise refusal from None
                if not (str(error).startswith("UNOPENED") or MISSING in str(error)):
                    raise StoreFault(f"{command.name}: {error}") from error
                await self._open_for_a_call()
        raise LostAgain("The store was lost while it was opened; the hub opens it again.")

    async def _open_for_a_call(self) -> None:
        if is_urgent():  # lost once more while hubs report: the next tick opens the store and begins again
            raise LostAgain("The store was lost again.")
        with contextlib.suppress(LostAgain):
            await self.open()

    async def _send_alone(self, command: tuple[Any, ...]) -> Any:
        try:
            return await self.client.execute_command(*command)  # type: ignore[no-untyped-call]
        except (RedisError, OSError) as error:
            raise translated(error) from error

    async def _send(self, command: tuple[Any, ...]) -> Any:
        if is_urgent():
            return await self._send_alone(command)
        while self._reporting is not None:
            await self._reporting.wait()
        if self.away:
            raise NotSent(self._why_away)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._queue.append((command, answer))
        if self._sender is None or self._sender.done():
            self._sender = asyncio.create_task(self._drain(), name="store-sender")
        return await answer

    async def _drain(self) -> None:
        """Send the waiting commands in batches until none is left; calls made meanwhile join the next batch."""
        await asyncio.sleep(0)  # callers that are runnable now join the first batch
        while self._queue:  # also commands that came while the connection was returned to the pool
            try:
                while self._queue:
                    if self._sure():
                        await self._send_batch([self._queue.popleft() for _ in range(min(BATCH, len(self._queue)))])
                    else:
                        await self._tick_over.wait()
            finally:
                await self._pipeline.release()

    async def _send_batch(self, batch: list[tuple[tuple[Any, ...], asyncio.Future[Any]]]) -> None:
        try:
            replies = await self._carry_out([command for command, _ in batch])
        except Exception as error:  # noqa: BLE001 - each caller gets the error
            replies = [error] * len(batch)
        for (_, answer), reply in zip(batch, replies, strict=True):
            if answer.done():
                continue
            if isinstance(reply, Exception):
                answer.set_exception(translated(reply))
            else:
                answer.set_result(reply)

    async def _carry_out(self, commands: list[tuple[Any, ...]]) -> list[Any]:
        """Send commands and return their answers; raises `AnotherServer` when they are not from the present primary."""
        who = self.primary and self.primary.identity
        try:
            replies = await self._pipeline.carry(commands)
        except AnotherServer:
            if self.ticks:  # the next tick opens the store of the other server
                raise
            await self.open_anew()
            return await self._pipeline.carry(commands)
        while not self._sure() and not self.away:
            await self._tick_over.wait()
        if (self.primary and self.primary.identity) != who:
            raise AnotherServer("the primary has moved")
        return replies


class ScriptCall:
    """A command bound to a store. Arguments are passed by name; `rest` has those of which any number is allowed."""

    def __init__(self, store: Store, command: Command) -> None:
        self._store = store
        self._command = command
        self.name = command.name

    async def __call__(self, *, rest: Iterable[Any] = (), **named: Any) -> Any:
        """Run the command and return its answer; raises `StoreUnavailable`, and TypeError for wrong names."""
        return await self._store.call(self._command, self._command.ordered(rest, named))

    async def probe(self, **named: Any) -> Any:
        """Run the command at once, past the calls that wait, also while Redis is away; raises `StoreUnavailable`."""
        return await self._store.probe(self._command, self._command.ordered((), named))
