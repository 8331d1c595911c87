"""Translation of errors of redis-py and of scripts into errors of the hub."""

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

from hub.errors import ForeignKey, NotSent, StoreFull, StoreUnavailable
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
# The hash slot of the hub moves to another server of its cluster, or has moved (MovedError is an AskError). From inside
# a script the same errors come as plain texts, `_NOT_HERE`.
_MOVES = (AskError, TryAgainError)
_FULL = "Redis has no memory left; nothing was done. `hub memory --store` says who holds it."
_NOT_HERE = ("non local key", "slot not served")


class Late(NotSent):
    """The hub stood still or knew another store, so the caller may have asked another hub since. Nothing was done."""

    code = "late"
    retry_after_s = 1.0


class Overdue(Late):
    """The call came after the time until which its caller said that it waits. Nothing was done."""


class LostAgain(StoreUnavailable):
    """Redis answers, but the store was lost once more while the hub opened it."""


def refusal_of(error: ResponseError) -> NotSent | None:
    """Return the refusal that a script's error stands for: `Overdue` or `Late` for a call that came too late,
    `StoreFull` for one that would use reserved memory. None for any other error. A refused script has done nothing.
    """
    text = str(error)
    if text.startswith("OVERDUE"):
        return Overdue("The caller waits no longer; nothing was done.")
    if text.startswith("LATE"):
        return Late("This hub did not know how the store stands; nothing was done.")
    if text.startswith("FULL"):
        return StoreFull(
            f"Redis has {text.removeprefix('FULL ').partition(';')[0]} in use, and keeps the rest for nodes, leases "
            "and ends; nothing was done. Memory comes back as tasks end and are forgotten, or with a higher maxmemory."
        )
    return None


class StoreTooNew(StoreUnavailable):
    """A later version of the hub has written the store in a format that this version does not know."""

    def __init__(self, format: str) -> None:
        super().__init__(
            f"The store has format {format}, and this hub knows {FORMAT}: a later version of the hub has written it; "
            "start that one."
        )


class StoreMoves(StoreUnavailable):
    """The store is being moved to another server or filled from a copy, so no hub uses it now."""


class StoreMoved(StoreMoves):
    """The store has been moved to another server, whose URL is `url`."""

    def __init__(self, url: str) -> None:
        super().__init__(f"The store has moved to {mask_url(url)}.")
        self.url = url


def refuse_unopened(word: str, detail: str) -> None:
    """Raise the error for a reply of `store/open` that did not open the store; return for every other `word`.

    `detail` is the second part of the reply: a format for `newer`, a URL for `moving` and `moved`.
    """
    if word == "newer":
        raise StoreTooNew(detail)
    if word == "moving":
        raise StoreMoves(f"The store moves to {mask_url(detail)}; nothing is done until it is there.")
    if word == "moved":
        raise StoreMoved(detail)
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
    """Return the hub's error for one of redis-py: `ForeignKey`, `StoreFull` or `StoreUnavailable`; others unchanged."""
    if isinstance(error, ResponseError) and "WRONGTYPE" in str(error):
        return ForeignKey("A key of the hub holds another type than the hub writes; hub doctor tells which.")
    if not (is_away(error) or _moves(error)):
        return error
    away = StoreFull(_FULL) if isinstance(error, OutOfMemoryError) else StoreUnavailable("Redis does not answer.")
    away.__cause__ = error
    return away


def unanswered(error: StoreUnavailable, *, changes: bool) -> StoreUnavailable:
    """Return the error for a call that Redis did not answer. If the call changes something, the text says that the
    change may have been made.
    """
    if not changes or type(error) is not StoreUnavailable:
        return error
    return StoreUnavailable(
        "Redis does not answer; whether the change was made is not known, and repeating it is safe."
    )
