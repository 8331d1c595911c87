"""Silent workers that no sweep has removed yet."""


async def test_a_stale_worker_counts_as_a_worker_until_it_is_swept(alice, redis):
    worker = await alice.offering()
    redis.zincrby("hub:worker_beats", -3_600_000, worker.replace("-", ""))  # silent for an hour; no sweeper runs here
    task = await alice.task()
    assert (await alice.call("GET", "/rooms/lab/jobs/lab:modifiers:Rotate")).json()["workers"] == [worker]
    assert (await alice.claim(worker)).json()["task"]["id"] == task
    assert (await alice.call("PATCH", f"/workers/{worker}")).status_code == 200
