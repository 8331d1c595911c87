"""What slots are like, as the store has it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import orjson

from hub.capacity.attributes import PoolClass, is_name
from hub.capacity.models import MEMBERS_OF_SLOTS, Lease, read_item
from hub.errors import StoreUnavailable
from hub.store.cancelling import retrieve_error
from hub.store.lenient import read_each
from hub.store.store import Store

KNOWN_MAX = 1000  # classes; there are 256 at a time
LOOK_S, LOOKS_MAX = 1.0, 100  # how long a look at a label holds, which takes up to 50 ms; and labels kept


class Likeness(NamedTuple):
    """What a slot is like: its attributes, None where its node says none, and the keys of what is warm in it."""

    attributes: dict[str, Any] | None
    warm: list[str]


class Classes:
    """The classes of slots that a hub has read. What is said of a class never changes."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, dict[str, Any]] = {}

    async def lay_over(self, said: dict[str, Any], of: str) -> dict[str, Any]:
        """Return the members of an item with the attributes that its slot has now, by its class, '' for none; as they
        were published where the store does not tell."""
        if not of:
            return said
        if of not in self._known:
            text = ""
            with suppress(StoreUnavailable):
                text = await self._store.read("HGET", self._store.keys.slot_class(of), "attributes")
            if not text:
                return said
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()
            self._known[of] = orjson.loads(text)
        return laid_over(said, self._known[of])

    async def lease(
        self, slot: str, token: str, item: str, pool: str, left_ms: int, ttl_ms: int, run: str, holder: str, label: str,
        of: str,
    ) -> Lease:  # fmt: skip
        """Return a lease from the facts with which scripts answer it; `of` is the class of its slot."""
        said = await self.lay_over(read_item(item), of)
        return Lease(slot, token, label, pool, run, ttl_ms, left_ms, item, said, holder=holder)


def laid_over(said: dict[str, Any], attributes: dict[str, Any]) -> dict[str, Any]:
    """Return the members of an item with these attributes in place of those that it was published with, which stand in
    `attributes` or, of a slot published in neutral names, beside it."""
    published = said["attributes"] if isinstance(said.get("attributes"), dict) else {}
    apart, beside = {name: each for name, each in published.items() if not is_name(name)}, {}
    for name, each in attributes.items():
        if name in said and name not in MEMBERS_OF_SLOTS:
            beside[name] = _in_order(said[name], each)
        else:
            apart[name] = _in_order(published.get(name), each)
    return {**said, **beside, **({"attributes": apart} if apart or published else {})}


def _in_order(published: Any, now: Any) -> Any:
    """Return a value of an attribute; a list in the order in which it was published, unless it has changed since."""
    lists = isinstance(now, list) and isinstance(published, list)
    same = lists and all(each in now for each in published) and all(each in published for each in now)
    return published if same else now


class Looks:
    """What the slots are like that may serve labels. Callers within `LOOK_S` share one look at the store."""

    def __init__(self, store: Store) -> None:
        self._attributes = store.script("capacity/attributes")
        self._looks: dict[str, tuple[float, asyncio.Task[list[PoolClass]]]] = {}
        self._said: dict[str, dict[str, Any]] = {}  # attributes of classes, which never change

    async def at(self, label: str) -> list[PoolClass]:
        """Return an entry for each pool and each class. Raises `StoreUnavailable`, which is not remembered."""
        since, look = self._looks.get(label, (0.0, None))
        failed = look is not None and look.done() and (look.cancelled() or look.exception() is not None)
        if look is None or failed or time.monotonic() - since >= LOOK_S:
            self._looks.pop(label, None)
            if len(self._looks) >= LOOKS_MAX:
                del self._looks[next(iter(self._looks))]
            look = asyncio.create_task(self._look(label), name="look-at-classes")
            look.add_done_callback(retrieve_error)  # a failure is for the callers that wait
            self._looks[label] = time.monotonic(), look
        return await asyncio.shield(look)

    async def _look(self, label: str) -> list[PoolClass]:
        rows = await self._attributes(label=label)
        each = zip(*[iter(rows)] * 5, strict=True)
        return [PoolClass(pool, self._read(of, text), int(slots), int(free)) for pool, of, text, slots, free in each]

    def _read(self, of: str, text: str) -> dict[str, Any]:
        if of not in self._said:
            if len(self._said) >= KNOWN_MAX:
                self._said.clear()
            self._said[of] = orjson.loads(text)
        return self._said[of]


async def likenesses(store: Store, slots: Sequence[str]) -> list[Likeness]:
    """Return what these slots are like, in this order."""
    keys = store.keys
    rows = await read_each(store, [("HMGET", keys.slot(slot), "class", "warm") for slot in slots], ("", ""))
    classes = list({of for of, _ in rows if of})
    texts = await read_each(store, [("HGET", keys.slot_class(each), "attributes") for each in classes])
    said = {each: orjson.loads(text) for each, text in zip(classes, texts, strict=True) if text}
    return [Likeness(said.get(of), (warm or "").split()) for of, warm in rows]
