"""The check whether any pool can serve a label; if none can, it finds the label that was probably meant.

Without this check a misspelled label would look like a pool in which nothing is free.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from difflib import get_close_matches

from hub.capacity.agreed import Agreed
from hub.capacity.labels import SEGMENTS_MAX
from hub.capacity.models import BorrowRequest, Ticket
from hub.capacity.pools import Pools
from hub.capacity.where import hint as unlike
from hub.capacity.where import parse
from hub.capacity.wishes import Alternative, BundleWish
from hub.errors import NoSuchPool
from hub.store.store import Store

KNOWN_S = 5.0  # how long it is remembered that some pool can serve a label
KNOWN_MAX = 10_000
COMPARED = 500  # most pools whose labels a misspelled label is compared with: takes a few ms
LIKE = 0.7  # two labels at least so alike (1: equal) may be a label and its misspelling


class Hints:
    """The check that some pool serves a label. A label that a pool served within `KNOWN_S` is not checked again."""

    def __init__(self, store: Store, agreed: Agreed, pools: Pools) -> None:
        self._store = store
        self._pools = pools
        self._agreed = agreed
        self._served: dict[str, float] = {}
        self._labels: tuple[float, list[str]] = (0.0, [])

    async def check(self, *labels: str) -> None:
        """Raise `NoSuchPool` when no pool can serve one of these labels, whether anything is free or not."""
        if await self._any_served(labels):
            return
        await self._pools.discover()
        if not await self._any_served(labels):
            raise NoSuchPool(await self._sentence(labels[0]))

    async def _any_served(self, labels: Sequence[str]) -> bool:
        return any([await self.is_served(label) for label in labels])

    async def of(self, label: str, *alternatives: Alternative) -> str:
        """Return a sentence that says that no pool can serve the label, or that no slot could be as is demanded; of
        several alternatives for each. '' when a slot could serve one of them."""
        found = []
        for each in alternatives or (Alternative(label),):
            if not await self.is_served(each.label):
                found.append(await self._sentence(each.label))
            elif each.where:
                found.append(await self._unlike(each))
            else:
                return ""
        return "; ".join(found) if all(found) else ""

    async def of_borrow(self, wanted: BorrowRequest | Ticket) -> str:
        """Return what `of` says of a borrow; of a bundle for the first part of which it says something."""
        wish = BundleWish.read(wanted.bundle)
        if not wish:
            return await self.of(wanted.label, *wanted.alternatives)
        for part in wish.parts:
            if hint := await self.of(part.label, part.each):
                return hint
        return ""

    async def _unlike(self, wanted: Alternative) -> str:
        why = unlike(parse(wanted.where), wanted.label, await self._pools.classes(wanted.label))
        full = bool(why) and await self._pools.are_classes_full()
        return f"{why}, and the hub has as many kinds of slots as HUB_CLASSES_MAX allows" if full else why

    async def is_served(self, label: str) -> bool:
        """Return whether a pool with slots, free or lent, could serve a label."""
        now = time.monotonic()
        if now - self._served.get(label, -KNOWN_S) < KNOWN_S:
            return True
        segments = label.split(":")
        if self._agreed.holds.wildcards and "*" in segments:
            return True  # the script that lends decides which pools a label with `*` fits
        least = 2 if self._agreed.holds.trailing else len(segments)
        stems = [":".join(segments[:count]) for count in range(len(segments), least - 1, -1)] or [label]
        keys, upto = self._store.keys, SEGMENTS_MAX + 1 if self._agreed.holds.prefix else len(segments)
        asked: list[tuple[str | int, ...]] = [("ZMSCORE", keys.pools, *stems)]
        # `open_pools` also lists pools of which all slots are other programs'.
        asked += [("ZMSCORE", keys.open_pools(str(stem.count(":") + 1)), stem) for stem in stems]
        places = [keys.pools, *(keys.open_pools(str(count)) for count in range(len(segments) + 1, upto))]
        # ';' is the character after ':', so these bounds enclose all longer labels that begin with this one.
        bounds = (f"[{label}:", f"({label};", "BYLEX", "LIMIT", 0, 1)
        longer = [("ZRANGE", place, *bounds) for place in places] if self._agreed.holds.prefix else []
        found = await self._store.read_all([*asked, *longer])
        served = any(score is not None for scores in found[: len(asked)] for score in scores) or any(
            found[len(asked) :]
        )
        if served:
            if len(self._served) >= KNOWN_MAX:
                self._served.clear()
            self._served[label] = now
        return served

    async def _sentence(self, label: str) -> str:
        now = time.monotonic()
        read_at, labels = self._labels
        if now - read_at >= KNOWN_S or not labels:
            _, labels = await self._pools.labels(0, COMPARED)
            self._labels = now, labels
        if not labels:
            return f"no pool serves {label}; there is no pool yet"
        meant = nearest(label, labels)
        return f"no pool serves {label}; did you mean {meant}?" if meant else f"no pool serves {label}"


def nearest(label: str, labels: list[str]) -> str:
    """Return the one of `labels` that is most like `label`, '' where none is like it enough (`LIKE`)."""
    folded = {other.lower().replace("0", "o"): other for other in reversed(labels)}
    found = get_close_matches(label.lower().replace("0", "o"), folded, n=1, cutoff=LIKE)
    return folded[found[0]] if found else ""
