"""Small things that people who looked at the console have stumbled over."""

from __future__ import annotations

import asyncio
import re
import shlex
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import pytest_asyncio

from tests.cli.command import Command
from tests.console.browser import Looker
from tests.console.stage import CALM, J, Stage, staged
from tests.console.test_walk import ASIDE
from tests.world import HubProcess, eventually

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow]

RUN = "nightly-2031-01-17T03:15:00Z-regression-suite-0042"
SIZES = {390: 844, 1280: 860, 1920: 1080}
# What of an element a user cannot see, because it ends beyond the window or beyond a part of the page that scrolls.
HIDDEN = """(on) => {
  const box = on.getBoundingClientRect(), rows = on.closest('.rows').getBoundingClientRect();
  return Math.max(box.right - Math.min(innerWidth, rows.right), Math.max(0, rows.left) - box.left);
}"""
LIVE = "() => document.documentElement.dataset.stream === 'live'"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(own_server) -> AsyncIterator[Stage]:
    """A calm hub, with a full pool of which borrowers with long names hold slots and wait for one."""
    async with staged(own_server) as found:
        await found.publish("rack-of-long-names-07", {f"a100-of-rack-07-{n}": "gpu:a100" for n in range(2)})
        await found.publish("rack-8", {f"t4-{n}": "gpu:t4" for n in range(4)})
        for _ in range(2):
            await found.borrow("gpu:a100", RUN)
        yield found


@asynccontextmanager
async def waiter(stage: Stage, key: str, **more: Any) -> AsyncIterator[str]:
    """A borrower with a key that waits for the full pool; yields its ticket."""
    body = {"labelKey": "gpu:a100", "runId": RUN, **more}
    call = asyncio.create_task(stage.runner.post("/session/borrow", json=body, headers={"idempotency-key": key}))
    found: list[str] = []

    async def waits() -> bool:
        lines = (await stage.admin.get("/queue?label=gpu:a100")).json()["labels"]
        found[:] = [each["ticket"] for line in lines for each in line["tickets"]]
        return bool(found)

    await eventually(waits)
    try:
        yield found[0]
    finally:
        await stage.admin.delete(f"/queue/{found[0]}")
        await call


@pytest.mark.parametrize("width", SIZES)
async def test_acts_and_ends_are_seen_at_every_width_whatever_runs_are_called(looker, stage, width):
    page = looker.page
    await page.set_viewport_size({"width": width, "height": SIZES[width]})
    async with waiter(stage, f"{width}-6f1e2b34c5d647e8a9b0c1d2e3f4a5b6") as ticket:
        await looker.go("queue")
        assert await page.get_by_role("button", name=f"Cancel {ticket}").evaluate(HIDDEN) <= 0
        assert await page.evaluate(ASIDE) == []
        await looker.go("leases")
        row = page.locator("tr[data-id='a100-of-rack-07-0']")
        await row.wait_for()
        assert await row.get_by_role("button", name="End the lease").evaluate(HIDDEN) <= 0
        assert await row.locator("td.time").evaluate(HIDDEN) <= 0
        assert await page.evaluate(ASIDE) == []
    await page.set_viewport_size({"width": 1280, "height": 860})


async def test_the_queue_shows_the_whole_wait_of_a_borrower_who_asks_in_many_calls(looker, stage):
    async with waiter(stage, "patient", maxWaitSeconds=900) as ticket:
        (line,) = (await stage.admin.get("/queue?label=gpu:a100")).json()["labels"]
        assert 880 < line["tickets"][0]["secondsLeft"] <= 900  # one call waits for 300 s at most
        await looker.go("queue")
        await looker.page.locator(f"tr[data-id='{ticket}'] td", has_text=re.compile("^14 min")).wait_for()


async def test_a_full_pool_is_named_where_others_have_free_slots(looker, stage):
    async with waiter(stage, "named"):
        await looker.go("overview")
        trouble = looker.page.locator("[data-trouble=overloaded]")
        await trouble.get_by_role("heading", name="No slot for gpu:a100 is free").wait_for()
        assert await looker.page.get_by_text("Overloaded").count() == 0


async def test_charts_have_the_last_hour_when_the_page_is_opened_and_hubs_agree(window, own_server, stage):
    """Each hub counts every ten seconds, also while no page is open."""
    with HubProcess({**CALM, "HUB_REDIS_URL": own_server.url}) as other:
        async with other.client() as second:
            samples: dict[str, list[list[int]]] = {}

            async def both_have_counted() -> bool:
                for name, client in (("first", stage.admin), ("second", second)):
                    samples[name] = (await client.get("/console/trend")).json()["samples"]
                return min(map(len, samples.values())) >= 2

            await eventually(both_have_counted, 60)
    lately = {name: [sample[1:] for sample in rows[-2:]] for name, rows in samples.items()}
    assert lately["first"] == lately["second"] == [[2, 4, 0]] * 2
    context = await window.context()
    looker = Looker(await context.new_page(), stage.hub.url)
    await looker.log_in(stage.hub.admin_secret)
    drawn = """async () => {
      const { columns } = await import(new URL('console/lib/series.js', location.href.split('#')[0]));
      return columns(Date.now()).lent.filter((value) => value !== null);
    }"""
    await eventually(lambda: looker.page.evaluate(f"({drawn})().then((lent) => lent.length >= 2)"))
    await looker.page.get_by_role("img", name="Slots, the last hour. Now: lent 2, free 4.").wait_for()
    await context.close()


async def test_lists_opened_while_the_store_is_away_have_the_rows_of_before_with_their_age(window, own_redis):
    async with staged(own_redis) as stage:
        await stage.publish("rack-9", {f"h100-{n}": "gpu:h100" for n in range(2)})
        await stage.borrow("gpu:h100", RUN)
        context = await window.context()
        looker = Looker(await context.new_page(), stage.hub.url)
        page, known = looker.page, set[str]()
        page.on("requestfinished", lambda each: known.add(each.url.partition("?")[0].rpartition("/")[2]))
        await looker.log_in(stage.hub.admin_secret)
        known.clear()
        await eventually(lambda: {"pools", "nodes", "sessions", "queue"} <= known)
        own_redis.kill()
        try:
            await page.locator("[data-trouble=store-away]").wait_for()
            for view, text in (("leases", "h100-"), ("nodes", "rack-9"), ("pools", "gpu:h100")):
                await page.goto(f"{looker.url}/#/{view}")
                await page.locator("tbody tr", has_text=text).wait_for()
                await page.locator(".head .asof", has_text=re.compile(r"as of [0-9.]+ (s|min)")).wait_for()
                await page.get_by_role("alert").wait_for()
        finally:
            own_redis.start()
        await context.close()


async def test_running_tasks_show_their_progress(looker, stage):
    worker = await stage.offer("modifiers:Bake")
    await stage.submit("modifiers:Bake", 1)
    claim = {"worker_id": worker, "limit": 1, "start": True}
    (task,) = (await stage.admin.post(f"{J}/tasks/claim", json=claim)).json()["tasks"]
    said = {"id": task["id"], "progress": 0.4, "message": "step 3"}
    await stage.admin.post(f"{J}/tasks/progress", json={"worker_id": worker, "tasks": [said]})
    await looker.go("tasks?status=running")
    row = looker.page.locator(f"tr[data-id='{task['id']}']")
    await row.get_by_text("40% step 3").wait_for()


async def test_a_cap_that_was_set_is_told_in_a_sentence(looker, stage):
    await looker.go("switches")
    for cap, said in (
        ("7", "The cap of gpu:a100 is 7 now; 2 leases are live."),
        ("", "There is no limit for gpu:a100 now."),
    ):
        name = "Set a cap…" if cap else "Change the cap of gpu:a100"
        await looker.page.get_by_role("button", name=name, exact=True).click()
        if cap:
            await looker.page.get_by_label("Label").fill("gpu:a100")
        await looker.page.get_by_label("Cap", exact=True).fill(cap)
        await looker.page.get_by_label("Reason").fill("test")
        await looker.page.get_by_role("button", name="Set the cap", exact=True).click()
        await looker.page.get_by_text(said, exact=True).wait_for()


async def test_the_command_that_the_list_of_tasks_suggests_submits_a_task(looker, stage, tmp_path):
    await stage.offer("modifiers:Suggested")
    await looker.go("tasks")
    suggested = await looker.page.locator(".command code").inner_text()
    command = Command(None, tmp_path)
    command.environment |= {"HUB_URL": stage.hub.url, "HUB_ADMIN_SECRET": stage.hub.admin_secret}
    names = {"ROOM:CATEGORY:NAME": "lab:modifiers:Suggested"}
    done = await asyncio.to_thread(command, *(names.get(word, word) for word in shlex.split(suggested)[1:]))
    assert done.returncode == 0, done.stderr
    await looker.page.locator("tbody tr", has_text="Suggested").wait_for()


async def test_a_hub_that_has_vanished_is_named_and_one_that_was_stopped_is_not(looker, own_server, stage):
    await looker.go("overview")
    for vanishes in (False, True):
        with HubProcess({**CALM, "HUB_REDIS_URL": own_server.url}) as other:
            await looker.page.get_by_text("2 hubs on this store").wait_for()
            if not vanishes:
                other.signal(signal.SIGTERM)
                await eventually(lambda: other.process.poll() is not None, 60)
        await looker.page.get_by_text("1 hub on this store").wait_for()
        await eventually(lambda: stage.hub.redis.zcard("hub:hubs") == 1)
        trouble = looker.page.locator("[data-trouble=hub-lost]")
        if vanishes:
            await trouble.get_by_text("did not say that it stops").wait_for()
        else:
            assert (await stage.admin.get("/console/overview")).json()["lostHub"] is None
    assert "All is well" not in await looker.page.locator("#health").inner_text()


async def test_a_lease_that_its_holder_renews_no_longer_is_named(looker, stage):
    lease = await stage.borrow("gpu:t4", "gone", ttlSeconds=600)
    slot, token = lease["browserId"], lease["leaseToken"]
    redis = stage.hub.redis
    clock_ms = int(redis.hget("hub:store", "clock_ms"))
    redis.hset(f"hub:slot:{slot}", "granted_ms", clock_ms - 900_000)  # it was lent a quarter of an hour ago
    answer = await stage.runner.post("/session/renew", json={"browserId": slot, "leaseToken": token, "ttlSeconds": 600})
    answer.raise_for_status()
    await looker.go("overview")
    trouble = looker.page.locator("[data-trouble=stale-leases]")
    assert (await stage.admin.get("/console/overview")).json()["staleLeases"]["leases"] == 0
    redis.zincrby("hub:deadlines", -450_000, slot)  # seven minutes later
    await trouble.get_by_role("heading", name="1 lease is renewed no longer").wait_for()
    await trouble.get_by_text(f"{slot} of run gone").wait_for()
    await stage.runner.post("/session/return", json={"labelKey": "gpu:t4", "browserId": slot})
    await trouble.wait_for(state="detached")


async def test_nodes_show_how_many_of_their_slots_are_held(looker, stage, tmp_path):
    (await stage.admin.post("/admin/slots/t4-3/hold", json={"reason": "fan is broken"})).raise_for_status()
    await looker.go("nodes")
    await looker.page.locator("tr[data-id='rack-8'] .state.held", has_text="1").wait_for()
    command = Command(None, tmp_path)
    command.environment |= {"HUB_URL": stage.hub.url, "HUB_ADMIN_SECRET": stage.hub.admin_secret}
    done = await asyncio.to_thread(command, "nodes")
    head, *rows = (line.split() for line in done.stdout.splitlines() if line)
    assert dict(zip(head, next(row for row in rows if row[0] == "rack-8"), strict=False))["HELD"] == "1"
    (await stage.admin.delete("/admin/slots/t4-3/hold")).raise_for_status()
