"""The delay of wrong secrets: an address that sends many of them waits longer and longer for its answers. A caller with
a known secret never waits."""

from __future__ import annotations

import asyncio
import math
import time
from collections import OrderedDict
from ipaddress import IPv6Address, ip_address
from typing import Final

from hub.observability import metrics
from hub.observability.logs import get_logger

FREE: Final = 100  # wrong secrets of an address without a delay, for typing errors and fleets with an old secret
PER_S: Final = 10.0  # wrong secrets that an address may send a second after those
WAIT_MAX_S: Final = 10.0
WARNING_S: Final = 60.0  # between two lines in the log
ADDRESSES_MAX: Final = 10_000  # addresses that are remembered, about 1 MB
_log = get_logger("hub.api")


class WrongSecrets:
    """The counts of wrong secrets, by address."""

    def __init__(self) -> None:
        self._due: OrderedDict[str, float] = OrderedDict()  # by address: when its next guess may be answered at once
        self._warned = -WARNING_S
        self._since_warned = 0
        self._from: set[str] = set()

    def early_s(self, address: str | None, now: float) -> float:
        """Count a wrong secret of this address, and return for how many seconds its answer must wait."""
        who = neighbourhood(address)
        due = min(max(self._due.pop(who, -math.inf), now - FREE / PER_S) + 1 / PER_S, now + WAIT_MAX_S)
        self._due[who] = due
        if len(self._due) > ADDRESSES_MAX:
            self._due.popitem(last=False)
        self._warn(who, now)
        return max(0.0, due - now)

    async def slow(self, address: str | None, longest_s: float) -> None:
        """Count a wrong secret of this address, and wait before it is answered, at most `longest_s` seconds."""
        metrics.wrong_secrets.inc()
        wait_s = min(self.early_s(address, time.monotonic()), longest_s)
        if wait_s > 0:
            await asyncio.sleep(wait_s)

    def _warn(self, who: str, now: float) -> None:
        self._since_warned += 1
        if len(self._from) < ADDRESSES_MAX:
            self._from.add(who)
        if now - self._warned >= WARNING_S:
            _log.warning("wrong secrets received", count=self._since_warned, addresses=len(self._from), last=who)
            self._warned, self._since_warned = now, 0
            self._from.clear()


def neighbourhood(address: str | None) -> str:
    """Return the name under which the requests of an address are counted: an IPv4 address itself, the /64 network of an
    IPv6 address, `unknown` for any other text. One party has a whole /64 network."""
    try:
        found = ip_address(address or "")
    except ValueError:
        return "unknown"
    return f"{IPv6Address(int(found) >> 64 << 64)}/64" if found.version == 6 else str(found)
