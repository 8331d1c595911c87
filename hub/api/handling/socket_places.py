"""The number of Socket.IO sessions in this process, bounded for each address, for each credential, and in all."""

from __future__ import annotations

import time
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

from hub.api.handling.shares import SHARE, Shares
from hub.api.handling.wrong_secrets import neighbourhood
from hub.errors import Unavailable
from hub.observability.logs import get_logger

SESSIONS_MAX: Final = 20_000  # sessions in this process, some 14 kB each
STRANGERS_MAX: Final = 4_000  # sessions that have shown no known credential
STRANGERS_EACH: Final = 1_000  # such sessions of one address; workers show their credential at once
WARNING_S: Final = 60.0  # between two lines in the log
_AGAIN_S: Final = 5.0
_log = get_logger("hub.sockets")


@dataclass(eq=False)
class Place:
    """A place for one session, or for a request that is about to begin a session. The place counts as a stranger's
    until the session has shown a credential that the hub knows."""

    address: str
    credential: object = None
    stranger: bool = True
    begun: bool = False
    given_back: bool = False


class Places:
    """The count of places of every realm in this process. `take` and `let_in` raise `Unavailable` where there is
    none."""

    def __init__(self) -> None:
        share = int(SESSIONS_MAX * SHARE)
        self.all = Shares(SESSIONS_MAX, share)  # by address
        self.strangers = Shares(STRANGERS_MAX, STRANGERS_EACH)  # by address
        self.known = Shares(SESSIONS_MAX, share)  # by credential
        self._warned = -WARNING_S

    def take(self, address: str | None) -> Place:
        """Return a place for a request that begins a session."""
        place = Place(neighbourhood(address))
        if self.all.is_used_up_by(place.address) or self.strangers.is_used_up_by(place.address):
            raise self._refusal("This address has too many Socket.IO sessions", place.address)
        if self.all.is_used_up() or self.strangers.is_used_up():
            raise self._refusal("The hub has too many Socket.IO sessions", place.address)
        self.all.take(place.address)
        self.strangers.take(place.address)
        return place

    def let_in(self, place: Place, credential: object) -> None:
        """Count a place for its credential from now on, because the session has shown a credential that the hub knows;
        raises `Unavailable` when too many sessions have shown it."""
        if place.given_back or not place.stranger:
            return
        if self.known.is_used_up_by(credential):
            raise self._refusal("This credential has too many Socket.IO sessions", place.address)
        self.strangers.give_back(place.address)
        self.known.take(credential)
        place.stranger, place.credential = False, credential

    def give_back(self, place: Place) -> None:
        """Free a place; a second call changes nothing."""
        if place.given_back:
            return
        place.given_back = True
        self.all.give_back(place.address)
        if place.stranger:
            self.strangers.give_back(place.address)
        else:
            self.known.give_back(place.credential)

    def _refusal(self, why: str, address: str) -> Unavailable:
        now = time.monotonic()
        if now - self._warned >= WARNING_S:
            self._warned = now
            counts = {"open": self.all.count, "strangers": self.strangers.count}
            _log.warning("socket limit reached", why=why, address=address, **counts)
        return Unavailable(f"{why}; try again in {_AGAIN_S:g} s.", retry_after_s=_AGAIN_S)


class Sessions(dict[str, Any]):
    """The sessions of python-engineio by id. Each holds the place that the request which began it has taken."""

    def __init__(self, places: Places) -> None:
        super().__init__()
        self._places = places
        self._taken: dict[str, Place] = {}
        self._reserved: ContextVar[list[Place] | None] = ContextVar("coming", default=None)

    def reserve(self, address: str | None) -> Place:
        """Take a place for the session that the current request is about to begin; raises `Unavailable` when there is
        none."""
        place = self._places.take(address)
        self._reserved.set([place])  # in a list that `__setitem__` empties: asyncio tasks started later share the list
        return place

    def release(self, place: Place) -> None:
        """Free the place of a request unless it has begun a session, which keeps the place."""
        self._reserved.set(None)
        if not place.begun:
            self._places.give_back(place)

    def let_in(self, sid: str, credential: object) -> None:
        """Count a session for its credential from now on; raises `Unavailable` when this credential has too many."""
        if place := self._taken.get(sid):
            self._places.let_in(place, credential)

    def clear(self) -> None:
        """Forget all sessions, and free their places."""
        for sid in list(self):
            del self[sid]

    def pop(self, sid: str, *default: Any) -> Any:
        """Forget a session, and free its place."""
        self._free(sid)
        return super().pop(sid, *default)

    def __setitem__(self, sid: str, session: Any) -> None:
        if not (reserved := self._reserved.get()):  # each request begins one session at most
            raise Unavailable("This request has no place for a session.")
        place = reserved.pop()
        place.begun = True
        self._taken[sid] = place
        super().__setitem__(sid, session)

    def __delitem__(self, sid: str) -> None:
        self._free(sid)
        super().__delitem__(sid)

    def _free(self, sid: str) -> None:
        if place := self._taken.pop(sid, None):
            self._places.give_back(place)
