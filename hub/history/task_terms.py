"""What keeps a pending task by the terms of its job: a limit, or slots that are not free."""

from __future__ import annotations

from typing import Any, NamedTuple

from hub.capacity.wishes import BundleWish
from hub.core import Hub
from hub.history.bundles import part_now, said_of
from hub.history.explained import NextStep
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
    return await _slots(hub, task.job, needs) if needs else Kept()


async def why_kept(hub: Hub, task: TaskRecord) -> str:
    """Return what keeps a task in one sentence; '' for one that is claimed, put off, or waits for other tasks."""
    may_go = task.status == "pending" and task.due_us is None and not task.waits_for
    return "; ".join((await kept_by(hub, task)).why) if may_go else ""


async def _slots(hub: Hub, full: str, needs: BundleWish) -> Kept:
    rows = [await part_now(hub, part) for part in needs.parts]
    before = await _before(hub, full)
    why = [f"it needs {said_of(part, row)}" for part, row in zip(needs.parts, rows, strict=True)]
    why += ["all on one node"] if needs.same_node else []
    why += [f"{before} bundle{' waits' if before == 1 else 's wait'} before it"] if before else []
    return Kept(tuple(why), {"needs": rows, "sameNode": needs.same_node, "bundlesBefore": before})


async def _before(hub: Hub, full: str) -> int:
    """Return how many bundles wait before the first worker of a job that waits for slots; all where none waits."""
    keys = hub.store.keys
    workers = await hub.store.read("SRANDMEMBER", keys.job_workers(full), _WORKERS)
    said = await hub.store.read_all([("HGET", keys.worker(worker), "ticket") for worker in workers])
    tickets = [text.partition(" ")[2] for text in said if text]
    ranks = await hub.store.read_all([("ZRANK", keys.bundles, ticket) for ticket in tickets])
    known = [int(rank) for rank in ranks if rank is not None]
    return min(known) if known else int(await hub.store.read("ZCARD", keys.bundles))
