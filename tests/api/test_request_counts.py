"""Metrics of requests and tasks: by template and code, at a cost that does not grow."""

from __future__ import annotations

import re
from contextvars import ContextVar

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from hub.jobs.models import Claim, JobRequest, Options, Result
from hub.jobs.names import dashed
from hub.observability import metrics
from hub.sweeping.tasks import TaskSweeperService
from tests.world import eventually, publish, wait_until

USER = "a" * 32
SCRAPING: ContextVar[bool] = ContextVar("scraping", default=False)


@pytest.fixture(autouse=True)
def _no_job_was_seen(monkeypatch):
    monkeypatch.setattr(metrics, "_seen_jobs", set())


def samples(text):
    """Series -> value."""
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def scrape(api):
    return samples((await api.get("/metrics")).text)


def requests(found, before=None):
    """Route, method and code -> how many more there are."""
    kept = {}
    for (name, *labels), value in found.items():
        rise = value - (before or {}).get((name, *labels), 0)
        if name == "hub_http_requests_total" and rise:
            named = dict(labels)
            kept[named["route"], named["method"], named["code"]] = rise
    return kept


async def test_requests_are_counted_by_the_template_of_their_route_and_by_code(api):
    before = await scrape(api)
    await publish(api, "n1", **{"http:a": ["s1"]})
    for n in range(3):
        assert (await api.get(f"/nodes/nobody-{n}")).status_code == 404
    await api.get("/nodes/n1")
    await api.post("/session/borrow", json={"labelKey": "http:a"})
    await api.post("/api/v1/session/return", json={"labelKey": "http:a", "browserId": "s1"})
    for path in ("/no/such/page", "/wp-login.php"):
        assert (await api.get(path)).status_code == 404
    await api.request("BREW", "/nodes")
    await api.post("/v1/joblib/tasks/claim", content=b"[")
    rise = requests(await scrape(api), before)
    rise.pop(("/metrics", "GET", "200"))
    assert {key: count for key, count in rise.items() if "register" not in key[0]} == {
        ("/nodes/{node_id}", "GET", "404"): 3,
        ("/nodes/{node_id}", "GET", "200"): 1,
        ("/session/borrow", "POST", "200"): 1,
        ("/session/return", "POST", "200"): 1,
        ("none", "GET", "404"): 2,
        ("/nodes", "other", "405"): 1,
        ("/v1/joblib/tasks/claim", "POST", "422"): 1,
    }


def test_a_heartbeat_on_the_fast_path_is_measured_like_every_request(live_hub):
    def seen():
        return samples(httpx.get(f"{live_hub.url}/metrics").text)

    node = {"x-hub-secret": live_hub.node_secret}
    httpx.post(f"{live_hub.url}/node/register", json={"nodeId": "n1"}, headers=node).raise_for_status()
    for _ in range(5):
        httpx.post(f"{live_hub.url}/node/heartbeat", json={"nodeId": "n1"}, headers=node).raise_for_status()
    found = seen()
    assert requests(found)["/node/heartbeat", "POST", "200"] == 5
    route = ("route", "/node/heartbeat")
    assert found["hub_http_request_seconds_count", route] == 5
    assert found["hub_http_request_seconds_bucket", ("le", "+Inf"), route] == 5
    assert 0 < found["hub_http_request_seconds_sum", route] < 60


def test_each_process_of_a_hub_shows_the_requests_of_all_its_processes(start_hub):
    hub = start_hub(HUB_WORKERS="2")
    for n in range(40):
        httpx.get(f"{hub.url}/nodes/nobody-{n}", headers={"x-hub-secret": hub.runner_secret})

    def all_counted():
        found = requests(samples(httpx.get(f"{hub.url}/metrics").text))
        return found.get(("/nodes/{node_id}", "GET", "404")) == 40

    wait_until(all_counted)


async def worker_of(hub, name):
    job, _ = await hub.jobs.register(JobRequest("r1", "analysis", name), {}, USER, superuser=True)
    return job.worker


async def count_ended(hub):
    done = await TaskSweeperService(hub.store, hub.settings, hub.workers).sweep()
    assert done.errors == 0


def of_job(found, name, **labels):
    wanted = set(labels.items())
    return {key: value for key, value in found.items() if key[0] == name and wanted <= set(key[1:])}


async def test_the_metrics_show_pending_tasks_by_job(make_api, redis):
    async with make_api() as api:
        hub = api._transport.app.app.state.serving.hub
        await worker_of(hub, "Waits")
        await worker_of(hub, "Idle")
        first, *_ = await hub.tasks.submit("r1", "r1:analysis:Waits", ["{}"] * 3, USER)
        redis.zincrby("hub:queue:r1:analysis:Waits", -90_000_000, first.id)  # as if it were submitted 90 s ago
        redis.zincrby("hub:heads", -90_000_000, "r1:analysis:Waits")
        due_us = first.created_us + 3_600_000_000
        await hub.tasks.submit("r1", "r1:analysis:Idle", ["{}"], USER, Options(due_us=due_us))
        found = await scrape(api)
        job = ("job_name", "r1:analysis:Waits")
        assert found["hub_tasks_pending", job] == 3
        assert 90 <= found["hub_tasks_oldest_pending_seconds", job] < 90 + 60
        assert ("hub_tasks_pending", ("job_name", "r1:analysis:Idle")) not in found
        assert (found[("hub_jobs_waiting",)], found[("hub_tasks_put_off",)]) == (1, 1)
        assert found[("hub_workers_registered",)] == 2
        assert (found["hub_job_workers", job], found["hub_job_tasks_held", job]) == (1, 0)


async def test_the_metrics_show_held_tasks_by_job(make_api):
    async with make_api() as api:
        hub = api._transport.app.app.state.serving.hub
        worker = await worker_of(hub, "Works")
        await hub.jobs.register(JobRequest("r1", "analysis", "Works"), {}, USER, superuser=True)
        await worker_of(hub, "Idle")
        await hub.tasks.submit("r1", "r1:analysis:Works", ["{}"] * 3, USER)
        await hub.claims.claim(worker, USER, Claim(most=3))
        found = await scrape(api)
        job = ("job_name", "r1:analysis:Works")
        assert (found["hub_job_workers", job], found["hub_job_tasks_held", job]) == (2, 3)
        assert ("hub_job_workers", ("job_name", "r1:analysis:Idle")) not in found
        assert ("hub_tasks_pending", job) not in found


async def test_the_metrics_count_held_tasks_and_dead_letters(make_api):
    async with make_api() as api:
        hub = api._transport.app.app.state.serving.hub
        first, second = await worker_of(hub, "Held"), await worker_of(hub, "Dies")
        await hub.tasks.submit("r1", "r1:analysis:Held", ["{}"] * 3, USER)
        await hub.tasks.submit("r1", "r1:analysis:Dies", ["{}"], USER, Options(max_attempts=2, backoff_ms=0))
        (claimed,) = await hub.claims.claim(first, USER, Claim())
        (doomed,) = await hub.claims.claim(second, USER, Claim(start=True))

        async def shown():
            found = await scrape(api)
            return found[("hub_tasks_held",)], found[("hub_dead_letters",)]

        assert await shown() == (2, 0)
        await hub.tasks.finish(second, USER, [Result(doomed.id, "failed", "no")])
        assert await shown() == (1, 0)  # it is tried again

        async def again():
            return await hub.claims.claim(second, USER, Claim(start=True)) != []

        await eventually(again)
        await hub.tasks.finish(second, USER, [Result(doomed.id, "failed", "no")])
        assert await shown() == (1, 1)
        await hub.tasks.move(claimed.id, "cancelled", user=USER)
        assert await shown() == (0, 1)


async def test_the_tasks_of_very_many_workers_are_all_counted_and_found(make_api, redis):
    """The worker that holds the task is listed behind 1,001 workers of another job."""
    async with make_api() as api:
        hub = api._transport.app.app.state.serving.hub
        last = await worker_of(hub, "Last")
        with redis.pipeline(transaction=False) as pipe:
            for number in range(1_001):
                pipe.zadd("hub:workers", {f"{number:032x}": number})
                pipe.sadd(f"hub:worker_jobs:{number:032x}", "r1:analysis:First")
            pipe.execute()
        await hub.tasks.submit("r1", "r1:analysis:Last", ["{}"], USER)
        (task,) = await hub.claims.claim(last, USER, Claim())
        assert (await scrape(api))[("hub_tasks_held",)] == 1
        found = (await api.get("/console/tasks?status=claimed")).json()
        assert ([each["id"] for each in found["tasks"]], found["complete"]) == ([dashed(task.id)], True)
        jobs = {row["job"]: row["workers"] for row in (await api.get("/console/jobs")).json()["jobs"]}
        assert jobs == {"r1:analysis:First": 0, "r1:analysis:Last": 1}


async def test_a_scrape_costs_redis_the_same_however_many_tasks_and_jobs_wait(make_api, redis, monkeypatch):
    async with make_api() as api:
        hub = api._transport.app.app.state.serving.hub
        await worker_of(hub, "One")

        read, asked = hub.store.read, []

        def counted(*command):
            if SCRAPING.get():  # and not a sweep, which goes on beside
                asked.append(command[0])
            return read(*command)

        monkeypatch.setattr(hub.store, "read", counted)

        async def commands():
            asked.clear()
            SCRAPING.set(True)
            await api.get("/metrics")
            SCRAPING.set(False)
            return len(asked)

        await hub.tasks.submit("r1", "r1:analysis:One", ["{}"], USER)
        few = await commands()
        await hub.tasks.submit("r1", "r1:analysis:One", ["{}"] * 500, USER)
        assert await commands() == few
        for n in range(metrics.LABELS_MAX + 100):
            redis.zadd("hub:heads", {f"r1:analysis:J{n}": n})
            redis.zadd(f"hub:queue:r1:analysis:J{n}", {"f" * 32: n})
        assert await commands() == few + 2 * (metrics.LABELS_MAX - 1)  # a pending task and the worker of its job


async def test_every_way_in_which_a_task_ends_is_counted_once(make_api, redis):
    async with make_api() as api:
        hub = api._transport.app.app.state.serving.hub
        worker, doomed = await worker_of(hub, "Ends"), await worker_of(hub, "Doomed")
        await count_ended(hub)  # what ended before is not counted
        await hub.tasks.submit("r1", "r1:analysis:Ends", ["{}"] * 4, USER)
        await hub.tasks.submit("r1", "r1:analysis:Doomed", ["{}"], USER)
        done, failed, cancelled, running = await hub.claims.claim(worker, USER, Claim(most=4, start=True))
        await hub.claims.claim(doomed, USER, Claim(start=True))
        redis.hincrby(f"hub:task:{done.id}", "started", -20_000_000)  # it began 20 s earlier, and was submitted
        redis.hincrby(f"hub:task:{done.id}", "at", -22_000_000)  # two seconds before that
        results = [Result(done.id, "completed"), Result(failed.id, "failed", "no")]
        assert await hub.tasks.finish(worker, USER, results) == ["ok", "ok"]
        await hub.tasks.move(cancelled.id, "cancelled", user=USER)
        await hub.workers.expire(doomed, "silent", -1)
        for _ in range(3):
            await count_ended(hub)
        found = await scrape(api)
        ends = of_job(found, "hub_tasks_ended_total", job_name="r1:analysis:Ends")
        assert {dict(key[1:])["status"]: value for key, value in ends.items()} == {
            "completed": 1, "failed": 1, "cancelled": 1,
        }  # fmt: skip
        assert list(
            of_job(found, "hub_tasks_ended_total", job_name="r1:analysis:Doomed", status="failed").values()
        ) == [1]
        job = ("job_name", "r1:analysis:Ends")
        assert found["hub_task_run_seconds_count", job] == 3
        assert found["hub_task_run_seconds_bucket", job, ("le", "60.0")] == 3
        assert found["hub_task_run_seconds_bucket", job, ("le", "15.0")] == 2
        assert 20 <= found["hub_task_run_seconds_sum", job] < 20 + 60
        assert found["hub_task_wait_seconds_bucket", job, ("le", "5.0")] == 3
        assert found["hub_claims_total", ("outcome", "tasks")] >= 2
        await hub.tasks.move(running.id, "completed", user=USER)


async def test_tasks_that_ended_in_the_same_millisecond_are_all_counted_across_batches(hub, redis):
    worker = await worker_of(hub, "Burst")
    count = hub.store.script("tasks/count_ended")
    await count(limit=2, rest=[1])
    await hub.tasks.submit("r1", "r1:analysis:Burst", ["{}"] * 7, USER)
    tasks = await hub.claims.claim(worker, USER, Claim(most=7))
    await hub.tasks.finish(worker, USER, [Result(task.id, "failed", "no") for task in tasks])
    seconds, micros = redis.time()
    redis.zadd("hub:finished", {task.id: seconds * 1_000_000 + micros for task in tasks[1:]})
    counted = []
    for _ in range(4):
        _, more, counts, _ = await count(limit=2, rest=[1])
        counted += counts[2::3]
    assert (sum(counted), more) == (7, 0)


def test_jobs_beyond_a_bound_share_one_metric_series():
    shown = {metrics.bounded_job(f"r{n}:lab:J") for n in range(metrics.LABELS_MAX + 50)}
    assert len(shown) == metrics.LABELS_MAX + 1
    assert "other" in shown


async def test_an_unknown_path_gets_no_metric_series_of_its_own(api):
    for n in range(30):
        await api.get(f"/made/up/{n}")
        await api.get(f"/nodes/made-up-{n}")
        await api.get(f"/console/made-up-{n}")
    text = (await api.get("/metrics")).text
    assert not re.search("made.up", text)
