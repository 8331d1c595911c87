"""The delivery of messages: the hub that sweeps fills the queues of the hooks, and every hub empties them.

A hub takes one hook after the other, each with messages of different objects, and sends them side by side. While no
hook is there the loop waits, and asks the store for nothing.
"""

from __future__ import annotations

import asyncio
import random
import secrets
from collections.abc import Collection
from typing import Any, Never

from hub.errors import StoreUnavailable
from hub.hooks.sending import TIMEOUT_S, Target, send
from hub.observability import metrics
from hub.observability.logs import get_logger
from hub.store.cancelling import cancel_all
from hub.store.clock import HubClock
from hub.store.store import Store

PAUSE_S = 0.25  # between two looks at the store when nothing was to be done
EVENTS = 200  # events that one step puts into the queues
MESSAGES = 16  # messages that a hub takes of a hook at once
RATE = 100  # messages a second, of all hubs
TURN_MS = int(4 * TIMEOUT_S * 1000)
FIRST_MS = 5_000  # pause before the second try of a message, doubled for each further one up to an hour
DAY_MS = 86_400_000  # a hook that takes no message for so long is paused
GONE = "it answered 410"
_log = get_logger("hub.hooks")


class HookDelivery:
    """The part of one hub in the delivery of messages to hooks."""

    def __init__(self, store: Store, clock: HubClock, allowed: Collection[str]) -> None:
        self._clock = clock
        self._allowed = allowed
        self._relay, self._take = store.script("hooks/relay"), store.script("hooks/take")
        self._settle = store.script("hooks/settle")
        self._sending: set[asyncio.Task[None]] = set()  # one for each hook at most, as a hook has one turn

    async def run(self) -> Never:
        """Fill and empty queues until cancelled."""
        try:
            while True:
                await self._clock.hooked.wait()
                try:
                    busy = self._clock.leads.is_set() and await self.relay()
                    busy = await self.take() or busy
                except StoreUnavailable:
                    busy = False
                except Exception as error:  # noqa: BLE001 - the loop must go on
                    busy = False
                    metrics.unhandled.inc()
                    _log.error("round of hook delivery failed", why=repr(error))
                if not busy:
                    await asyncio.sleep(PAUSE_S)
        finally:
            await cancel_all(list(self._sending))

    async def relay(self) -> bool:
        """Put the next events into the queues of the hooks that ask for them; return whether more may be there."""
        _, events, made, lost, dropped = await self._relay(most=EVENTS)
        metrics.hook_messages.labels("queued").inc(made)
        metrics.hook_messages.labels("dropped").inc(dropped)
        metrics.hook_messages.labels("lost").inc(lost)
        if lost or dropped:
            _log.warning("events not told to hooks", trimmed=lost, dropped=dropped)
        return bool(events == EVENTS)

    async def take(self) -> bool:
        """Take the turn at the hook that is due longest, and begin to deliver; return whether there was one."""
        turn = secrets.token_hex(8)
        match await self._take(turn=turn, turn_ms=TURN_MS, most=MESSAGES, rate=RATE):
            case ["ok", hook, url, form, secret, *messages]:
                work = asyncio.create_task(self._deliver(hook, turn, Target(url, form, secret), messages), name="hook")
                self._sending.add(work)
                work.add_done_callback(self._sending.discard)
                return True
        return False

    async def _deliver(self, hook: str, turn: str, target: Target, messages: list[Any]) -> None:
        rows = [(entry, dict(zip(fields[::2], fields[1::2], strict=True))) for entry, fields in messages]
        try:
            said = await asyncio.gather(*(send(target, row["type"], row["id"], row, self._allowed) for _, row in rows))
            results = [word for (entry, _), what in zip(rows, said, strict=True) for word in (entry, what)]
            gone = GONE if GONE in said else ""
            first_ms = int(FIRST_MS * random.uniform(0.8, 1.2))
            reply = await self._settle(id=hook, turn=turn, first_ms=first_ms, day_ms=DAY_MS, gone=gone, rest=results)
        except StoreUnavailable:  # when the turn is over, the messages are sent again, with the same ids
            return
        except Exception as error:  # noqa: BLE001 - the turn ends by itself
            metrics.unhandled.inc()
            _log.error("round of hook delivery failed", hook=hook, why=repr(error))
            return
        delivered = said.count("ok")
        metrics.hook_messages.labels("delivered").inc(delivered)
        metrics.hook_messages.labels("failed").inc(len(said) - delivered)
        match reply:
            case ["ok", why] if why:
                _log.error("hook paused", hook=hook, why=why)
