"""The checks of the doctor. A script checks a batch at once, so it sees the state of the store at one moment."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from hub.batched import batched
from hub.doctor import words
from hub.doctor.counts import RecordCounts
from hub.doctor.holdings import Holdings
from hub.doctor.stocks import Stocks
from hub.doctor.words import Trouble
from hub.errors import ForeignKey, StoreFault
from hub.jobs.names import dashed
from hub.settings import Settings
from hub.store.keys import TABLE
from hub.store.lenient import read_each
from hub.store.store import Store

BATCH = 50  # subjects per script, which checks them in under 2 ms
MEMBERS_BATCH = 200  # members of indexes per script: under 1 ms
WORKERS_BATCH = 5  # workers per script: 5 ms if each has 1,000 jobs, under 0.2 ms with a few jobs
ALL_AT_ONCE = 10**9  # no limit: one walk counts the tasks of any number of jobs
PLACES_BATCH = 4  # slots per script: to find a slot in lists of 100,000 takes up to 1 ms
LINES_BATCH = 5  # lines per script: 2 ms if each has 64 classes
GONE_MS = 5000  # a hub counts as gone after 3 s without a tick, and others clear up after it within a second more
OF_MEMBERS = ("members", "listings", "entries")  # checks of members of indexes, in the order of their repairs
UNREAD = "unreadable"
UNUSED_S = 86_400.0  # a library not called for this long is unused: a hub calls its own twice a second
SLACK_S = 2.0  # added to a sweep interval for the time that a pass takes

Subject = tuple[str, ...]
Words = frozenset[str]


@dataclass(frozen=True)
class Suspicion:
    """A subject (such as a slot or a task) that may break an invariant, and the name of the check that found it."""

    check: str
    subject: Subject


@dataclass(frozen=True)
class Check:
    """A kind of check: the trouble that each word of its answer means, and a function `shown` that names a subject.

    `timeout_ms` and `grace_ms`: the silence and the delay that the check allows. The script of `lua/doctor.lua` makes
    the check, or the function `plainly`, if there is one, with reads of Redis.
    """

    troubles: Mapping[str, Trouble]
    shown: Callable[[Subject], str]
    timeout_ms: int = 0
    grace_ms: int = 0
    batch: int = BATCH
    plainly: Callable[[Sequence[Subject]], Awaitable[list[Sequence[str]]]] | None = None


class Checks:
    """All checks by name, and the running of them."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._counts = RecordCounts(store)
        self._holdings = Holdings(store)
        self._stocks = Stocks(store)
        self._script = store.script("doctor/check")
        self._checks = self._at_capacity(settings) | self._at_jobs(settings)

    def _at_capacity(self, settings: Settings) -> dict[str, Check]:
        keys = self._store.keys
        leases_ms = int((settings.borrow_ttl_sweep_s + SLACK_S) * 1000)
        nodes_ms = int((settings.node_sweep_interval_s + SLACK_S) * 1000)
        timeout_ms = int(settings.node_timeout_s * 1000)
        return {
            "slots": Check(words.SLOTS, _called("slot"), timeout_ms=timeout_ms + nodes_ms, grace_ms=leases_ms),
            "places": Check(words.PLACES, self._shown_place, batch=PLACES_BATCH),
            "members": Check(words.MEMBERS, self._shown_member, batch=MEMBERS_BATCH),
            "pools": Check(words.POOLS, _called("pool")),
            "nodes": Check(words.NODES, _called("node"), timeout_ms=timeout_ms, grace_ms=nodes_ms),
            "parts": Check(words.PARTS, _called("node")),
            "store": Check(words.STORE, lambda _: keys.store),
            "tickets": Check(words.TICKETS, _called("ticket"), grace_ms=GONE_MS),
            "queues": Check(words.QUEUES, _called("label")),
            "waits": Check(words.WAITS, _called("pool"), batch=10),
            "runs": Check(words.RUNS, _called("run"), batch=1),
            "hubs": Check(words.HUBS, _called("hub"), grace_ms=GONE_MS),
            "reserver": Check(words.RESERVER, lambda _: keys.reserver),
            "lifetimes": Check(words.LIFETIMES, "".join, plainly=self._lifetimes),
            "keys": Check(words.KEYS, lambda subject: subject[0], plainly=self._types),
            "libraries": Check(words.LIBRARIES, lambda subject: subject[0], plainly=self._libraries),
            **self._of_classes(),
            **self._of_teams(),
            "tokens": Check(words.TOKENS, lambda subject: f"slots {', '.join(subject[1:])}", plainly=self._tokens),
        }

    def _of_classes(self) -> dict[str, Check]:
        keys = self._store.keys
        return {
            "classed": Check(words.CLASSED, _called("slot")),
            "offers": Check(words.OFFERS, lambda each: keys.free_in(each[0])),
            "listings": Check(words.MEMBERS, self._shown_member, batch=MEMBERS_BATCH),
            "lines": Check(words.LINES, lambda each: keys.want_line(" ".join(each)), batch=LINES_BATCH),
            "wants": Check(words.WANTS, lambda each: keys.want(each[0]), batch=LINES_BATCH),
            "stocks": Check(words.STOCKS, lambda each: getattr(keys, each[0])("*"), plainly=self._stocked),
        }

    def _of_teams(self) -> dict[str, Check]:
        keys = self._store.keys
        return {
            "policies": Check(words.POLICIES, lambda each: f"{keys.teams} {each[0]}", batch=1),
            "shares": Check(words.SHARES, lambda each: f"{keys.team_shares(each[0])} {each[1]}".rstrip()),
            "team_lines": Check(words.TEAM_LINES, lambda each: keys.team_line(each[0]), batch=LINES_BATCH),
        }

    def _at_jobs(self, settings: Settings) -> dict[str, Check]:
        timeout_ms = int(settings.worker_timeout_s * 1000)
        grace_ms = int((settings.worker_sweep_interval_s + SLACK_S) * 1000)
        worker = _called_by_id("worker")
        return {
            "tasks": Check(words.TASKS, _called_by_id("task")),
            "entries": Check(words.ENTRIES, self._shown_member, batch=MEMBERS_BATCH),
            "workers": Check(words.WORKERS, worker, timeout_ms, grace_ms, batch=WORKERS_BATCH),
            "links": Check(words.LINKS, _shown_link),
            "jobs": Check(words.JOBS, _called("job")),
            "groups": Check(words.GROUPS, _shown_group),
            "counts": Check(words.COUNTS, _called("job"), batch=ALL_AT_ONCE, plainly=self._miscounts),
            "holdings": Check(words.HOLDINGS, lambda each: self._store.keys.used(each[0]), plainly=self._held),
            "providers": Check(words.PROVIDERS, _called("provider")),
            "schedules": Check(words.SCHEDULES, _called("schedule")),
        }

    async def at(self, name: str, subjects: Iterable[Subject]) -> dict[Suspicion, Words]:
        """Check these subjects; return those that break an invariant, each with the words of the check."""
        check = self._checks[name]
        broken: dict[Suspicion, Words] = {}
        for batch in batched(list(dict.fromkeys(subjects)), check.batch):
            for subject, answer in zip(batch, await self._ask(name, check, batch), strict=True):
                if answer:
                    broken[Suspicion(name, subject)] = frozenset(answer)
        return broken

    async def again(self, suspicions: Mapping[Suspicion, Words]) -> dict[Suspicion, Words]:
        """Check these suspicions again; return those that are confirmed, with the words that came both times."""
        names = dict.fromkeys(suspicion.check for suspicion in suspicions)
        seen: dict[Suspicion, Words] = {}
        for name in names:
            seen |= await self.at(name, (each.subject for each in suspicions if each.check == name))
        both = {each: before & seen.get(each, frozenset()) for each, before in suspicions.items()}
        return {each: twice for each, twice in both.items() if twice}

    def trouble(self, suspicion: Suspicion, word: str) -> Trouble:
        """Return the trouble (a broken invariant) that a word in the answer of a check stands for."""
        if word == UNREAD:
            return words.UNREADABLE
        if suspicion.check in ("members", "listings") and suspicion.subject[0] in words.STRAYS:
            return words.STRAYS[suspicion.subject[0]]
        if suspicion.check == "entries" and suspicion.subject[0] in words.ENTRY_STRAYS:
            return words.ENTRY_STRAYS[suspicion.subject[0]]
        return self._checks[suspicion.check].troubles[word]

    def shown(self, suspicion: Suspicion) -> str:
        """Return the name of the subject as the report shows it."""
        return self._checks[suspicion.check].shown(suspicion.subject)

    async def _ask(self, name: str, check: Check, batch: Sequence[Subject]) -> list[Sequence[str]]:
        if check.plainly:
            return await check.plainly(batch)
        wanted = [fields_of(Suspicion(name, subject)) for subject in batch]
        try:
            answers: list[Sequence[str]] = await self._script(
                kind="members" if name in OF_MEMBERS else name,
                fields=len(wanted[0]),
                timeout_ms=check.timeout_ms,
                grace_ms=check.grace_ms,
                rest=[text for fields in wanted for text in fields],
            )
            return answers
        except (ForeignKey, StoreFault):
            # One record of the batch has the wrong type, so each is checked alone.
            if len(batch) == 1:
                return [[UNREAD]]
            return [answer for subject in batch for answer in await self._ask(name, check, [subject])]

    async def _lifetimes(self, batch: Sequence[Subject]) -> list[Sequence[str]]:
        left = await self._store.read_all(("PTTL", key) for (key,) in batch)
        return [["for ever"] if ms == -1 else [] for ms in left]

    async def _miscounts(self, batch: Sequence[Subject]) -> list[Sequence[str]]:
        return list(await self._counts.words([full for (full,) in batch]))

    async def _held(self, batch: Sequence[Subject]) -> list[Sequence[str]]:
        return list(await self._holdings.words([kind for (kind,) in batch]))

    async def _stocked(self, batch: Sequence[Subject]) -> list[Sequence[str]]:
        wrong = await self._stocks.wrong()
        return [["differs"] if wrong[kind] else [] for (kind,) in batch]

    async def _libraries(self, batch: Sequence[Subject]) -> list[Sequence[str]]:
        idle = await self._store.libraries()
        return [["unused"] if idle.get(library, 0.0) > UNUSED_S else [] for (library,) in batch]

    async def _types(self, batch: Sequence[Subject]) -> list[Sequence[str]]:
        kinds = await self._store.read_all(("TYPE", key) for key, _ in batch)
        return [_key_words(kind, wanted) for kind, (_, wanted) in zip(kinds, batch, strict=True)]

    async def _tokens(self, batch: Sequence[Subject]) -> list[Sequence[str]]:
        return list(await asyncio.gather(*(self._same_token(token, slots) for token, *slots in batch)))

    async def _same_token(self, token: str, slots: Sequence[str]) -> Sequence[str]:
        held = await read_each(self._store, [("HGET", self._store.keys.session(slot), "leaseToken") for slot in slots])
        return ["same token"] if held.count(token) > 1 else []

    def _shown_place(self, subject: Subject) -> str:
        slot, seen = json.loads(subject[0])
        keys = self._store.keys
        lists = sorted({(keys.available if place == "free" else keys.inuse)(label) for place, label, _ in seen})
        return f"slot {slot}" + (f" in {', '.join(lists)}" if lists else "")

    def _shown_member(self, subject: Subject) -> str:
        kind, owner, member = subject
        key = getattr(self._store.keys, kind)
        if callable(key) and not owner:
            return str(key(member))
        return f"{key(owner) if callable(key) else key} {member}"


def fields_of(suspicion: Suspicion) -> Subject:
    """Return a subject as arguments of the scripts; a member of an index gets the Redis type of the index too."""
    if suspicion.check in OF_MEMBERS:
        kind, owner, member = suspicion.subject
        return (kind, TABLE[kind].type, owner, member)
    return suspicion.subject


def place_subject(slot: str, seen: Iterable[tuple[str, str, str]]) -> Subject:
    """Return a subject of the check "places": a slot with each (place, label, item) in which it was seen."""
    return (json.dumps([slot, sorted(set(seen))], ensure_ascii=False),)


def _key_words(kind: str, wanted: str) -> list[str]:
    if kind == "none":
        return []
    if not wanted:
        return ["unknown"]
    return [] if kind == wanted else ["wrong type"]


def _shown_group(subject: Subject) -> str:
    job, _, limit = subject[0].partition("\t")
    return f"limit {limit} of job {job}"


def _shown_link(subject: Subject) -> str:
    worker, full = subject
    return f"worker {_as_sent(worker)} and job {full}"


def _called_by_id(noun: str) -> Callable[[Subject], str]:
    return lambda subject: f"{noun} {_as_sent(subject[0])}"


def _as_sent(found: str) -> str:
    """Return a UUID with hyphens, as callers write it. An id from the name of a key may be any text: then unchanged."""
    return dashed(found) if len(found) == 32 else found


def _called(noun: str) -> Callable[[Subject], str]:
    return lambda subject: f"{noun} {subject[0]}"
