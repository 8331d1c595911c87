"""Slots that a user takes on the page: borrowed once for all tabs, renewed while a page is open, waited for and given
back; and the user is told."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import pytest_asyncio

from tests.console.browser import Looker
from tests.console.stage import Stage, staged
from tests.world import eventually

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow]

# Keeps the notifications of the page, which no test can see on the screen.
NOTED = """globalThis.noted = [];
globalThis.Notification = class extends Notification {
  constructor(title, options) { super(title, options); noted.push([title, options.body]); }
}"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(own_server) -> AsyncIterator[Stage]:
    """A hub on which a borrow asks again after three seconds in the queue."""
    async with staged(own_server, HUB_BORROW_QUEUE_TIMEOUT_SECONDS="3", HUB_MAX_SESSION_TTL_SECONDS="4000") as found:
        yield found


@asynccontextmanager
async def opened(window: Any, stage: Stage, view: str, *, tabs: int = 1, **options: Any) -> AsyncIterator[list[Looker]]:
    """Yield tabs of one browser that are logged in with the runner's secret and show a view."""
    context = await window.context(**options)
    await context.add_init_script(NOTED)
    lookers = [Looker(await context.new_page(), stage.hub.url) for _ in range(tabs)]
    await lookers[0].log_in(stage.hub.runner_secret)
    for looker in lookers:
        await looker.go(view)
    yield lookers
    assert [complaint for looker in lookers for complaint in looker.complaints] == []
    await context.close()


async def leases(stage: Stage, pool: str) -> list[dict[str, Any]]:
    """Return the leases of a pool."""
    found: list[dict[str, Any]] = (await stage.admin.get("/sessions", params={"pool": pool})).json()["sessions"]
    return found


async def waiting(stage: Stage, label: str) -> int:
    """Return how many borrowers wait for a label."""
    lines = (await stage.admin.get("/queue", params={"label": label})).json()["labels"]
    return sum(line["waiting"] for line in lines)


async def test_a_slot_is_taken_renewed_shown_on_the_page_of_leases_and_given_back(window, stage):
    label = "lab:take"
    slots = [{"slotId": "take-0", "label": label, "address": "ws://10.0.0.7:9222/take"}]
    (await stage.node.post("/node/register", json={"nodeId": "take", "slots": slots})).raise_for_status()
    async with opened(window, stage, f"pools/{label}") as (looker,):
        page = looker.page
        await page.get_by_role("button", name="Take", exact=True).click()
        mine = page.locator(f"[data-wish='{label}']")
        await mine.get_by_text("yours").wait_for()
        (lease,) = await leases(stage, label)
        assert lease["browserId"] == "take-0"
        assert await page.get_by_role("button", name="Take", exact=True).count() == 0
        await looker.go("leases")
        for text in ("take-0", "held by", "lapses within 2 min", "ws://10.0.0.7:9222/take"):
            await mine.get_by_text(text).first.wait_for()
        left = lease["secondsLeft"]
        async with page.expect_response(lambda answer: answer.url.endswith("/session/renew")) as renewed:
            await mine.get_by_role("button", name="Renew").click()
        assert (await renewed.value).status == 200
        await page.get_by_text("take-0 is renewed.").wait_for()
        assert (await leases(stage, label))[0]["secondsLeft"] > left - 1
        await mine.get_by_role("button", name="Return mine").click()
        await page.get_by_text("take-0 is given back.").wait_for()
        await mine.wait_for(state="detached")
        assert await leases(stage, label) == []


async def test_tabs_and_reloads_take_one_slot_and_stand_in_the_queue_once(window, stage):
    label = "lab:tabs"
    await stage.publish("tabs", {f"tabs-{n}": label for n in range(3)})
    async with opened(window, stage, f"pools/{label}", tabs=2) as (first, second):
        for looker in (first, second):
            await looker.page.get_by_role("button", name="Take", exact=True).wait_for()
        for looker in (first, second):  # as fast as two presses can be
            await looker.page.evaluate("document.querySelector('button.main')?.click()")
        for looker in (first, second):
            await looker.page.locator(f"[data-wish='{label}']").get_by_text("yours").wait_for()
        (lease,) = await leases(stage, label)
        await first.page.reload()
        await first.page.locator(f"[data-wish='{label}']").get_by_text(lease["browserId"]).wait_for()
        assert [each["runId"] for each in await leases(stage, label)] == [lease["runId"]]
        await second.page.locator(f"[data-wish='{label}']").get_by_role("button", name="Return mine").click()
        await first.page.locator(f"[data-wish='{label}']").wait_for(state="detached")
        assert await leases(stage, label) == []


async def test_a_place_in_the_queue_turns_into_a_lease_and_the_user_is_notified(window, stage):
    label = "lab:turn"
    await stage.publish("turn", {"turn-0": label})
    held = await stage.borrow(label)
    async with opened(window, stage, f"pools/{label}", tabs=2, permissions=["notifications"]) as (first, second):
        page, mine = first.page, first.page.locator(f"[data-wish='{label}']")
        await page.get_by_role("button", name="Queue for it").click()
        await mine.get_by_text("position 1").wait_for()
        await page.reload()
        for looker in (first, second):
            await looker.page.locator(f"[data-wish='{label}']").get_by_text("position 1").wait_for()
        await mine.get_by_text("This page notifies you.").wait_for()
        assert await waiting(stage, label) == 1
        await stage.runner.post("/session/return", json={"labelKey": label, "browserId": held["browserId"]})
        for looker in (first, second):
            await looker.page.locator(f"[data-wish='{label}']").get_by_text("yours").wait_for()

        async def notifications() -> list[list[str]]:
            return [each for looker in (first, second) for each in await looker.page.evaluate("noted")]

        await eventually(notifications)  # the other tab may show the slot before the tab that borrowed it notifies
        assert await notifications() == [["It is your turn: turn-0", f"You hold turn-0 of {label} now."]]
        assert len(await leases(stage, label)) == 1
        await mine.get_by_role("button", name="Return mine").click()
        await mine.wait_for(state="detached")


async def test_a_place_in_the_queue_is_kept_over_many_calls_and_given_up_on_the_page(window, stage):
    label = "lab:long"
    await stage.publish("long", {"long-0": label})
    await stage.borrow(label)
    async with opened(window, stage, f"pools/{label}") as (looker,):
        mine, answers = looker.page.locator(f"[data-wish='{label}']"), list[int]()
        looker.page.on(
            "response", lambda each: answers.append(each.status) if each.url.endswith("/session/borrow") else None
        )
        await looker.page.get_by_role("button", name="Queue for it").click()
        await mine.get_by_text("position 1").wait_for()
        await eventually(lambda: len(answers) >= 2)
        assert set(answers) == {503}
        await mine.get_by_text("position 1").wait_for()
        await eventually(lambda: waiting(stage, label))  # none between two calls
        await mine.get_by_role("button", name="Give up").click()
        await mine.wait_for(state="detached")
        assert await waiting(stage, label) == 0


async def test_a_lease_is_renewed_while_a_page_is_open_and_the_user_hears_of_its_end(window, stage):
    label = "lab:keep"
    await stage.publish("keep", {"keep-0": label})
    context = await window.context(permissions=["notifications"])
    await context.add_init_script(NOTED)
    looker = Looker(await context.new_page(), stage.hub.url)
    page, mine = looker.page, looker.page.locator(f"[data-wish='{label}']")
    await page.clock.install()
    await looker.log_in(stage.hub.runner_secret)
    await looker.go(f"pools/{label}")
    await page.get_by_role("button", name="Take", exact=True).click()
    await mine.get_by_text("yours").wait_for()
    renewed: list[int] = []
    page.on("response", lambda answer: answer.url.endswith("/session/renew") and renewed.append(answer.status))

    async def stepped_until(status: int, times: int) -> bool:
        await page.clock.fast_forward(41_000)  # a third of two minutes, which begins when the page has read an answer
        return renewed.count(status) >= times

    await eventually(lambda: stepped_until(200, 2), pause_s=2)
    end = {"lease": {"token": (await stage.runner.get("/console/leases/keep-0")).json()["token"]}, "label": label}
    await stage.admin.post("/console/leases/keep-0/end", json=end)
    await eventually(lambda: stepped_until(409, 1), pause_s=2)
    await mine.get_by_text("over").first.wait_for()
    assert (await page.evaluate("noted"))[-1][0] == "Your lease of keep-0 has ended"
    await mine.get_by_role("button", name="Dismiss").click()
    await mine.wait_for(state="detached")
    await context.close()


async def test_a_lease_left_by_a_closed_page_is_taken_up_again_and_one_that_lapsed_is_not(window, stage):
    label = "lab:left"
    await stage.publish("left", {"left-0": label})
    async with opened(window, stage, f"pools/{label}") as (looker,):
        mine = looker.page.locator(f"[data-wish='{label}']")
        await looker.page.get_by_role("button", name="Take", exact=True).click()
        await mine.get_by_text("yours").wait_for()
        url, context = looker.page.url, looker.page.context
        await looker.page.close()
        looker.page = await context.new_page()
        await looker.page.goto(url)
        mine = looker.page.locator(f"[data-wish='{label}']")
        await mine.get_by_text("yours").wait_for()
        await looker.page.close()
        (lease,) = await leases(stage, label)
        await stage.runner.post("/session/return", json={"labelKey": label, "browserId": lease["browserId"]})
        looker.page = await context.new_page()
        await looker.page.goto(url)
        await looker.page.locator(f"[data-wish='{label}']").get_by_text("that lease has ended").wait_for()
        assert await leases(stage, label) == []


async def test_a_browser_that_may_not_notify_names_the_command_of_hooks(window, stage):
    label = "lab:quiet"
    await stage.publish("quiet", {"quiet-0": label})
    async with opened(window, stage, f"pools/{label}") as (looker,):
        await looker.page.evaluate("Notification.requestPermission = async () => 'denied'")
        mine = looker.page.locator(f"[data-wish='{label}']")
        await looker.page.get_by_role("button", name="Take", exact=True).click()
        await mine.get_by_role("button", name="Tell me").click()
        await mine.get_by_text(f"hub hook add URL --on ticket.turn,lease.ending --label '{label}'").wait_for()
        await mine.get_by_role("button", name="Return mine").click()
        await mine.wait_for(state="detached")


async def test_a_viewer_is_offered_no_slot(window, stage):
    label = "lab:seen"
    await stage.publish("seen", {"seen-0": label})
    context = await window.context()
    looker = Looker(await context.new_page(), stage.hub.url)
    await looker.log_in(stage.hub.runner_secret, look=True)
    await looker.go(f"pools/{label}")
    await looker.page.get_by_text("has room").wait_for()
    assert await looker.page.get_by_role("button", name=re.compile("Take|Queue for it")).count() == 0
    await context.close()


async def test_an_open_hub_lends_to_its_page(window, start_hub):
    hub = start_hub(HUB_RUNNER_SECRET="", HUB_NODE_SECRET="", HUB_ADMIN_SECRET="", HUB_NODE_TIMEOUT="600")
    context = await window.context()
    looker = Looker(await context.new_page(), hub.url)
    async with hub.client("node") as node:
        said = {"nodeId": "open", "slots": [{"slotId": "open-0", "label": "lab:open"}]}
        (await node.post("/node/register", json=said)).raise_for_status()
        await looker.page.goto(f"{hub.url}/#/pools/lab:open")
        await looker.page.get_by_role("button", name="Take", exact=True).click()
        await looker.page.locator("[data-wish]").get_by_text("yours").wait_for()
        assert (await node.get("/sessions")).json()["total"] == 1
    assert looker.complaints == []
    await context.close()
