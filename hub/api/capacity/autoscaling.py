"""The endpoints for autoscalers: how many slots a pool should have, and how many tasks of a job there are to work
on."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from fastapi import APIRouter, Depends, Request

from hub.api import paths  # noqa: F401 - registers the converter `full` for paths
from hub.api.inputs import Hub
from hub.api.operations import operation, takes
from hub.api.shapes import parameters as p
from hub.api.shapes.answer import Answer
from hub.api.shapes.jobs import JobDemandShape
from hub.api.shapes.nodes import DemandShape
from hub.api.shapes.readers import whole_number
from hub.capacity.labels import parse_label
from hub.capacity.where import parse
from hub.capacity.wishes import Alternative
from hub.errors import BadWhere, InvalidLabel, InvalidValue, JobNotFound
from hub.tokens.secrets import ADMIN, RUNNER

router = APIRouter()
DESIRED_MAX = 1_000_000  # slots or tasks: far above any pool


class DemandBounds(NamedTuple):
    """The bounds of a demand, and how much of it is to be spare."""

    least: int
    most: int
    spare: int

    def within(self, needed: int, ill: int = 0) -> int:
        """Return how many there should be where so many are needed, and so many of those that there are cannot be
        used."""
        wanted = needed + self.spare
        return min(max(wanted + ill if wanted else 0, self.least), self.most)


@takes(p.MIN, p.MAX, p.HEADROOM)
def _bounds(request: Request) -> DemandBounds:
    """Return the bounds that the query gives; raises `InvalidValue`."""
    query = request.query_params
    spare = whole_number(query.get("headroom", "0"), "headroom", 0, DESIRED_MAX)
    least = whole_number(query.get("min", "0"), "min", 0, DESIRED_MAX)
    most = whole_number(query.get("max", str(DESIRED_MAX)), "max", 0, DESIRED_MAX)
    if least > most:
        raise InvalidValue("min must not be above max", member="min")
    return DemandBounds(least, most, spare)


@takes(p.WHERE)
def _demanded(request: Request) -> Alternative:
    """Return what the query demands of slots; raises `BadWhere`."""
    if not (given := request.query_params.get("where", "")).strip():
        return Alternative("")
    demanded = parse(given)
    return Alternative("", demanded.want, demanded.tree, demanded.text)


Bounds = Annotated[DemandBounds, Depends(_bounds)]
Demanded = Annotated[Alternative, Depends(_demanded)]


@router.get(
    "/autoscale/jobs/{job_name:full}",
    tags=["jobs"],
    **operation("getJobDemand", (RUNNER, ADMIN), refusals=(JobNotFound,)),
)
async def of_job(hub: Hub, bounds: Bounds, job_name: str) -> Answer[JobDemandShape]:
    """Return how many tasks of a job there are to work on: those claimed or running, those that can be claimed, and
    `headroom` more, within `min` and `max`. An autoscaler divides this number by the tasks that one worker runs at a
    time.

    `pending * runSeconds` estimates the work that waits, in seconds. A job without a worker is answered too: its first
    worker may be yet to come. `truncated` says that the workers hold too many tasks to count, so that `held` and
    `desired` are lower bounds.
    """
    found = await hub.jobs.demand(job_name)
    return Answer(
        JobDemandShape(
            job=found.job,
            pending=found.pending,
            putOff=found.put_off,
            held=found.held,
            workers=found.workers,
            runSeconds=found.run_s,
            desired=bounds.within(found.held + found.pending),
            truncated=found.truncated,
        )
    )


@router.get(
    "/autoscale/{label:path}",
    tags=["pools"],
    **operation("getDemand", (RUNNER, ADMIN), refusals=(InvalidLabel, BadWhere)),
)
async def of_pool(hub: Hub, bounds: Bounds, where: Demanded, label: str) -> Answer[DemandShape]:
    """Return how many slots a pool should have: those lent, those its live waiters need, and `headroom` more, within
    `min` and `max`. Slots that are held because they are unwell are no capacity: so many more are wanted. A pool
    without slots is answered too: a borrow may be waiting for its first slot.

    A waiter that several pools may serve counts for each of them; a waiter that its cap holds back counts for none.
    With `where` only slots that are so count, and the waiters that one of them would do for. `truncated` says that too
    many labels are waited for to count, so that `waiting` and `desired` are lower bounds.
    """
    found = await hub.pools.demand(parse_label(label).text, where.want, where.tree)
    causes = (await hub.holds.causes()).get(found.label, {}) if found.held_back and not where.want else {}
    hint = "" if found.published else await hub.hints.of(found.label, where._replace(label=found.label))
    answer = DemandShape(
        label=found.label,
        held=found.lent,
        free=found.free,
        heldBack=found.held_back,
        total=found.published,
        waiting=found.waiting,
        waitingLabels=found.labels,
        desired=bounds.within(found.lent + found.waiting, causes.get("unwell", 0)),
        maintenanceActive=found.maintenance,
        truncated=found.truncated,
    )
    if causes:
        answer["heldBackBy"] = dict(causes)
    if hint:
        answer["hint"] = hint
    return Answer(answer)
