"""The slots of tasks in the jobs API: what a job says that its tasks need, who holds them, and what a claim answers."""

from __future__ import annotations

from fastapi import Request

from hub.api.callers.caller import BORROW, Caller, LabelNotAllowed
from hub.api.capacity.asking import alternative
from hub.api.capacity.leases import granted
from hub.api.handling.context import remote_ip
from hub.api.shapes.bundle_bodies import of_part
from hub.api.shapes.job_bodies import ServedBody
from hub.api.shapes.leases import GrantShape
from hub.capacity.models import LeaseHolder
from hub.capacity.wishes import BundlePart, BundleWish
from hub.core import Hub
from hub.jobs.models import TaskRecord
from hub.jobs.names import dashed
from hub.jobs.terms import Limit, limits_text, read_rate


def needs(hub: Hub, caller: Caller, said: ServedBody) -> str:
    """Return the slots that each task of a job needs, a `BundleWish.text`, '' for none. Raises `InvalidLabel`,
    `BadWhere`, `Forbidden` and `LabelNotAllowed`; they say which part they are about."""
    if not said.needs:
        return ""
    caller.check_scope(BORROW)
    parts = []
    for number, each in enumerate(said.needs):
        with of_part(number):
            parts.append(BundlePart(*alternative(hub, each.label, each.where), each.count))
            caller.check_label(parts[-1].label)
    return BundleWish(tuple(parts), said.same_node).text


def limits(said: ServedBody) -> str:
    """Return the limits on the tasks of a job as JSON for the store, '' for none."""
    return limits_text(
        [Limit(each.key, each.running or 0, *(read_rate(each.rate or "") or (0, 0))) for each in said.limits]
    )


async def holder(request: Request, hub: Hub, caller: Caller, worker: str) -> str:
    """Return who holds the slots of the tasks of a claim; '' for a caller that may borrow none, or not every label that
    the jobs of its worker need."""
    if caller.scopes and BORROW not in caller.scopes:
        return ""
    try:
        for text in await hub.workers.needs(worker) if caller.labels else ():
            wish = BundleWish.read(text)
            for label in wish.labels if wish else ():
                caller.check_label(label)
    except LabelNotAllowed:
        return ""
    name, client = dashed(worker), remote_ip(request) or ""
    if not caller.by:
        return LeaseHolder(None, None, name, client).text
    return LeaseHolder(caller.name, caller.team or None, name, client, caller.by).text


async def may_hold(hub: Hub, caller: Caller, task: TaskRecord) -> bool:
    """Return whether a caller may borrow the labels of the slots of a task: the needs of a job may have changed while
    its claim waited."""
    try:
        for lease in (await hub.bundles.of(task.slots)).leases if caller.labels and task.slots else ():
            caller.check_label(lease.label)
    except LabelNotAllowed:
        return False
    return True


async def lent(hub: Hub, task: TaskRecord) -> list[GrantShape]:
    """Return the slots of a task as the worker that has claimed it is answered."""
    return [granted(hub, lease, None) for lease in (await hub.bundles.of(task.slots)).leases] if task.slots else []


async def names(hub: Hub, task: TaskRecord) -> list[str]:
    """Return the ids of the slots of a task."""
    return [lease.slot for lease in (await hub.bundles.of(task.slots)).leases] if task.slots else []
