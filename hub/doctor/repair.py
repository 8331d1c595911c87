"""The repairs of the doctor: one script for each trouble, which checks again before it acts and is safe to repeat."""

from __future__ import annotations

from collections.abc import Mapping

from hub.core import Hub
from hub.doctor.checks import OF_MEMBERS, SLACK_S, UNREAD, Subject, Suspicion, Words, fields_of
from hub.doctor.counts import RecordCounts
from hub.doctor.holdings import KINDS, Holdings
from hub.doctor.stocks import Stocks
from hub.errors import ForeignKey, StoreFault
from hub.jobs.jobs import new_id
from hub.observability.logs import get_logger
from hub.settings import Settings
from hub.store.keys import TABLE, name_of
from hub.store.store import Store

BATCH = 64  # tasks of a removed worker per script, which takes about 2 ms
_log = get_logger("hub.doctor")
_OF_TEAMS = {"not of its team", "recalled in vain"}
_OF_TASKS = {"not of its task"}
_ENDS_THE_LEASE = {"overdue", "footprint gone"}
# The order of repairs: the place of a slot, then its lease, then the indexes that follow from both. For jobs and tasks:
# the records, then the indexes that point to them, then the counts.
_ORDER = (
    *("store", "places", "slots", "members", "shares", "reserver", "nodes", "parts", "pools", "lifetimes", "libraries"),
    *("classed", "offers", "hubs", "tickets", "runs", "listings", "lines", "team_lines", "wants", "queues", "waits"),
    *("jobs", "workers", "links", "tasks", "providers", "schedules", "entries", "groups"),
)


class Repairer:
    """The repairer of the troubles that the checks have found."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._hub = Hub(store, settings)
        self._settings = settings
        self._counts = RecordCounts(store)
        self._holdings = Holdings(store)
        self._script = store.script("doctor/repair")
        self._leases_ms = int((settings.borrow_ttl_sweep_s + SLACK_S) * 1000)
        self._node_ms = int((settings.node_timeout_s + settings.node_sweep_interval_s + SLACK_S) * 1000)
        # The checks whose findings need more than the repair of the same name in `lua/doctor.lua`.
        self._ways = {
            "slots": self._slot,
            "nodes": self._node,
            "parts": self._part,
            "lifetimes": self._lifetime,
            "libraries": self._library,
            "hubs": self._silent_hub,
            "jobs": self._job,
            "workers": self._worker,
        }

    async def repair(self, suspicions: Mapping[Suspicion, Words]) -> None:
        """Repair these findings as far as possible, in the order of `_ORDER`; log those that cannot be repaired."""
        able = [each for each in suspicions if each.check in _ORDER and UNREAD not in suspicions[each]]
        for suspicion in sorted(able, key=lambda each: _ORDER.index(each.check)):
            try:
                await self._repair(suspicion, suspicions[suspicion])
            except (ForeignKey, StoreFault) as error:  # a key has the wrong type, and is left as it is
                subject = suspicion.subject[0][:200]
                _log.warning("finding not repaired", check=suspicion.check, subject=subject, why=str(error))
        if kinds := [each.subject[0] for each in suspicions if each.check == "stocks"]:
            differing = await Stocks(self._store).wrong()
            for stock in [each for kind in kinds for each in differing[kind]]:
                await self._run("stocks", *stock)
        if miscounted := [each.subject[0] for each in suspicions if each.check == "counts"]:
            await self._recount(miscounted)
        if kinds := [each.subject[0] for each in suspicions if each.check == "holdings"]:
            found = await self._holdings.wrong()
            for kind in sorted(kinds, key=KINDS.index, reverse=True):  # rooms first: other repairs close some
                for held in found[kind]:
                    await self._run("holdings", kind, *held)

    async def _repair(self, suspicion: Suspicion, words: Words) -> None:
        if way := self._ways.get(suspicion.check):
            await way(suspicion.subject, words)
        else:
            kind = "members" if suspicion.check in OF_MEMBERS else suspicion.check
            await self._run(kind, *fields_of(suspicion))

    async def _run(self, kind: str, *subject: object) -> int:
        """Run a repair of `lua/doctor.lua`; return how many records it left for another call."""
        _, left = await self._script(kind=kind, rest=subject)
        return int(left)

    async def _recount(self, names: list[str]) -> None:
        """Count the tasks of these jobs, and store each count in its job unless the job's numbers changed meanwhile."""
        for full, count in (await self._counts.count(names)).items():
            if count.words:
                await self._run("counts", full, *count.counted, *count.kept)

    async def _slot(self, subject: Subject, words: Words) -> None:
        (slot,) = subject
        if "token above" in words:
            token = await self._store.read("HGET", self._store.keys.session(slot), "leaseToken")
            await self._run("counter", token or "0")
        if words & _ENDS_THE_LEASE:
            await self._hub.leases.lapse([slot])
        if words - _ENDS_THE_LEASE - _OF_TEAMS - _OF_TASKS - {"token above"}:
            await self._run("slots", slot)
        if words & _OF_TEAMS:
            await self._run("team_leases", slot)
        if words & _OF_TASKS:
            await self._run("task_leases", slot, self._leases_ms)
        if "node unknown" in words:
            await self._run("unmanaged", slot, self._node_ms)

    async def _node(self, subject: Subject, words: Words) -> None:
        if "dead" in words:
            await self._hub.nodes.expire(subject[0], "expire", keep=False)
        else:
            await self._run("drains", *subject)

    async def _part(self, subject: Subject, words: Words) -> None:
        if "leaving" in words:
            await self._hub.nodes.prune(subject[0])
        await self._run("parts", *subject)

    async def _silent_hub(self, subject: Subject, _: Words) -> None:
        await self._run("hubs", *subject)
        await self._hub.queue.look_after()

    async def _library(self, subject: Subject, _: Words) -> None:
        await self._store.read("FUNCTION DELETE", subject[0])

    async def _lifetime(self, subject: Subject, _: Words) -> None:
        (key,) = subject
        if kind := name_of(key[len(self._store.keys.prefix) :]):
            seconds = TABLE[kind].seconds or max(1, round(self._settings.node_timeout_s))
            await self._store.read("EXPIRE", key, seconds, "NX")

    async def _job(self, subject: Subject, _: Words) -> None:
        await self._run("jobs", subject[0], new_id(self._settings.realm))

    async def _worker(self, subject: Subject, words: Words) -> None:
        (worker,) = subject
        timeout_ms = int(self._settings.worker_timeout_s * 1000)
        if "dead" in words and await self._hub.workers.expire(worker, "silent", timeout_ms) == "ok":
            return
        if await self._run("workers", worker, BATCH):
            await self._hub.workers.bury(worker)
