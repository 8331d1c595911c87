"""Reading a stream as one of a group of readers: each entry goes to one reader, and to another if that one does not
acknowledge it in time."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

from hub.errors import ForeignKey, HubError, StoreFault, StoreUnavailable
from hub.store.follow import StreamConnection
from hub.store.store import Store

_GONE = ("NOGROUP", "UNBLOCKED")  # the stream was deleted with its groups, before the read or during it
_IDLE_S = 60  # a reader that is silent for longer and holds no entry is removed: its process is gone

Entry = tuple[str, dict[str, str]]


class GroupReader(StreamConnection):
    """A reader of a stream. It also gets entries that another reader has not acknowledged for `idle_s` seconds."""

    def __init__(self, store: Store, key: str, group: str, reader: str, idle_s: float) -> None:
        super().__init__(store, key)
        self._group = group
        self._reader = reader
        self._idle_ms = int(idle_s * 1000)
        self._forget = store.script("internal/forget_readers")
        self._leave = store.script("internal/leave")
        self._store = store
        self._looked_at = float("-inf")
        self._cursor = "0-0"

    async def join(self) -> None:
        """Make the stream and the group where they are missing; a new group reads from the beginning of the stream.

        Raises `ForeignKey` when the key is no stream, `StoreUnavailable` and `StoreFault`.
        """
        await self._forget(key=self._key, group=self._group, idle_ms=_IDLE_S * 1000)
        with suppress(_There):
            await self._ask("XGROUP", "CREATE", self._key, self._group, "0", "MKSTREAM")

    async def next(self, most: int) -> list[Entry]:
        """Return at most `most` entries, as soon as there are any; an empty list after a second."""
        try:
            return await self._left_over(most) or await self._new(most)
        except _Gone:
            await self.join()
            return []

    async def acknowledge(self, entry: str) -> None:
        """Acknowledge an entry, so that no reader gets it again."""
        await self._store.read("XACK", self._key, self._group, entry)

    async def close(self) -> None:
        """Leave the group, let other readers have the entries that were not acknowledged, and return the connection."""
        with suppress(StoreUnavailable, StoreFault):
            await self._leave(key=self._key, group=self._group, reader=self._reader, idle_ms=self._idle_ms + 1)
        await super().close()

    async def _left_over(self, most: int) -> list[Entry]:
        """Return entries that other readers did not acknowledge within `idle_s`; looks for them twice in that time."""
        if self._cursor == "0-0" and time.monotonic() - self._looked_at < self._idle_ms / 2000:
            return []
        self._looked_at = time.monotonic()
        self._cursor, entries, _ = await self._ask(
            "XAUTOCLAIM", self._key, self._group, self._reader, self._idle_ms, self._cursor, "COUNT", most
        )
        return list(entries)

    async def _new(self, most: int) -> list[Entry]:
        group = ("GROUP", self._group, self._reader)
        found = await self._ask("XREADGROUP", *group, "COUNT", most, "BLOCK", self._wait_ms, "STREAMS", self._key, ">")
        return list(found[0][1]) if found else []

    async def _ask(self, *command: Any) -> Any:
        try:
            return await super()._ask(*command)
        except HubError as error:
            reason = str(error.__cause__)
            if reason.startswith(_GONE):
                raise _Gone from error
            if reason.startswith("BUSYGROUP"):
                raise _There from error
            if isinstance(error, ForeignKey):
                raise ForeignKey(f"The key {self._key} of Redis is no stream; another program uses it.") from error
            raise


class _Gone(Exception):
    """The stream or its group of readers does not exist."""


class _There(Exception):
    """The group of readers exists already."""
