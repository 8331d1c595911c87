"""What tests of needs and limits of jobs do: serve a job, submit, claim, report, and look at what is lent."""

from __future__ import annotations

from dataclasses import replace

import orjson

from hub.capacity.models import LeaseHolder
from hub.capacity.wishes import BundlePart, BundleWish
from hub.jobs.models import Claim, JobRequest, Options, Result
from hub.sweeping.tasks import TaskSweeperService

USER = "a" * 32
JOB = "r1:modifiers:A"
HOLDER = LeaseHolder("ann", "ml", "worker", "127.0.0.1", USER).text
CLAIM = Claim(start=True, holder=HOLDER)


def needs(*parts: tuple[str, int]) -> str:
    """Return what a job says that its tasks need."""
    return BundleWish(tuple(BundlePart(label, number=count) for label, count in parts)).text if parts else ""


async def serving(hub, *parts, name="A", worker=None, limits=None, incarnation=""):
    """Return a worker of a job whose tasks need such parts, under such limits."""
    wanted = JobRequest(
        "r1", "modifiers", name, worker=worker, needs=needs(*parts), incarnation=incarnation,
        limits=orjson.dumps(limits).decode() if limits else "",
    )  # fmt: skip
    return (await hub.jobs.register(wanted, {}, USER, superuser=False))[0].worker


async def submit(hub, count=1, *, payload="{}", name="A", **options):
    options.setdefault("as_the_job", "max_attempts" not in options)
    tasks = await hub.tasks.submit("r1", f"r1:modifiers:{name}", [payload] * count, USER, Options(**options))
    return [task.id for task in tasks]


async def claim(hub, worker, most=1, **more):
    return await hub.claims.claim(worker, USER, replace(CLAIM, most=most, **more))


async def claimed(hub, worker, most=100, **more):
    """Return the ids of the tasks that a claim gets."""
    return [task.id for task in await claim(hub, worker, most, **more)]


async def report(hub, worker, task, status="completed"):
    return await hub.tasks.finish(worker, USER, [Result(task.id, status, claim=task.claim)])


async def lent(hub):
    return set(await hub.store.read("ZRANGE", hub.store.keys.deadlines, 0, -1))


async def slots_of(hub, task):
    return {lease.slot for lease in (await hub.bundles.of((await hub.tasks.get(task)).slots)).leases}


async def sweep(hub):
    done = await TaskSweeperService(hub.store, hub.settings, hub.workers).sweep()
    assert done.errors == 0
    return done
