"""What keeps a pending task by the terms of its job: a limit, or slots that are not free."""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

from hub.capacity.models import LeaseHolder
from hub.capacity.wishes import BundleWish
from hub.core import Hub
from hub.history.bundles import caps_on, part_now, said_of, set_aside
from hub.history.explained import NextStep
from hub.history.teams import ceilings_on
from hub.history.tickets import look
from hub.jobs.models import TaskRecord
from hub.jobs.terms import JobTerms, at_limit, terms_texts

_WORKERS = 100  # workers of the job whose places in the line of bundles are looked at


class Kept(NamedTuple):
    """What keeps a task: sentences without their full stops, facts, and the next step of a task that a limit keeps."""

    why: tuple[str, ...] = ()
    facts: dict[str, Any] = {}  # noqa: RUF012 - nobody changes it
    step: NextStep | None = None


async def kept_by(hub: Hub, task: TaskRecord) -> Kept:
    """Return what keeps a pending task by the terms of its job."""
    keys = hub.store.keys
    group, texts = await hub.store.read_all([("HGET", keys.task(task.id), "limited"), terms_texts(hub.store, task.job)])
    terms = JobTerms.read(*texts)
    found = await at_limit(hub.store, task.job, terms, group) if group else None
    if found:
        limit = terms.limits[found.limit]
        of = f" for {limit.key} {found.value!r}" if limit.key else ""
        began = "started in its time" if limit.rate else "running"
        why = f"the limit of {limit}{of} keeps it: {found.running} {began}, {found.waiting} waiting"
        rule = "When one of those is over" if not limit.rate else "When the time of the limit is over for one of those"
        step = NextStep("task.queued", f"{rule} it stands in the queue of its job, those before it first.")
        return Kept((why,), {"limit": limit.document(), "atLimit": found._asdict()}, step)
    needs = BundleWish.read(terms.needs)
    return await _slots(hub, task.job, terms.needs, needs) if needs else Kept()


async def why_kept(hub: Hub, task: TaskRecord) -> str:
    """Return what keeps a task in one sentence; '' for one that is claimed, put off, or waits for other tasks."""
    may_go = task.status == "pending" and task.due_us is None and not task.waits_for
    return "; ".join((await kept_by(hub, task)).why) if may_go else ""


async def _slots(hub: Hub, full: str, text: str, needs: BundleWish) -> Kept:
    rows = [await part_now(hub, part) for part in needs.parts]
    ticket, row = await _in_line(hub, full, text)
    before = row[3] - 1 if row else int(await hub.store.read("ZCARD", hub.store.keys.bundles))
    why = [f"it needs {said_of(part, row)}" for part, row in zip(needs.parts, rows, strict=True)]
    why += ["all on one node"] if needs.same_node else []
    why += [f"{before} bundle{' waits' if before == 1 else 's wait'} before it"] if before else []
    why += await caps_on(hub, needs)
    if row:
        why += await ceilings_on(hub, LeaseHolder.read(row[11]), needs.labels, needs)
        reserver = await hub.bundles.reserver()
        if reserver.ticket:
            of_it = reserver.ticket == ticket
            why.append(set_aside(reserver, needs.size) if of_it else "slots are set aside for another bundle")
    facts = {"needs": rows, "sameNode": needs.same_node, "bundlesBefore": before, "ticket": ticket or None}
    return Kept(tuple(why), facts)


async def _in_line(hub: Hub, full: str, text: str) -> tuple[str, list[Any]]:
    """Return the first ticket under which a worker waits for the slots of a job, and its row as of `look`; an empty
    ticket and row where none does."""
    keys = hub.store.keys
    workers = await hub.store.read("SRANDMEMBER", keys.job_workers(full), _WORKERS)
    said = await hub.store.read_all([("HGET", keys.worker(worker), "ticket") for worker in workers])
    digest = hashlib.sha1((full + text).encode(), usedforsecurity=False).hexdigest()[:12]  # as lua/claim_terms.lua
    found = [each.partition(" ") for each in said if each]
    tickets = [ticket for of, _, ticket in found if of == digest]
    rows = zip(tickets, await look(hub, tickets), strict=True)
    waiting = [(ticket, row) for ticket, row in rows if row[0] in ("waiting", "away")]
    return min(waiting, key=lambda each: (each[1][0] == "away", each[1][3]), default=("", []))
