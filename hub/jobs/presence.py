"""The Socket.IO connections of each worker, over all hubs. A worker whose last connection ends is removed after a short
grace, unless it is back by then."""

from __future__ import annotations

from functools import partial

from hub.errors import StoreUnavailable, UnknownReply
from hub.observability import metrics
from hub.observability.logs import get_logger
from hub.settings import Settings
from hub.store.rounds import rounds
from hub.store.store import Store

ROUND_S = 1.0  # time between rounds; a hub that is gone is found within it, after the 3 s in which it may only be slow
BATCH = 25  # connections of a hub that is gone, per script: a few workers each, under 1 ms
WORKERS_MAX = 1000  # most workers bound to one connection, because one script handles its end
_log = get_logger("hub.presence")


class Presence:
    """The connections of this hub and the workers bound to them. The store names a connection `hub.connection`."""

    def __init__(self, store: Store, settings: Settings, hub_id: str) -> None:
        self._store = store
        self._hub_id = hub_id
        self._grace_ms = int(settings.sio_disconnect_grace_s * 1000)
        self._open: dict[str, dict[str, str]] = {}  # connection of this hub -> worker bound to it -> user of the worker
        self._bind = store.script("presence/bind")
        self._unbind = store.script("presence/unbind")
        self._retire = store.script("presence/retire")
        store.when_replaced(self._bind_again)

    def stop(self) -> None:
        """Keep workers from being removed when their connections end: this hub is about to close all of them."""
        self._grace_ms = -1

    def connected(self, connection: str) -> None:
        """Note a new connection to this hub; workers may be bound to it until `ended` is called for it."""
        self._open[connection] = {}

    async def bind(self, worker: str, user: str, connection: str) -> bool:
        """Bind a worker of this user to a connection; return False when the worker is unknown or another user's, or the
        connection has the most workers it may have.
        """
        self._open.get(connection, {})[worker] = user  # first, so that `ended` unbinds it also if this call is cut off
        match await self._bind(
            worker=worker, user=user, connection=self._name(connection), hub=self._hub_id, most=WORKERS_MAX
        ):
            case ["ok"]:
                if connection not in self._open:  # the connection ended while the script was on its way
                    await self._end(connection)
                return True
            case [("worker" | "forbidden" | "full") as word]:
                self._open.get(connection, {}).pop(worker, None)
                _log.debug("worker not bound to a socket", worker=worker, connection=connection, why=word)
                return False
            case reply:
                raise UnknownReply(self._bind.name, reply)

    async def ended(self, connection: str) -> None:
        """Unbind the workers of a connection that has ended: each is removed after the grace, unless it is bound again
        or has another connection.

        While Redis is away this is put off, and the grace begins when the store hears of the end.
        """
        if not self._open.pop(connection, None):
            return
        try:
            await self._end(connection)
        except StoreUnavailable:
            self._store.later(partial(self._end, connection))

    async def run(self) -> None:
        """Call `look_after` once a second, for ever."""
        await rounds(ROUND_S, self.look_after, self._not_looked_after)

    def _not_looked_after(self, error: Exception) -> None:
        metrics.sweep_errors.labels("presence").inc()
        _log.error("worker connection check failed", why=repr(error))

    async def look_after(self) -> None:
        """Unbind the connections of hubs that are gone; bind those of this hub again where it was taken for gone."""
        more = known = 1
        while more:
            match await self._retire(hub=self._hub_id, limit=BATCH):
                case ["ok", forgotten, more, known]:
                    if forgotten:
                        _log.info("connections of a lost hub forgotten", connections=forgotten)
                case reply:
                    raise UnknownReply(self._retire.name, reply)
        if not known:
            await self._bind_again()

    async def _bind_again(self) -> None:
        bound = [(worker, user, name) for name, workers in self._open.items() for worker, user in workers.items()]
        for worker, user, connection in bound:
            if connection in self._open:
                await self.bind(worker, user, connection)

    async def _end(self, connection: str) -> None:
        grace_ms = self._grace_ms
        _, hung_up = await self._unbind(connection=self._name(connection), hub=self._hub_id, grace_ms=grace_ms)
        if hung_up:
            _log.info("workers disconnected", workers=hung_up, connection=connection, grace_ms=grace_ms)

    def _name(self, connection: str) -> str:
        return f"{self._hub_id}.{connection}"
