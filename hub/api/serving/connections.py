"""The connections of this process: how many there may be in all and from each address, and which ones the hub closes
when there are too many."""

from __future__ import annotations

import math
import resource
import time
from collections.abc import Collection
from typing import Protocol

from hub.observability.logs import get_logger
from hub.settings import Settings

DESCRIPTORS_MAX = 65_536  # the hub asks the system for no more descriptors
RESERVED = 64  # descriptors kept for Redis, logs and files: 64, or a sixteenth of all if that is more
WARNING_SHARE = 0.8  # the share of the connections there may be at which the log warns
WARNING_S = 60.0  # between two equal warnings in the log
SHARE = 0.05  # of the connections there may be that are closed together, because each search costs time
_log = get_logger("hub.connections")


class Connection(Protocol):
    """A connection that `Connections` counts and may close."""

    def waits_since(self) -> float:
        """Return the time on the loop's clock at which the hub began to wait for the client; infinite while the client
        waits for the hub."""

    def let_go(self) -> None:
        """Close this connection at once, without sending what is left."""


class Connections:
    """The count of open connections. When there are too many, a new connection takes the place of the connections whose
    clients have been silent for longest, first of those from its own address. The new connection is refused when every
    other one is being served."""

    def __init__(self) -> None:
        self._by_address: dict[str, set[Connection]] = {}
        self._address_of: dict[Connection, str] = {}
        self._most = self._most_each = self._warn_above = 2**31
        self._warned_at: dict[str, float] = {}

    def configure(self, settings: Settings) -> None:
        """Raise the limit of file descriptors as far as the system allows, and bound the connections below that
        limit."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = DESCRIPTORS_MAX if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS_MAX)
        if soft != resource.RLIM_INFINITY and soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
        if soft == resource.RLIM_INFINITY:
            soft = DESCRIPTORS_MAX
        self.limit(max(16, soft - max(RESERVED, soft // 16)), settings.connections_per_address)

    def limit(self, most: int, each: int = 0) -> None:
        """Allow at most `most` connections, and at most `each` from one address; with `each` 0, three quarters of
        `most`."""
        self._most = most
        self._most_each = min(most, each or max(1, most * 3 // 4))
        self._warn_above = int(most * WARNING_SHARE)

    def opened(self, connection: Connection, address: str) -> bool:
        """Count a new connection from this address, and close others when there are too many. Return False when there
        is no place for the new one even so."""
        if len(self._from(address)) >= self._most_each:
            self._warn("too many connections from one address", address=address, most=self._most_each)
            self._make_room(self._from(address), self._most_each)
        if self._count >= self._most:
            self._make_room(self._address_of, self._most)
        if len(self._from(address)) >= self._most_each or self._count >= self._most:
            self._warn("connection refused", address=address, open=self._count, why="all others are being served")
            return False
        self._by_address.setdefault(address, set()).add(connection)
        self._address_of[connection] = address
        if self._count > self._warn_above:
            self._warn("file descriptors running short", open=self._count, most=self._most)
        return True

    def closed(self, connection: Connection) -> None:
        """Stop counting a connection; does nothing for a connection that is not counted."""
        address = self._address_of.pop(connection, None)
        if address is not None:
            connections = self._by_address[address]
            connections.remove(connection)
            if not connections:
                del self._by_address[address]

    @property
    def _count(self) -> int:
        return len(self._address_of)

    def _from(self, address: str) -> Collection[Connection]:
        return self._by_address.get(address, ())

    def _make_room(self, connections: Collection[Connection], most: int) -> None:
        waiting = [(since, n, each) for n, each in enumerate(connections) if (since := each.waits_since()) < math.inf]
        for _, _, connection in sorted(waiting)[: max(1, int(most * SHARE))]:
            self.closed(connection)
            connection.let_go()

    def _warn(self, what: str, **facts: object) -> None:
        now = time.monotonic()
        if now - self._warned_at.get(what, -WARNING_S) >= WARNING_S:
            self._warned_at[what] = now
            _log.warning(what, **facts)
