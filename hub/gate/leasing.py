"""The lease behind a connection, and connections to a slot that pass no byte once the lease may have ended."""

from __future__ import annotations

import asyncio
import math
import os
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any, Final, TypeVar
from urllib.parse import SplitResult

from hub.client import HubClient, Slot
from hub.client.trust import CA_FILE
from hub.errors import HubError, LeaseLost
from hub.retries import now_s

CONNECT_S: Final = 5.0  # for a connection to a slot; one that lives answers within milliseconds
PAUSE_S: Final = 0.25  # between attempts to confirm a lease
STILL_MAX_S: Final = 2.0  # a longer pause of this process puts every lease in doubt
# A peer that vanished without a word is noticed within a minute.
_ALIVE: Final = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 60_000}
P = TypeVar("P", bound=asyncio.BaseProtocol)


class SlotUnreachable(HubError):
    """A slot that was lent to the caller does not answer as its label promises. It was given back."""

    code = "slot-unreachable"
    status = 502


class Pulse:
    """The times after which a lease must be confirmed: the hub waits `grace_s` for the holder of a lease that it has
    revoked, be it long before its deadline, and then lends the slot on.

    So no lease counts for longer than that since the hub was heard. A look at the clock, many times a second, notices
    that this process stood still, as after SIGSTOP: from then on no lease counts that was confirmed before.
    """

    def __init__(self, grace_s: float) -> None:
        self.counts_s = 0.8 * grace_s or math.inf  # without a grace the hub waits for no holder
        self.stood_until_s = 0.0  # the end of the last gap
        self._still_s, self._looked_s = min(STILL_MAX_S, self.counts_s / 2), now_s()

    def look(self) -> None:
        """Note the time and, after a gap, that there was one."""
        before_s, self._looked_s = self._looked_s, now_s()
        if self._looked_s - before_s > self._still_s:
            self.stood_until_s = self._looked_s

    async def beat(self) -> None:
        """Look at the clock until cancelled, so that an idle process has no gaps."""
        while True:
            self.look()
            await asyncio.sleep(self._still_s / 4)


class GateLease:
    """The lease of one slot. Bytes pass while `holds()`, by the clock of this process and its `Pulse`."""

    def __init__(self, client: HubClient, slot: Slot, pulse: Pulse, asked_s: float) -> None:
        """Take a slot that was borrowed through `client`, in a call that began at `asked_s` on the clock."""
        self.slot, self.used_s = slot, now_s()
        self.busy = 0  # requests that wait for their answer
        self._client, self._pulse, self._confirmed_s = client, pulse, asked_s

    def holds(self) -> bool:
        """Return whether the lease goes on for certain. Sends no request."""
        pulse, since_s = self._pulse, self._confirmed_s
        pulse.look()
        heard = since_s >= pulse.stood_until_s and now_s() - since_s < pulse.counts_s
        return heard and self.slot.seconds_left() > 0

    async def confirm(self) -> None:
        """Return once `holds()`, after asking the hub where that is needed; raises `LeaseLost`."""
        while not self.holds():
            self.slot.check()
            try:
                await self._renew()
            except LeaseLost:
                raise
            except HubError:
                await asyncio.sleep(PAUSE_S)

    async def _renew(self) -> None:
        asked_s = now_s()
        await self._client.renew(self.slot)
        self._confirmed_s = max(self._confirmed_s, asked_s)

    async def tell(self) -> None:
        """Tell the hub that the slot is in use, which confirms the lease as well; without a hub nothing is told."""
        asked_s = now_s()
        with suppress(HubError):  # a lost lease is marked as lost; without a hub it waits to be confirmed
            await self._client.active(self.slot)
            self._confirmed_s = max(self._confirmed_s, asked_s)

    async def was_idle(self, idle_s: float, *ends: asyncio.Future[Any]) -> bool:
        """Wait until one of `ends` is done or the lease is lost, and return False; or True before that, when the slot
        was not used for `idle_s` (0: never). While it is used the lease is confirmed, and the hub hears of the use."""
        told_s, telling = self.used_s, None
        often_s = min(min(idle_s, self.slot.use.idle_s or math.inf) / 4 or math.inf, self._pulse.counts_s / 3)
        try:
            while not any(end.done() for end in ends) and not self.slot.lost.is_set():
                wait_s = None if often_s == math.inf else often_s
                await asyncio.wait(ends, timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
                self.used_s = now_s() if self.busy else self.used_s
                if idle_s and now_s() - self.used_s >= idle_s:
                    return True
                if self.used_s > told_s and (telling is None or telling.done()):
                    told_s, telling = self.used_s, asyncio.create_task(self.tell())
            return False
        finally:
            if telling is not None:
                telling.cancel()

    def why_lost(self) -> str:
        """Return why the lease was lost, "" while it goes on."""
        return str(self.slot.loss("")) if self.slot.lost.is_set() else ""


class LeasedSocket(socket.socket):
    """A socket to a slot that looks at the lease at each system call that sends, also for bytes that had to wait.

    It serves the event loop of asyncio itself; uvloop would send past it.
    """

    lease: GateLease

    def send(self, *given: Any) -> int:
        self._check()
        return super().send(*given)

    def sendmsg(self, *given: Any) -> int:
        self._check()
        return super().sendmsg(*given)

    def _check(self) -> None:
        if not self.lease.holds():
            raise ConnectionAbortedError("the lease of the slot may have ended")


@cache
def tls_to_slots() -> ssl.SSLContext:
    """Return the TLS context for slots: with the authorities of HUB_CA_FILE, else those of the system."""
    return ssl.create_default_context(cafile=os.environ.get(CA_FILE) or None)


async def dial(url: SplitResult, lease: GateLease, protocol: Callable[[], P]) -> P:
    """Connect this protocol to the slot; raises `SlotUnreachable`."""
    secure, refused = url.scheme == "wss", OSError("its name has no address")
    tls: dict[str, Any] = {"ssl": tls_to_slots(), "server_hostname": url.hostname} if secure else {}
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(CONNECT_S):
            port = url.port or (443 if secure else 80)
            for family, kind, number, _, address in await loop.getaddrinfo(url.hostname, port, type=socket.SOCK_STREAM):
                sock = LeasedSocket(family, kind, number)
                try:
                    sock.lease = lease
                    sock.setblocking(False)
                    await loop.sock_connect(sock, address)
                    return (await loop.create_connection(protocol, sock=sock, **tls))[1]
                except BaseException as error:
                    sock.close()
                    if not isinstance(error, OSError):
                        raise
                    refused = error
        raise refused
    except (OSError, ValueError) as error:  # a timeout is an OSError
        why = str(error) or f"no answer within {CONNECT_S:g} s"
        raise SlotUnreachable(f"Slot {lease.slot.id} cannot be reached: {why}.", browserId=lease.slot.id) from None


def notice_death(transport: asyncio.BaseTransport) -> None:
    """Have the system close a connection whose peer has vanished without a word."""
    sock = transport.get_extra_info("socket")
    for name, value in _ALIVE.items():
        with suppress(AttributeError, OSError):  # an option that this system does not have
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
