"""The brake: when very many nodes, or workers, fall silent at once, the fault may be the hub's, so few are removed.

None is removed in the first timeout, nor while no node at all is heard. After that only some go at a time.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from hub.errors import HubError, UnknownReply
from hub.observability import metrics
from hub.observability.logs import get_logger
from hub.settings import Settings
from hub.store.keys import key_part
from hub.store.store import Store
from hub.sweeping.batches import in_batches

BATCH = 100  # nodes that one script looks at, in under 1 ms
SUSPECTS_MAX = 2_000  # nodes checked for being suspect; if there are more, the share of suspects counts for all
RELEASE_MIN_S = 600.0  # a release ends after this long, or after three sweep intervals if that is longer
JITTER = 0.9  # a pass may come after this share of its interval
_log = get_logger("hub.sweeping")


class BrakeOff(HubError):
    """The brake of the node sweeper was to be released, and it is not engaged."""

    code = "brake-off"
    status = 409


@dataclass(frozen=True)
class Nominated:
    """The nodes that may be stale: `silent` by the index of heartbeats, and `unmanaged`, which no hub ever heard.

    The totals count also those that were not fetched. `suspected`: how many others are silent for half the timeout by
    the index. `heard`, for workers alone: how many sent a heartbeat within half the timeout.
    """

    registered: int
    silent: list[str]
    silent_total: int
    unmanaged: list[str]
    unmanaged_total: int
    suspected: int = 0
    heard: int = 0

    @property
    def others(self) -> str:
        """Return how many of the nodes that are not stale were heard within half the timeout: most, some or none."""
        return "most" if self.heard > self.suspected else "some" if self.heard else "none"

    @property
    def ids(self) -> list[str]:
        """Return the ids of all nominated nodes that were fetched, each once."""
        return list(dict.fromkeys([*self.silent, *self.unmanaged]))

    @property
    def at_most(self) -> int:
        """Return the largest number of nodes that can be stale, before each is looked at."""
        return max(self.silent_total, len(self.silent)) + max(self.unmanaged_total, len(self.unmanaged))


@dataclass(frozen=True)
class Verdict:
    """The decision of the brake about a pass: it may expire `allowed` of the stale `ids`, or all if that is None."""

    state: str = "off"
    stale: int = 0
    allowed: int | None = None
    ids: tuple[str, ...] = ()
    errors: int = 0

    @property
    def held(self) -> int:
        """Return how many stale nodes the brake keeps in this pass."""
        return 0 if self.allowed is None else self.stale - self.allowed


class BrakeStatus(NamedTuple):
    """The brake as operators see it. Numbers and times are None until a pass or a release has set them."""

    state: Literal["off", "engaged", "released"]
    percent: float
    minimum: int
    stale: int | None
    registered: int | None
    per_interval: int | None
    held: int | None
    grace_s: int | None
    why: str | None
    since: str | None
    seen: str | None
    released_by: str | None
    released_at: str | None


def too_many(stale: int, registered: int, percent: int, minimum: int) -> bool:
    """Return whether the brake engages: more than `percent` % of all nodes are stale, and at least `minimum`."""
    return stale >= minimum and stale * 100 > percent * registered


def per_interval(registered: int, percent: int) -> int:
    """Return how many nodes may be expired per interval while the brake is engaged: `percent` %, at least one."""
    return max(1, percent * registered // 100)


def why_none_goes(stale: int, registered: int, grace_left_ms: int, of: str = "nodes") -> str | None:
    """Return in words why the engaged brake lets no node (or worker) be expired now; None if it lets some be."""
    if of == "nodes" and stale >= registered:
        return "nobody at all is heard, so it may be the hub that is deaf"
    if grace_left_ms > 0:
        return f"{of} that are alive have {math.ceil(grace_left_ms / 1000)} s to be heard again"
    return None


def stale_in_all(nominated: Nominated, stale: Collection[str]) -> int:
    """Return how many nodes are stale in all. Silent nodes that were not fetched count as stale. Of unmanaged nodes
    that were not fetched the same share counts as of those that were."""
    unmanaged = set(nominated.unmanaged)
    foreign = sum(node in unmanaged for node in stale)
    silent = len(stale) - foreign + nominated.silent_total - len(nominated.silent)
    if 0 < len(unmanaged) < nominated.unmanaged_total:
        foreign = foreign * nominated.unmanaged_total // len(unmanaged)
    return silent + foreign


class Brake:
    """The brake on nodes or the brake on workers; all hubs share its state through the store."""

    def __init__(self, store: Store, settings: Settings, of: Literal["nodes", "workers"] = "nodes") -> None:
        self._store = store
        self._of = of
        nodes = of == "nodes"
        self._key = store.keys.brake if nodes else store.keys.worker_brake
        self._percent = settings.sweeper_brake_percent
        self._minimum = settings.sweeper_brake_min
        self._worker_timeout_ms = int(settings.worker_timeout_s * 1000)
        interval_s = settings.node_sweep_interval_s if nodes else settings.worker_sweep_interval_s
        self._interval_ms = int(interval_s * 1000)
        self._brake = store.script("sweeping/brake")
        self._release = store.script("sweeping/release_brake")
        self._find_stale = store.script("sweeping/find_stale")

    @property
    def _timeout_ms(self) -> int:
        return self._store.node_timeout_ms if self._of == "nodes" else self._worker_timeout_ms

    async def judge(self, nominated: Nominated, *, dry_run: bool) -> Verdict:
        """Return how many stale nodes (or workers) a pass may expire. Nodes are looked at one by one only when there
        are so many that the brake might engage."""
        at_most = nominated.at_most
        if not self._too_many(at_most, nominated):
            return await self._ask(at_most, nominated, dry_run)
        if self._of == "workers":  # every worker is in the index, and only its heartbeats count
            verdict = await self._ask(nominated.silent_total, nominated, dry_run)
            return replace(verdict, ids=tuple(nominated.silent))
        words, errors = await in_batches(nominated.ids, BATCH, self._states)
        ids = tuple(node for node, word in words if word == "stale")
        stale = stale_in_all(nominated, ids)
        nominated = replace(nominated, suspected=await self._suspected(nominated.suspected) if stale else 0)
        verdict = await self._ask(stale, nominated, dry_run)
        return replace(verdict, ids=ids, errors=errors)

    async def lift(self) -> None:
        """End the brake if it is engaged, because expiry is off and no node is removed anyway."""
        await self._ask(0, Nominated(0, [], 0, [], 0), dry_run=False)

    async def release(self, by: str) -> None:
        """Let all hubs expire the nodes that the brake holds back; raises `BrakeOff` if it is not engaged."""
        for_ms = max(int(RELEASE_MIN_S * 1000), 3 * self._interval_ms)
        match await self._release(by=by, for_ms=for_ms, of=self._of):
            case ["off"]:
                raise BrakeOff("The brake is not engaged; there is nothing to release")
            case ["released", who, at]:
                _log.warning("brake released", of=self._of, by=who, at=at)
            case reply:
                raise UnknownReply(self._release.name, reply)

    async def status(self) -> BrakeStatus:
        """Return the brake's state, what the last pass found, and why no node is removed, if none is."""
        keys = self._store.keys
        found, clock_ms = await self._store.read_all([("HGETALL", self._key), ("HGET", keys.store, "clock_ms")])
        stale, registered = _number(found.get("stale")), _number(found.get("registered"))
        grace_s = why = None
        if found.get("state") == "engaged" and stale is not None and registered is not None:
            now_ms = int(clock_ms or 0)
            begun_ms = now_ms if self._of == "nodes" and stale >= registered else int(found.get("since_ms") or now_ms)
            left_ms = min(self._timeout_ms, max(0, begun_ms + self._timeout_ms - now_ms))
            grace_s, why = math.ceil(left_ms / 1000), why_none_goes(stale, registered, left_ms, self._of)
        return BrakeStatus(
            state=found.get("state", "off"),
            percent=self._percent,
            minimum=self._minimum,
            stale=stale,
            registered=registered,
            per_interval=_number(found.get("limit")),
            held=_number(found.get("held")),
            grace_s=grace_s,
            why=why,
            since=found.get("since"),
            seen=found.get("seen"),
            released_by=found.get("released_by"),
            released_at=found.get("released_at"),
        )

    def _too_many(self, stale: int, nominated: Nominated) -> bool:
        """Return whether the brake engages. Once one node is stale, the suspect ones count too: nodes send heartbeats
        at different times, so nodes that fall silent together become stale one after the other.
        """
        counted = stale + nominated.suspected if stale else 0
        return too_many(counted, nominated.registered, self._percent, self._minimum)

    async def _suspected(self, by_index: int) -> int:
        """Return how many of the nodes that the index has silent for half the timeout (`by_index`) are suspect: some
        may have an alive key that another program keeps."""
        keys = self._store.keys
        clock_ms = int(await self._store.read("HGET", keys.store, "clock_ms") or 0)
        between = f"{clock_ms - self._timeout_ms}", f"({clock_ms - self._timeout_ms // 2}"
        some = await self._store.read("ZRANGE", keys.beats, *between, "BYSCORE", "LIMIT", 0, SUSPECTS_MAX)
        words, _ = await in_batches(some, BATCH, self._states)
        found = sum(word == "suspect" for _, word in words)
        return found * max(by_index, len(some)) // max(1, len(some))

    async def _states(self, batch: Sequence[str]) -> list[str]:
        facts = [text for node in batch for text in (node, key_part(node))]
        return list(await self._find_stale(timeout_ms=self._timeout_ms, rest=facts))

    async def _ask(self, stale: int, nominated: Nominated, dry_run: bool) -> Verdict:
        registered = nominated.registered
        word, allowed = await self._brake(
            pass_id=secrets.token_hex(8), too_many=int(self._too_many(stale, nominated)), stale=stale,
            registered=registered, limit=per_interval(registered, self._percent),
            window_ms=int(self._interval_ms * JITTER), grace_ms=self._timeout_ms, dry_run=int(dry_run), of=self._of,
            others=nominated.others,
        )  # fmt: skip
        if not dry_run:
            self._log_change(word, stale, nominated)
        if word in ("engaged", "held"):
            return Verdict("engaged", stale, allowed)
        return Verdict("released" if word == "released" else "off", stale)

    def _log_change(self, word: str, stale: int, nominated: Nominated) -> None:
        registered = nominated.registered
        gauge = metrics.brake_engaged if self._of == "nodes" else metrics.worker_brake_engaged
        gauge.set(word in ("engaged", "held"))
        if word == "engaged":
            _log.warning(
                "brake engaged",
                of=self._of,
                stale=stale,
                suspected=nominated.suspected,
                registered=registered,
                percent=self._percent,
                per_interval=per_interval(registered, self._percent),
                grace_s=self._timeout_ms / 1000,
                why=why_none_goes(stale, registered, self._timeout_ms, self._of),
            )
        elif word == "ended":
            _log.warning("brake ended", of=self._of, stale=stale, registered=registered)


def _number(text: str | None) -> int | None:
    return None if text is None else int(text)
