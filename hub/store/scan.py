"""Iteration over the keys of a store and over the members of a key, a bounded number at a time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from hub.store.lenient import read_each
from hub.store.store import Store

PAGE = 500  # keys per step through the keyspace: under 1 ms of Redis
LIST_PAGE = 500  # items or members fetched at a time
_SCANS = {"hash": "HSCAN", "set": "SSCAN", "zset": "ZSCAN"}


async def keys_of(store: Store, begin: str) -> AsyncIterator[list[str]]:
    """Yield, in batches, the key names that begin with `begin`. A key that is made or deleted meanwhile may be left
    out, and any key may come twice.
    """
    cursor: Any = "0"
    options = ("MATCH", pattern(begin)) if begin else ()
    while True:
        cursor, names = await store.read("SCAN", cursor, *options, "COUNT", PAGE)
        yield list(dict.fromkeys(names))
        if str(cursor) == "0":
            return


async def members_of(store: Store, key: str, kind: str) -> AsyncIterator[list[str]]:
    """Yield, in batches, the members of a set or sorted set or the field names of a hash, by `kind`; nothing for a key
    of another type.
    """
    cursor: Any = "0"
    while True:
        (page,) = await read_each(store, [(_SCANS[kind], key, cursor, "COUNT", LIST_PAGE)])
        if page is None:
            return
        cursor, found = page
        yield _names(found)
        if str(cursor) == "0":
            return


async def items_of(store: Store, key: str) -> AsyncIterator[list[str]]:
    """Yield the items of a list in batches; nothing for a key of another type."""
    position = 0
    while True:
        (items,) = await read_each(store, [("LRANGE", key, position, position + LIST_PAGE - 1)])
        if not items:
            return
        yield items
        position += len(items)


def _names(found: Any) -> list[str]:
    """Return the member or field names in an answer of SSCAN (a list), HSCAN (a dict) or ZSCAN (pairs)."""
    return [each if isinstance(each, str) else each[0] for each in found]


def pattern(begin: str) -> str:
    """Return a glob pattern for SCAN that fits all keys that begin with `begin`."""
    return "".join(f"\\{c}" if c in "*?[]\\^-" else c for c in begin) + "*"
