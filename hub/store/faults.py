"""What an error of redis-py means to the hub."""

from __future__ import annotations

from redis.exceptions import (
    AskError,
    BusyLoadingError,
    ClusterDownError,
    MasterDownError,
    MaxConnectionsError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    ResponseError,
    TryAgainError,
)
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from hub.errors import ForeignKey, Late, NotSent, StoreFull, StoreUnavailable
from hub.settings.knobs import mask_url
from hub.store.formats import FORMAT
from hub.store.primary import AnotherServer

_AWAY = (
    RedisConnectionError,
    AnotherServer,
    ClusterDownError,
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
# The slot of the hub moves to another server of its cluster, or has moved (MovedError is an AskError). What a script
# says of it is no more than a text.
_MOVES = (AskError, TryAgainError)
_FULL = "Redis has no memory left; nothing was done. `hub usage --store` says who holds it."
_NOT_HERE = ("non local key", "slot not served")


class Overdue(Late):
    """A refusal: the time is over for which the caller has said it waits."""


class LostAgain(StoreUnavailable):
    """Redis answers, and lost everything once more while the hub opened the store."""


def refusal_of(error: ResponseError) -> NotSent | None:
    """Return what a script has refused before it did anything: a call that comes too late, by `lua/store.lua`, or one
    that would reach into the reserve, by `lua/command.lua`; None where the error says something else.
    """
    said = str(error)
    if said.startswith("OVERDUE"):
        return Overdue("The caller waits no longer; nothing was done.")
    if said.startswith("LATE"):
        return Late("This hub did not know how the store stands; nothing was done.")
    if said.startswith("FULL"):
        return StoreFull(
            f"Redis has {said.removeprefix('FULL ').partition(';')[0]} in use, and keeps the rest for nodes, leases "
            "and ends; nothing was done. Memory comes back as tasks end and are forgotten, or with a higher maxmemory."
        )
    return None


class StoreTooNew(StoreUnavailable):
    """The store is of a later version of the hub, which this one does not understand; it is left as it is."""

    def __init__(self, format: str) -> None:
        super().__init__(
            f"The store has format {format}, and this hub knows {FORMAT}: a later version of the hub has written it; "
            "start that one."
        )


class StoreMoves(StoreUnavailable):
    """A refusal: the store is on its way to another server, or is being filled, and no hub serves from it now."""


class StoreMoved(StoreMoves):
    """The store is at another server by now."""

    def __init__(self, url: str) -> None:
        super().__init__(f"The store has moved to {mask_url(url)}.")
        self.url = url


def refuse_unopened(word: str, said: str) -> None:
    """Raise what it means that `store/open` did not open the store."""
    if word == "newer":
        raise StoreTooNew(said)
    if word == "moving":
        raise StoreMoves(f"The store moves to {mask_url(said)}; nothing is done until it is there.")
    if word == "moved":
        raise StoreMoved(said)
    if word == "filling":
        raise StoreMoves("The store is being filled from a copy, or that was cut short: repeat it.")
    if word == "later":
        raise StoreUnavailable("The store is empty, and this hub stood still: one that did not opens it first.")


def is_away(error: Exception) -> bool:
    """Return whether this error means that Redis cannot serve any caller now."""
    return isinstance(error, _AWAY) or (isinstance(error, ResponseError) and str(error).startswith(_AWAY_WORDS))


def _moves(error: Exception) -> bool:
    is_said = isinstance(error, ResponseError) and any(words in str(error) for words in _NOT_HERE)
    return is_said or isinstance(error, _MOVES)


def translated(error: Exception) -> Exception:
    """Return an error of redis-py as one of the hub's where it means the store or a key; else the error itself."""
    if isinstance(error, ResponseError) and "WRONGTYPE" in str(error):
        return ForeignKey("A key of the hub holds another type than the hub writes; hub doctor tells which.")
    if not (is_away(error) or _moves(error)):
        return error
    away = StoreFull(_FULL) if isinstance(error, OutOfMemoryError) else StoreUnavailable("Redis does not answer.")
    away.__cause__ = error
    return away


def unanswered(error: StoreUnavailable, *, changes: bool) -> StoreUnavailable:
    """Return the error of a call that Redis did not answer: of one that changes something, that it may have done so."""
    if not changes or type(error) is not StoreUnavailable:
        return error
    return StoreUnavailable(
        "Redis does not answer; whether the change was made is not known, and repeating it is safe."
    )
