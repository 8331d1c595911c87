"""The hub clock: each hub that can reach Redis calls the script `store/tick` twice a second, which moves the clock on.

Deadlines are measured on that clock, so no lease lapses and no node expires while no hub can reach Redis.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from typing import Any

from redis.exceptions import RedisError

from hub.errors import StoreUnavailable, UnknownReply
from hub.observability import metrics
from hub.observability.logs import get_logger
from hub.store.callers import urgent
from hub.store.cancelling import cancel_all
from hub.store.faults import LostAgain, StoreMoved, StoreMoves, StoreTooNew
from hub.store.store import AWAY, OPENINGS, Store

PERIOD_S = 0.5  # time between ticks; after a silence `lua/store.lua` moves the clock on by at most two of these
OFFICE_MS = 2000  # when the leader has not ticked for so long (four ticks), another hub becomes leader
_log = get_logger("hub.store")


class HubClock:
    """The ticks of this hub. They show whether Redis is away, since when, and whether this hub is the leader."""

    def __init__(self, store: Store, limits: str = "") -> None:
        self._store = store
        self._limits = limits
        self._tick = store.script("store/tick")
        self._switch = store.script("store/switch_expire")
        self._restore = store.script("store/restore_expire")
        self._reported = store.script("store/told")
        self._resign = store.script("store/resign")
        self.hub_id = secrets.token_hex(8)
        self.leads = asyncio.Event()
        self.hooked = asyncio.Event()  # set while the store has hooks
        self.expire_override: bool | None = None
        self._switched = ("", "", "")  # the expiry switch as heard last: value, who set it, when
        self._switch_known = False
        self.away_since: float | None = None
        self._begun = self._answered = 0  # numbers of the last tick that was begun, and of the last that was answered
        self._answer = asyncio.Event()  # set when the next tick is answered
        self._last_outage: tuple[float, float] | None = None  # seconds it lasted, monotonic time of its end
        self.moved_to: str | None = None  # the URL of the server to which the store has moved
        self.moved = asyncio.Event()  # set when `moved_to` is
        store.when_replaced(self._restore_switch)
        store.after_reports = self._report_end

    def paused_by_outage(self, grace_s: float, outage_s: float = 10.0) -> bool:
        """Return whether Redis is away, or was for `outage_s` or more and is back for less than `grace_s` seconds."""
        if self.away_since is not None:
            return True
        if self._last_outage is None:
            return False
        length_s, ended = self._last_outage
        return length_s >= outage_s and time.monotonic() - ended < grace_s

    async def run(self) -> None:
        """Tick until cancelled; then say that this hub stops, and give up the leadership, unless Redis is away."""
        self._store.ticks = True
        following = asyncio.create_task(self._store.follow_primary(), name="primary")
        try:
            while True:
                started = time.monotonic()
                await self.tick()
                await asyncio.sleep(max(0.05, PERIOD_S - (time.monotonic() - started)))
        finally:
            self._store.ticks = False
            self._store.tick_is_over(heard=False)
            await cancel_all([following])
            self.leads.clear()
            if self.away_since is None:
                await self._resign(hub_id=self.hub_id)

    async def tick(self) -> None:
        """Tick once, also while Redis is away, because the hub finds out in this way that Redis is back."""
        self._begun += 1
        self._store.silence.is_over_just_now()  # notes a standstill of this hub, which this tick ends
        heard = False
        try:
            await self._listen()
            heard = True
            self._answered = self._begun
            self._answer.set()
            self._answer = asyncio.Event()
        except (StoreUnavailable, RedisError) as error:
            await self._lost(error)
        except Exception as error:  # noqa: BLE001 - a hub whose clock has ended would be without Redis for ever
            metrics.unhandled.inc()
            await self._lost(error)
        finally:
            self._store.tick_is_over(heard)
        if heard:
            with urgent():
                await self._store.pay_debts()

    async def _listen(self) -> None:
        for tries in range(OPENINGS):
            try:
                await self._store.check()
                asked_at = time.monotonic()
                reply = await self._tick.probe(hub_id=self.hub_id, leader_ms=OFFICE_MS, limits=self._limits)
                await self._take_answer(reply, asked_at)
            except LostAgain:  # try again at once: until its next tick the hub would refuse calls
                if tries == OPENINGS - 1:
                    raise
            else:
                return

    async def anew(self) -> None:
        """Wait until a tick that began after this call was answered, so that what the hub knows of the store is new."""
        before = self._begun
        while self._answered <= before:
            await self._answer.wait()

    async def _take_answer(self, reply: list[Any], asked_at: float) -> None:
        match reply:
            case ["ok", generation, clock_ms, leads, _, expire, by, at, now_ms, token, hooked, used, most]:
                metrics.store_memory.set(used)
                metrics.store_memory_max.set(most)
                self._back()
                self.leads.set() if leads else self.leads.clear()
                self.hooked.set() if hooked else self.hooked.clear()
                self._store.hear(generation, int(clock_ms), int(now_ms))
                self._store.asked_at = asked_at
                self._store.highest_token = max(self._store.highest_token, token, key=int)
                if generation != self._store.generation:
                    await self._store.replaced(generation)  # this may restore the switch, which the next tick reads
                else:
                    self._take_switch(expire, by, at)
                    self._store.away = False
            case _:
                raise UnknownReply(self._tick.name, reply)

    async def switch_expire(self, expire: bool | None, by: str) -> None:
        """Set the run-time value of `HUB_SWEEPER_EXPIRE` for all hubs, or clear it with None."""
        _, *switched = await self._switch(expire="" if expire is None else str(expire).lower(), by=by)
        self._take_switch(*switched)

    def _take_switch(self, expire: str, by: str, at: str) -> None:
        """Take over the value of the expiry switch that an operator set last at any hub."""
        if self._switch_known and (expire, by, at) != self._switched:
            _log.warning("expiry switched", expire=expire or "default", by=by, at=at)
        self._switched, self._switch_known = (expire, by, at), True
        self.expire_override = None if expire == "" else expire == "true"

    async def read_switch(self) -> tuple[bool | None, str | None, str | None]:
        """Return the run-time value of `HUB_SWEEPER_EXPIRE` (None: not set), who set it and when."""
        keys = self._store.keys
        expire, by, at = await self._store.read("HMGET", keys.store, "expire", "expire_by", "expire_at")
        return (None, None, None) if expire is None else (expire == "true", by, at)

    async def _restore_switch(self) -> None:
        """Put the expiry switch, as this hub heard it last, back into a store that came back empty or older."""
        expire, by, at = self._switched
        if at and await self._restore(expire=expire, by=by, at=at) == ["restored"]:
            _log.warning("expiry switch restored", expire=expire or "default", by=by, at=at)

    async def _report_end(self) -> None:
        """Tell the store that this hub has reported what it remembers; when all hubs have, lending goes on earlier."""
        store = self._store
        await self._reported(hub_id=self.hub_id, floor=store.highest_token, heard_ms=store.highest_ms)

    async def _lost(self, error: Exception) -> None:
        self._store.set_away(str(error) if isinstance(error, StoreMoves | StoreTooNew) else AWAY)
        if isinstance(error, StoreMoved):
            self.moved_to = error.url
            self.moved.set()
        self.leads.clear()
        metrics.store_up.set(0)
        if self.away_since is None:
            self.away_since = time.monotonic()
            _log.error("store unreachable", why=str(error.__cause__ or error))
        await self._store.drop_connections()  # their server may hang, or be the primary no more

    def _back(self) -> None:
        metrics.store_up.set(1)
        if self.away_since is not None:
            now = time.monotonic()
            self._last_outage = (now - self.away_since, now)
            _log.warning("store reachable again", away_s=round(now - self.away_since, 1))
            self.away_since = None
