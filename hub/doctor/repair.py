"""Repairing: a single script for each trouble, which checks again before it acts and may run any number of times."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping

from hub.core import Hub
from hub.doctor.checks import SLACK_S, UNREAD, Subject, Suspicion, Words
from hub.doctor.job_repair import JobRepairer
from hub.errors import ForeignKey, StoreFault
from hub.observability.logs import get_logger
from hub.settings import Settings
from hub.store.keys import TABLE, name_of
from hub.store.store import Store

_log = get_logger("hub.doctor")
_ENDS_THE_LEASE = {"overdue", "footprint gone"}


class Repairer:
    """Repairs what the checks have found."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._hub = Hub(store, settings)
        self._jobs = JobRepairer(store, settings, self._hub)
        self._node_timeout_s = settings.node_timeout_s
        self._node_ms = int((settings.node_timeout_s + settings.node_sweep_interval_s + SLACK_S) * 1000)
        # Where a slot is comes before who holds it, and both before the indexes that follow from them.
        self._ways = {
            "store": self._counter,
            "places": self._place,
            "slots": self._slot,
            "members": self._member,
            "nodes": self._node,
            "parts": self._part,
            "pools": self._pool,
            "lifetimes": self._lifetime,
            "libraries": self._library,
            "hubs": self._hub_gone,
            "tickets": self._by_name("ticket"),
            "runs": self._by_name("run"),
            "queues": self._by_name("queue"),
            "waits": self._by_name("wait"),
            **self._jobs.ways,
        }
        self._scripts = {
            name: store.script(f"doctor/repair_{name}")
            for name in (
                "counter",
                "place",
                "slot",
                "unmanaged",
                "member",
                "drain",
                "part",
                "pool",
                "hub",
                "ticket",
                "run",
                "queue",
                "wait",
                "store",
            )
        }

    async def repair(self, suspicions: Mapping[Suspicion, Words]) -> None:
        """Repair what is still so, as far as it can be, in the order that leaves nothing behind."""
        order = list(self._ways)
        able = [each for each in suspicions if each.check in order and UNREAD not in suspicions[each]]
        for suspicion in sorted(able, key=lambda each: order.index(each.check)):
            await self._repair(suspicion, suspicions[suspicion])
        if miscounted := [each.subject[0] for each in suspicions if each.check == "counts"]:
            await self._jobs.recount(miscounted)

    async def _repair(self, suspicion: Suspicion, words: Words) -> None:
        """Repair it; what cannot be repaired because a key holds something else stays."""
        try:
            await self._ways[suspicion.check](suspicion.subject, words)
        except (ForeignKey, StoreFault) as error:
            _log.warning(
                "finding not repaired", check=suspicion.check, subject=suspicion.subject[0][:200], why=str(error)
            )

    async def _counter(self, _: Subject, __: Words) -> None:
        await self._scripts["counter"](issued="0")
        await self._scripts["store"]()

    async def _place(self, subject: Subject, _: Words) -> None:
        slot, seen = json.loads(subject[0])
        await self._scripts["place"](slot=slot, seen=json.dumps(seen, ensure_ascii=False))

    async def _slot(self, subject: Subject, words: Words) -> None:
        (slot,) = subject
        if "token above" in words:
            token = await self._store.read("HGET", self._store.keys.session(slot), "leaseToken")
            await self._scripts["counter"](issued=token or "0")
        if words & _ENDS_THE_LEASE:
            await self._hub.leases.lapse([slot])
        if words - _ENDS_THE_LEASE - {"token above"}:
            await self._scripts["slot"](slot=slot)
        if "node unknown" in words:
            await self._scripts["unmanaged"](slot=slot, node_ms=self._node_ms)

    async def _member(self, subject: Subject, _: Words) -> None:
        kind, owner, member = subject
        await self._scripts["member"](kind=kind, owner=owner, member=member)

    async def _node(self, subject: Subject, words: Words) -> None:
        node_id, part = subject
        if "dead" in words:
            await self._hub.nodes.expire(node_id, "expire", keep=False)
        else:
            await self._scripts["drain"](id=node_id, part=part)

    async def _part(self, subject: Subject, words: Words) -> None:
        part, raw = subject
        if "leaving" in words:
            await self._hub.nodes.prune(part)
        await self._scripts["part"](part=part, raw=raw)

    async def _pool(self, subject: Subject, _: Words) -> None:
        label, segments = subject
        await self._scripts["pool"](label=label, segments=segments)

    def _by_name(self, name: str) -> Callable[[Subject, Words], Awaitable[None]]:
        async def repair(subject: Subject, _: Words) -> None:
            argument = {"queue": "label", "wait": "pool"}.get(name, name)
            await self._scripts[name](**{argument: subject[0]})

        return repair

    async def _hub_gone(self, subject: Subject, _: Words) -> None:
        await self._scripts["hub"](hub=subject[0])
        await self._hub.queue.look_after()

    async def _library(self, subject: Subject, _: Words) -> None:
        await self._hub.store.read("FUNCTION DELETE", subject[0])

    async def _lifetime(self, subject: Subject, _: Words) -> None:
        (key,) = subject
        bare = key[len(self._store.keys.prefix) :]
        if kind := name_of(bare):
            seconds = TABLE[kind].seconds or max(1, round(self._node_timeout_s))
            await self._store.read("EXPIRE", key, seconds, "NX")
