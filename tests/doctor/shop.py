"""A store with a task in every status, and the workers, jobs and providers around them."""

from __future__ import annotations

from redis import Redis

from hub.core import Hub
from hub.doctor import Finding, examine
from hub.jobs.dispatch import Dispatch
from hub.jobs.jobs import new_id
from hub.jobs.models import Claim, JobRequest, Options, ProviderRequest, Result
from hub.jobs.names import dashed

USER = "a" * 32
FAR_US = 4_000_000_000_000_000
JOB, SHARED, LATE, GONE, INTERNAL = (
    "one:modifiers:a", "@global:modifiers:g", "one:modifiers:late", "one:modifiers:gone", "@internal:modifiers:i",
)  # fmt: skip
PROVIDER = "one:frames:p"


class Shop:
    """The records of the store: `shop.waiting` is an id as it stands in keys, `shop.shown("waiting")` as people see it.

    Worker `local` serves JOB and LATE in room one and holds `claimed` and `running`; `shared` serves SHARED and another
    job in room two; GONE is soft-deleted.
    """

    def __init__(self, redis: Redis) -> None:
        self.redis = redis
        self.ids: dict[str, str] = {}

    def __getattr__(self, name: str) -> str:
        return self.ids[name]

    def shown(self, name: str) -> str:
        return dashed(self.ids[name])

    def clock_ms(self) -> int:
        return int(self.redis.hget("hub:store", "clock_ms") or 0)


async def furnish(hub: Hub, redis: Redis) -> Shop:
    shop = Shop(redis)
    await hub.clock.tick()
    for worker, *rooms in (("local", "one:a", "one:late"), ("shared", "@global:g", "two:b"), ("goner", "one:gone")):
        shop.ids[worker] = new_id()
        await hub.workers.create(USER, shop.ids[worker])
        for room, _, name in (each.partition(":") for each in rooms):
            wanted = JobRequest(room, "modifiers", name, worker=shop.ids[worker])
            await hub.jobs.register(wanted, {}, USER, superuser=True)
    await hub.providers.register(ProviderRequest("one", "frames", "p", worker=shop.local), USER, superuser=False)
    shop.ids["provider"] = redis.hget(f"hub:provider:{PROVIDER}", "id")

    async def submit(name: str, full: str = JOB, options: Options = Options()) -> None:  # noqa: B008 - frozen
        (task,) = await hub.tasks.submit("one", full, ['{"a":1}'], USER, options)
        shop.ids[name] = task.id

    async def claim(name: str, worker: str, claim: Claim) -> None:
        (task,) = await hub.claims.claim(shop.ids[worker], USER, claim)
        assert task.id == shop.ids[name]

    await submit("over", GONE)
    await claim("over", "goner", Claim())
    await hub.workers.delete(shop.goner, USER, superuser=False)
    for name, options in (
        ("dead", Options(max_attempts=2, backoff_ms=0)),
        ("claimed", Options()),
        ("running", Options()),
    ):
        await submit(name, options=options)
    for _ in range(2):
        await claim("dead", "local", Claim(start=True))
        await hub.tasks.finish(shop.local, USER, [Result(shop.dead, "failed", "it broke")])
    await claim("claimed", "local", Claim())
    await claim("running", "local", Claim(start=True, max_runtime_ms=3_600_000))
    await submit("unheld")
    await hub.tasks.move(shop.unheld, "claimed", superuser=True)
    await submit("waiting")
    await submit("late", LATE, Options(due_us=FAR_US))
    await hub.jobs.ensure_internal(INTERNAL, {}, "{}")
    shop.ids["internal"] = new_id()
    await Dispatch(hub.store).submit("one", INTERNAL, "{}", USER, shop.internal)
    assert await look(hub) == []
    return shop


async def look(hub: Hub, *, repair: bool = False) -> list[Finding]:
    """Return an examination of a store on which no hub sweeps."""
    await hub.store.read("HINCRBY", hub.store.keys.store, "tick_ms", -3_600_000)
    return await examine(hub.store, repair=repair, settings=hub.settings, pause_s=0.01)
