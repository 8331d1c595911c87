"""The reserve: what only adds is refused while nothing else of Redis' memory is left, and nothing else is."""

from __future__ import annotations

import pytest

from hub.core import Hub
from hub.errors import StoreFull, StoreUnavailable
from hub.jobs.models import LOST, Claim, JobRequest, Options, ProviderRequest, Result
from hub.jobs.rules import Rule
from hub.jobs.schedules import Schedule
from hub.store.library import library
from hub.sweeping.tasks import TaskSweeperService
from hub.tokens.logins import Login, Logins
from tests.jobs.conftest import JOB, USER
from tests.jobs.test_schedules import age, put
from tests.store.test_library import called, opened
from tests.world import beat, borrow, give_back, publish

WANTED = JobRequest("r1", "modifiers", "A")


@pytest.fixture
async def near_the_end(hub: Hub, redis):
    """Make so much of its memory used that `share` of it is free; with 0 there is no limit any more."""
    await hub.clock.tick()

    async def leave(share: float) -> None:
        found = redis.info("memory")
        used = found["used_memory"] - found["mem_not_counted_for_evict"]
        redis.config_set("maxmemory", int(used / (1 - share)) if share else 0)
        await hub.clock.tick()

    yield leave
    redis.config_set("maxmemory", 0)


def adding() -> list[str]:
    """Return every command that only adds, as its file declares it."""
    from hub.store.keys.files import folder

    files = sorted((folder() / "commands").glob("*/*.lua"))
    return [f"{path.parent.name}/{path.stem}" for path in files if "command.add(" in path.read_text()]


def test_exactly_these_scripts_are_declared_to_only_add_data():
    assert adding() == [
        "jobs/register", "providers/ask", "providers/register", "providers/upload", "schedules/fire", "schedules/put",
        "tasks/again", "tasks/submit", "tasks/submit_internal",
    ]  # fmt: skip


@pytest.mark.parametrize("name", adding())
def test_commands_that_only_add_are_refused_before_memory_is_used_up(redis, name):
    redis.function_load(library().text, replace=True)
    opened(redis)
    redis.hset("hub:store", "limits", "reserve=50")
    arguments = dict.fromkeys(library().commands[name].arguments, "1") | {"told": "0", "made_for": "known"}
    named = {key: arguments[key] for key in library().commands[name].arguments}
    redis.setrange("other", 20_000_000, "x")  # what Lua frees meanwhile is little beside it
    try:
        redis.config_set("maxmemory", int(redis.info("memory")["used_memory"] * 1.05))
        assert called(redis, name, named) == "FULL"
        before = redis.dbsize()
        redis.config_set("maxmemory", int(redis.info("memory")["used_memory"] * 4))
        assert called(redis, name, named) != "FULL"
        redis.hset("hub:store", "limits", "reserve=0")
        redis.config_set("maxmemory", int(redis.info("memory")["used_memory"] * 1.05))
        assert called(redis, name, named) != "FULL"
        assert before == 2, "what was refused has left something"
    finally:
        redis.config_set("maxmemory", 0)
        redis.delete("other")


async def test_the_refusal_of_a_full_store_names_the_memory_in_use_and_other_calls_work(hub, near_the_end):
    job, _ = await hub.jobs.register(WANTED, {}, USER, superuser=False)
    [task] = await hub.tasks.submit("r1", JOB, ["{}"], USER)
    await near_the_end(0.05)
    with pytest.raises(StoreFull, match=r"^Redis has \d+ of \d+ bytes in use.*maxmemory") as refused:
        await hub.tasks.submit("r1", JOB, ["{}"], USER)
    assert (refused.value.status, refused.value.code, refused.value.retry_after_s) == (503, "store-full", 5)
    with pytest.raises(StoreFull):
        await hub.jobs.register(JobRequest("r1", "modifiers", "B"), {}, USER, superuser=False)
    with pytest.raises(StoreFull):
        await hub.providers.register(ProviderRequest("r1", "frames", "All"), USER, superuser=False)
    with pytest.raises(StoreFull):
        await hub.schedules.put(Schedule("r1", "s", JOB, "{}", Rule(every_ms=60_000)), USER, superuser=False)
    [claimed] = await hub.claims.claim(job.worker, USER, Claim(start=True))
    assert claimed.id == task.id
    assert await hub.tasks.finish(job.worker, USER, [Result(task.id, "completed", "", claimed.claim)]) == ["ok"]
    await near_the_end(0.5)
    await hub.tasks.submit("r1", JOB, ["{}"], USER)


INTERNAL = "@internal:modifiers:Mean"


@pytest.mark.parametrize("full", [JOB, INTERNAL])
async def test_many_payloads_are_accepted_all_or_none_by_a_store_that_is_nearly_full(hub, near_the_end, redis, full):
    await hub.jobs.register(WANTED, {}, USER, superuser=False)
    await hub.jobs.ensure_internal(INTERNAL, {}, "{}")
    await near_the_end(0.5)
    found = redis.info("memory")
    used = found["used_memory"] - found["mem_not_counted_for_evict"] + 2_000_000
    redis.config_set("maxmemory", int(used / (1 - hub.settings.store_reserve_percent / 100)))
    many = ['"' + "x" * 20_000 + '"'] * 150  # three megabytes, where two are left above the reserve
    with pytest.raises(StoreFull):
        await hub.tasks.submit("r1", full, many, USER)
    assert (await hub.tasks.page_of_room("r1", None, 1, 0)).total == 0
    assert len(await hub.tasks.submit("r1", full, many[:10], USER)) == 10


@pytest.mark.parametrize("full", [JOB, INTERNAL])
async def test_a_submit_of_many_payloads_is_finished_even_if_the_store_fills_meanwhile(
    hub, near_the_end, redis, monkeypatch, full
):
    redis.setrange("other", 20_000_000, "x")  # so that a share of the memory is more than all these tasks need
    await hub.jobs.register(WANTED, {}, USER, superuser=False)
    await hub.jobs.ensure_internal(INTERNAL, {}, "{}")
    await near_the_end(0.5)
    of = hub.tasks._dispatch if full == INTERNAL else hub.tasks
    submit = of._submit

    class FillsAfterwards:
        name = submit.name

        async def __call__(self, **arguments):
            reply = await submit(**arguments)
            if arguments["later"] >= 0:
                await near_the_end(0.08)
            return reply

    monkeypatch.setattr(of, "_submit", FillsAfterwards())
    assert len(await hub.tasks.submit("r1", full, ["{}"] * 130, USER)) == 130
    with pytest.raises(StoreFull):
        await hub.tasks.submit("r1", full, ["{}"], USER)
    redis.delete("other")


async def test_a_hub_restores_lost_records_even_while_the_store_is_full(hub, near_the_end, redis):
    await hub.jobs.register(WANTED, {}, USER, superuser=False)
    [task] = await hub.tasks.submit("r1", JOB, ["{}"], USER)
    redis.delete(f"hub:task:{task.id}")
    await near_the_end(0.05)
    await hub.tasks._recent.recall()
    assert (await hub.tasks.get(task.id)).status == "pending"


async def test_schedules_stay_due_while_the_store_is_full_and_ended_tasks_are_forgotten(hub, near_the_end, redis):
    job, _ = await hub.jobs.register(WANTED, {}, USER, superuser=False)
    await put(hub)
    age(redis, 5_000_000)
    [task] = await hub.tasks.submit("r1", JOB, ["{}"], USER)
    [claimed] = await hub.claims.claim(job.worker, USER, Claim(start=True))
    await hub.tasks.finish(job.worker, USER, [Result(task.id, "completed", "", claimed.claim)])
    redis.zadd("hub:finished", {task.id: 1})
    await near_the_end(0.05)
    sweeper = TaskSweeperService(hub.store, hub.settings, hub.workers)
    full = await sweeper.sweep()
    assert (full.fired, full.forgotten, full.errors) == (0, 1, 0)
    await near_the_end(0.5)
    assert (await sweeper.sweep()).fired == 1


async def test_a_submit_reads_the_memory_of_redis_only_if_that_is_limited(hub, near_the_end, redis):
    await hub.jobs.register(WANTED, {}, USER, superuser=False)
    await near_the_end(0.5)
    redis.config_resetstat()
    await hub.tasks.submit("r1", JOB, ["{}"], USER)
    assert redis.info("commandstats")["cmdstat_info"]["calls"] == 1
    await near_the_end(0)
    await hub.tasks.submit("r1", JOB, ["{}"], USER)
    redis.config_resetstat()
    for _ in range(5):
        await hub.tasks.submit("r1", JOB, ["{}"], USER)
    assert redis.info("commandstats").get("cmdstat_info", {"calls": 0})["calls"] <= 1


async def test_a_completely_full_redis_still_ticks_the_hub_clock_and_is_reported_as_full(hub, near_the_end, redis):
    await hub.jobs.register(WANTED, {}, USER, superuser=False)
    redis.config_set("maxmemory", 1)
    await hub.clock.tick()
    assert hub.clock.away_since is None
    with pytest.raises(StoreFull):
        await hub.tasks.submit("r1", JOB, ["{}"], USER)
    with pytest.raises(StoreUnavailable, match="no memory left"):
        await hub.store.read("SET", "x", "y")


@pytest.fixture
def restart_while_full(redis):
    """Leave the store as a restarted server has it that lost nothing and has no memory left."""

    def restart() -> None:
        redis.hset("hub:store", mapping={"run_id": "before", "generation": "0-before"})
        redis.config_set("maxmemory", 1)

    yield restart
    redis.config_set("maxmemory", 0)


async def test_a_hub_takes_over_a_restarted_redis_that_is_completely_full(api, restart_while_full, redis):
    hub = api._transport.app.app.state.serving.hub
    await hub.clock.tick()
    await hub.agreed.agree()
    job, _ = await hub.jobs.register(WANTED, {}, USER, superuser=False)
    hub.presence.connected("c1")
    assert await hub.presence.bind(job.worker, USER, "c1")
    await hub.tasks.submit("r1", JOB, ["{}"], USER)
    [claimed] = await hub.claims.claim(job.worker, USER, Claim(start=True))
    report = Result(claimed.id, "completed", "", claimed.claim, "{}")
    assert await hub.tasks.finish(job.worker, USER, [report]) == ["ok"]
    await publish(api, "n1", **{"a:b": ["s1", "s2"]})
    await publish(api, "n2", **{"c:d": ["s3"]})
    assert (await api.post("/admin/nodes/n2/drain")).status_code == 200
    [renewed, returned] = [(await borrow(api, "a:b")).json() for _ in range(2)]
    await hub.clock.switch_expire(True, "an operator")
    lost = (await hub.tasks.submit("r1", JOB, ["{}"], USER))[0]
    redis.delete(f"hub:task:{lost.id}")
    redis.hdel("hub:store", "expire", "expire_at")
    restart_while_full()
    await hub.clock.tick()
    assert hub.clock.away_since is None
    assert hub.store.generation == redis.hget("hub:store", "generation") != "0-before"
    assert (await hub.tasks.get(lost.id)).status == "pending"
    assert redis.hget("hub:store", "expire") == "true"
    await beat(api, "n1")
    redis.config_set("maxmemory", 0)
    redis.hset("hub:store", "settle_ms", 0)
    redis.config_set("maxmemory", 1)
    about = {"labelKey": "a:b", "browserId": renewed["browserId"], "leaseToken": renewed["leaseToken"]}
    assert (await api.post("/session/renew", json=about)).status_code == 200
    given = await give_back(api, "a:b", returned["browserId"], leaseToken=returned["leaseToken"])
    assert given.status_code == 200


async def test_writes_of_a_restore_that_a_full_store_refuses_are_repeated_until_it_accepts_them(
    hub, restart_while_full, redis
):
    said: list[str] = []

    async def say() -> None:
        await hub.store.read("SET", "some:key", "x")
        said.append("taken")

    await hub.clock.tick()
    hub.store.when_replaced(say)
    restart_while_full()
    await hub.clock.tick()
    assert (hub.clock.away_since, said) == (None, [])
    await hub.clock.tick()
    assert (hub.clock.away_since, said) == (None, [])
    redis.config_set("maxmemory", 0)
    await hub.clock.tick()
    assert said == ["taken"]


@pytest.mark.parametrize("move", ["report", "move"])
async def test_a_task_ends_without_its_result_when_the_result_would_use_the_reserve_memory(
    hub, near_the_end, redis, move
):
    job, _ = await hub.jobs.register(WANTED, {}, USER, superuser=False)
    await hub.tasks.submit("r1", JOB, ["{}", "{}"], USER)
    full, free = await hub.claims.claim(job.worker, USER, Claim(2, start=True))
    value = '"' + "x" * 100_000 + '"'

    async def end(task) -> None:
        if move == "report":
            result = Result(task.id, "completed", "", task.claim, value)
            assert await hub.tasks.finish(job.worker, USER, [result]) == ["ok"]
        else:
            await hub.tasks.move(task.id, "completed", user=USER, claim=task.claim, value=value)

    await near_the_end(0.05)
    await end(full)
    assert (await hub.tasks.get(full.id)).status == "completed"
    assert (await hub.tasks.show(full.id)).result == LOST
    await near_the_end(0.5)
    await end(free)
    assert (await hub.tasks.show(free.id)).result == value


@pytest.mark.parametrize("move", ["report", "move", "retry"])
async def test_a_failure_is_kept_and_its_text_is_cut_where_it_would_use_the_reserve(hub, near_the_end, redis, move):
    job, _ = await hub.jobs.register(WANTED, {}, USER, superuser=False)
    attempts = Options(max_attempts=2 if move == "retry" else 1)
    await hub.tasks.submit("r1", JOB, ["{}", "{}"], USER, attempts)
    full, free = await hub.claims.claim(job.worker, USER, Claim(2, start=True))
    text = "x" + "\u00e4" * 30_000

    async def fail(task) -> str:
        if move == "move":
            await hub.tasks.move(task.id, "failed", text, user=USER, claim=task.claim)
        else:
            failed = Result(task.id, "failed", text, task.claim)
            assert await hub.tasks.finish(job.worker, USER, [failed]) == ["ok"]
        ended = await hub.tasks.get(task.id)
        assert ended.status == ("pending" if move == "retry" else "failed")
        return redis.xrevrange("hub:history", count=1)[0][1]["why"] if move == "retry" else ended.error

    await near_the_end(0.05)
    cut = await fail(full)
    assert cut.startswith("x" + "\u00e4" * 127 + " ... (cut: Redis had no memory left")
    assert len(cut) < 200
    await near_the_end(0.5)
    assert await fail(free) == text


async def test_a_repeated_end_of_a_lost_task_waits_with_a_cut_text_in_a_full_store(hub, near_the_end, redis):
    await near_the_end(0.05)
    recall = hub.store.script("tasks/recall")
    end = {"id": "0" * 32, "status": "failed", "claim": "1", "request": "r", "worker": "", "result": ""}
    assert await recall(error="x" * 60_000, **end) == ["task"]
    assert len(redis.lrange(f"hub:early_ends:{'0' * 32}", 0, -1)[1]) < 400


async def test_expiry_is_switched_and_a_console_is_served_on_a_completely_full_redis(hub, near_the_end, redis):
    logins = Logins(hub.store)
    made = await logins.create("key", Login("ann", "admin"))
    redis.config_set("maxmemory", 1)
    await hub.clock.switch_expire(False, "an operator")
    assert redis.hget("hub:store", "expire") == "false"
    found = await logins.find("key")
    assert found is not None
    assert found.id == made.id
