"""NodeSweeperService, which finds nodes that send no heartbeat, checks again, and removes them with their slots."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hub.audit import AuditLog
from hub.batched import batched
from hub.capacity.nodes.nodes import Nodes
from hub.errors import ForeignKey, StoreUnavailable
from hub.observability import metrics
from hub.observability.logs import get_logger
from hub.settings import Settings
from hub.store.clock import HubClock
from hub.store.keys import key_part
from hub.store.lenient import read_each
from hub.store.store import Store
from hub.sweeping.brake import Brake, Nominated, Verdict
from hub.sweeping.reconciler import Reconciler
from hub.sweeping.steps import Sweep

PAGE = 1000  # node ids fetched per read
AT_ONCE = 64  # nodes checked at the same time: their calls go to Redis in one batch
CANDIDATES_MAX = 50_000  # silent nodes per pass; the next pass has the others
STRANGERS_MAX = 2_000  # registered nodes per pass that are searched for nodes that no hub ever heard
NAMES_MAX = 100  # node ids in a result; log lines of one kind in a pass
_log = get_logger("hub.sweeping")


@dataclass
class NodeSweep(Sweep):
    """The result of one pass. `scanned` is the number of registered nodes; `names` are the ids of stale ones."""

    stale: int = 0
    refreshed: int = 0
    slots: int = 0
    ended: int = 0
    adopted: int = 0
    brake: str = "off"
    held: int = 0
    names: list[str] = field(default_factory=list)
    named: int = 0  # lent slots of removed nodes, each of which is logged up to a limit

    @property
    def eventful(self) -> bool:
        return bool(self.stale or self.errors or self.adopted)

    def facts(self) -> dict[str, Any]:
        return {name: value for name, value in super().facts().items() if name not in ("names", "named")}


class NodeSweeperService:
    """The sweeper of silent nodes. It nominates nodes; a script checks each again before it removes node and slots."""

    def __init__(
        self, store: Store, settings: Settings, nodes: Nodes, clock: HubClock, audit: Reconciler, log: AuditLog
    ) -> None:
        self._store = store
        self._audit_log = log
        self._nodes = nodes
        self._clock = clock
        self._audit = audit
        self._brake = Brake(store, settings)
        self._expire_setting = settings.sweeper_expire
        self._keep = settings.sweeper_keep_if_available
        self._grace_s = settings.sweeper_reconnect_grace_s
        self._patience_s = settings.node_sweep_interval_s / 2  # longest wait for reconciling
        self._unmanaged_cursor: Any = "0"
        self._logged_ahead: set[str] = set()

    @property
    def expires(self) -> bool:
        """Return whether stale nodes are removed: by the run-time switch if it is set, else by `HUB_SWEEPER_EXPIRE`."""
        override = self._clock.expire_override
        return self._expire_setting if override is None else override

    async def sweep(self, *, dry_run: bool = False) -> NodeSweep:
        """Make one pass over all nodes that may be stale and return its result. With `dry_run` nothing changes."""
        started = time.monotonic()
        done = NodeSweep()
        if not dry_run:
            done.adopted = await self._audit.look(self._patience_s)
            done.errors += self._audit.errors
        done.scanned = await self._store.read("SCARD", self._store.keys.nodes)
        metrics.nodes_registered.set(done.scanned)
        action = "look" if dry_run else "expire" if self._may_expire() else "refresh"
        nominated = await self._nominate(done.scanned)
        await self._act(nominated, action, await self._verdict(nominated, action), done)
        if not dry_run:
            await self._finish_leaving(done)
        done.elapsed_ms = round((time.monotonic() - started) * 1000, 1)
        return done

    def _may_expire(self) -> bool:
        if self.expires and self._clock.paused_by_outage(self._grace_s):
            _log.warning("expiry paused", why="Redis was away; nodes get time to be heard again", grace_s=self._grace_s)
            return False
        return self.expires

    async def _verdict(self, nominated: Nominated, action: str) -> Verdict:
        if self.expires and action != "refresh":
            return await self._brake.judge(nominated, dry_run=action == "look")
        if not self.expires and action == "refresh":
            await self._brake.lift()
        return Verdict()

    async def _act(self, nominated: Nominated, action: str, verdict: Verdict, done: NodeSweep) -> None:
        done.brake, done.held = verdict.state, verdict.held
        if verdict.allowed is None or action == "look":
            for batch in batched(nominated.ids, AT_ONCE):
                await self._check(batch, action, done)
            return
        waiting = deque(verdict.ids)
        while waiting and done.expired < verdict.allowed:
            room = min(AT_ONCE, verdict.allowed - done.expired, len(waiting))
            await self._check([waiting.popleft() for _ in range(room)], action, done)
        metrics.expiries_held.inc(verdict.held)
        done.errors += verdict.errors
        done.stale = max(done.stale, verdict.stale)
        done.names += list(waiting)[: NAMES_MAX - len(done.names)]

    async def _nominate(self, registered: int) -> Nominated:
        keys = self._store.keys
        clock_ms = int(await self._store.read("HGET", keys.store, "clock_ms") or 0)
        before = f"({clock_ms - self._nodes.timeout_ms}"
        half = f"({clock_ms - self._nodes.timeout_ms // 2}"
        heard, silent_total, suspected = await self._store.read_all(
            [("ZCARD", keys.beats), ("ZCOUNT", keys.beats, "-inf", before), ("ZCOUNT", keys.beats, "-inf", half)]
        )
        silent, unmanaged = await self._silent(before), await self._unmanaged(registered, heard)
        return Nominated(registered, silent, silent_total, unmanaged, registered - heard, suspected - silent_total)

    async def _silent(self, before: str) -> list[str]:
        """Return the ids of nodes whose last heartbeat came before `before`, a score on the hub clock."""
        found: list[str] = []
        while len(found) < CANDIDATES_MAX:
            page = await self._store.read(
                "ZRANGE", self._store.keys.beats, "-inf", before, "BYSCORE", "LIMIT", len(found), PAGE
            )
            found += page
            if len(page) < PAGE:
                break
        return found

    async def _unmanaged(self, registered: int, heard: int) -> list[str]:
        """Return the ids of unmanaged nodes, which no hub ever heard; a pass searches only a part of a large fleet."""
        keys = self._store.keys
        budget = STRANGERS_MAX if heard == registered else STRANGERS_MAX * 10
        seen, found = 0, []
        while seen < min(budget, registered):
            self._unmanaged_cursor, page = await self._store.read(
                "SSCAN", keys.nodes, self._unmanaged_cursor, "COUNT", PAGE
            )
            seen += len(page)
            if page:
                scores = await self._store.read("ZMSCORE", keys.beats, *page)
                found += [node for node, score in zip(page, scores, strict=True) if score is None]
            if str(self._unmanaged_cursor) == "0":
                break
        return list(dict.fromkeys(found))

    async def _check(self, node_ids: Sequence[str], action: str, done: NodeSweep) -> None:
        pools = await asyncio.gather(*(self._lent(node_id, action) for node_id in node_ids))
        replies = await asyncio.gather(
            *(self._nodes.expire(node_id, action, self._keep) for node_id in node_ids), return_exceptions=True
        )
        for node_id, reply, lent in zip(node_ids, replies, pools, strict=True):
            if isinstance(reply, StoreUnavailable):
                raise reply
            if isinstance(reply, BaseException):
                done.errors += 1
                _log.error("node check failed", node=node_id, why=repr(reply))
                continue
            self._count(node_id, reply, done)
            if reply[0] == "expired":
                self._name_pruned(node_id, reply[3], lent, done)
            if reply[0] == "expired" and done.expired <= NAMES_MAX:
                facts = {"nodeId": node_id, "lastSeen": reply[1], "slots": reply[2], "ended": ",".join(reply[3])}
                await self._audit_log.write("node", "node.expired", severity="Warning", actor=node_id, **facts)

    async def _lent(self, node_id: str, action: str) -> dict[str, str]:
        """Return the lent slots of a node and their pools, before the node is removed; {} unless `action` is expire."""
        if action != "expire":
            return {}
        keys = self._store.keys
        (slots,) = await read_each(self._store, [("HKEYS", keys.lent(key_part(node_id)))])
        slots = slots or ()
        pools = await read_each(self._store, [("HGET", keys.slot(slot), "pool") for slot in slots])
        return {slot: pool for slot, pool in zip(slots, pools, strict=True) if pool}

    def _name_pruned(self, node_id: str, ended: Sequence[str], pools: Mapping[str, str], done: NodeSweep) -> None:
        """Log each lent slot that was removed from its in-use list together with its node."""
        for slot in ended:
            done.named += 1
            if done.named <= NAMES_MAX:
                name = self._store.keys.inuse(pools[slot]) if slot in pools else "unknown"
                _log.warning("lent slot removed with its node", list=name, node=node_id, slot=slot)

    def _count(self, node_id: str, reply: list[Any], done: NodeSweep) -> None:
        match reply:
            case ["expired", seen, slots, ended, _]:
                done.expired += 1
                done.slots += slots
                done.ended += len(ended)
                metrics.nodes_expired.inc()
                metrics.leases_ended.labels("node expired").inc(len(ended))
                self._logged_ahead.discard(node_id)
                if done.expired <= NAMES_MAX:
                    _log.warning(
                        "node expired", node=node_id, last_seen=seen or "missing", slots=slots, ended=len(ended)
                    )
            case ["refreshed", seen]:
                done.refreshed += 1
                metrics.nodes_refreshed.inc()
                if done.refreshed <= NAMES_MAX:
                    why = "expiry is paused" if self.expires else "HUB_SWEEPER_EXPIRE is off"
                    _log.info("node refreshed", node=node_id, last_seen=seen or "missing", for_s=30, why=why)
            case ["ahead", seen]:
                if node_id not in self._logged_ahead and len(self._logged_ahead) < 10_000:
                    self._logged_ahead.add(node_id)
                    _log.warning("node clock ahead", node=node_id, last_seen=seen)
                return
            case ["stale", _]:
                pass
            case _:
                return
        done.stale += 1
        if len(done.names) < NAMES_MAX:
            done.names.append(node_id)

    async def _finish_leaving(self, done: NodeSweep) -> None:
        """Finish the removal of nodes whose hub died between two batches of their slots."""
        for part in await self._store.read("HKEYS", self._store.keys.leaving):
            try:
                await self._nodes.prune(part)
            except ForeignKey as error:
                done.errors += 1
                _log.warning("key has the wrong type", record=part, why=str(error))
