"""The page is right under any clock, time zone and keyboard of the browser: charts, ages, estimates, and how often it
asks the hub."""

from __future__ import annotations

import re
import time
from collections import Counter
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tests.console.browser import Looker
from tests.console.stage import CROWDED, WAITERS, J, node_name
from tests.world import SLACK_S, eventually

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow]

HOURS_AHEAD = 5
STORM_S = 3
AHEAD = """(() => {
  const real = Date;
  globalThis.Date = class extends real {
    constructor(...said) { said.length ? super(...said) : super(real.now() + AHEAD_MS); }
    static now() { return real.now() + AHEAD_MS; }
  };
})()""".replace("AHEAD_MS", str(HOURS_AHEAD * 3_600_000))
# What the charts draw, and what the page has heard: the modules of the page itself.
COLUMNS = """async () => {
  const { columns } = await import(new URL('console/lib/series.js', location.href.split('#')[0]));
  const { storeNow } = await import(new URL('console/lib/api.js', location.href.split('#')[0]));
  return columns(storeNow());
}"""
COUNT_HEARD = """async () => {
  const { listen } = await import(new URL('console/lib/live.js', location.href.split('#')[0]));
  globalThis.heard = 0;
  listen(({ event }) => (heard += event.startsWith(KIND)));
}"""
# Everything that Tab should reach, and where it is now.
REACHABLE = """() => {
  document.querySelectorAll('[data-stop]').forEach((each) => delete each.dataset.stop);
  return [...document.querySelectorAll('a[href], button, input, select, [tabindex="0"]')]
    .filter((each) => !each.disabled && each.checkVisibility({ visibilityProperty: true }) && each.tabIndex >= 0)
    .map((each, at) => (each.dataset.stop = String(at)));
}"""
AT = """() => {
  const on = document.activeElement, style = getComputedStyle(on);
  return { stop: on.dataset.stop ?? '', tag: on.outerHTML.slice(0, 80),
    seen: style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2 };
}"""


async def test_charts_draw_what_happened_and_describe_it_to_screen_readers(looker, house):
    label = "phone:gone"
    await house.publish("gone", {"gone-0": label})
    await house.borrow(label)
    (await house.admin.delete("/admin/nodes/gone")).raise_for_status()  # a lease that ends early
    seen = (await house.admin.get("/console/overview")).json()
    events = (await house.admin.get("/history?kind=grant,ticket,node&limit=1000")).json()["events"]
    happened = Counter(event["event"] for event in events)
    await looker.go("overview")
    charts = looker.page.locator(".charts [role=img]")
    slots = f"Slots, the last hour. Now: lent {seen['slots']['lent']}, free {seen['slots']['free']}."
    await looker.page.get_by_role("img", name=slots).wait_for()
    await looker.page.get_by_role("img", name=f"Now: borrowers {seen['queue']['waiting']}.").wait_for()
    said = [await chart.get_attribute("aria-label") or "" for chart in await charts.all()]
    assert [text.partition(",")[0] for text in said] == [
        "Slots", "Waiting", "Leases per second", "Wait for a slot", "Ended early",
    ]  # fmt: skip
    waits = re.compile(r"^Wait for a slot, the last hour\. Now: p50 [0-9.]+ m?s.*, p99 [0-9.]+ m?s.*\.$")
    await looker.page.get_by_role("img", name=waits).wait_for()  # once the history was read
    drawn: dict[str, Any] = {}

    async def all_drawn() -> bool:  # the last of them comes by the stream
        drawn.update(await looker.page.evaluate(COLUMNS))
        return round(sum(drawn["grants"]) * 10) == happened["grant.lent"] + happened["grant.handed"]

    await eventually(all_drawn)
    assert drawn["lent"][-1] in (seen["slots"]["lent"], None)  # None: the first instant of a step
    # No waiter of the crowd was served yet: the chart shows how long they have waited until now.
    (line,) = (await house.admin.get(f"/queue?label={CROWDED}&tickets=1")).json()["labels"]
    longest_s = time.time() - datetime.fromisoformat(line["tickets"][0]["sinceUtc"]).timestamp()
    last_p99 = [value for value in (await looker.page.evaluate(COLUMNS))["p99"] if value is not None][-1]
    assert longest_s - 2 * SLACK_S <= last_p99 <= longest_s + 2 * SLACK_S
    assert sum(drawn["expiries"]) == happened["node.expired"] + happened["grant.lapsed"] + happened["grant.ended"] >= 1


async def test_a_browser_with_a_wrong_clock_shows_ages_and_times_right(window, house):
    context = await window.context(timezone_id="Asia/Tokyo")
    await context.add_init_script(AHEAD)
    other = Looker(await context.new_page(), house.hub.url)
    await other.log_in(house.hub.admin_secret)
    await other.page.locator(".head .asof", has_text=re.compile("as of (now|[0-9.]+ s ago)")).wait_for()
    lent = (await house.admin.get("/console/overview")).json()["slots"]["lent"]
    await other.page.get_by_role("img", name=f"Now: lent {lent}").wait_for()
    await house.beat(4)
    await other.go(f"nodes/{node_name(4)}")
    beat = other.page.locator("dl.facts div", has_text="Last beat").locator("dd")
    await eventually(lambda: _is_recent(beat))
    await other.go("leases")
    since = other.page.locator("tbody time").first
    at = datetime.fromisoformat(str(await since.get_attribute("datetime")))
    here = at.astimezone(ZoneInfo("Asia/Tokyo"))
    # Today by the clock of the store, so without a date, unless midnight has passed there meanwhile.
    assert await since.inner_text() in (f"{here:%H:%M:%S}", f"{here:%b} {here.day}, {here:%H:%M:%S}")
    assert await since.get_attribute("title") == f"{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03} UTC"
    assert other.complaints == []
    await context.close()


async def test_a_list_made_for_another_page_shows_its_true_age(window, house):
    context = await window.context()
    other = Looker(await context.new_page(), house.hub.url)
    await other.log_in(house.hub.admin_secret)

    async def older(route: Any) -> None:
        answer = await route.fetch()
        await route.fulfill(response=answer, headers={**answer.headers, "x-hub-age-ms": "60000"})

    await other.page.route(re.compile(r"/nodes\?"), older)
    await other.go("nodes")
    await other.page.locator("main .asof", has_text=re.compile("as of (60|6[0-9]|1 min|[0-9.]+ min)")).wait_for()
    await context.close()


async def _is_recent(beat: Any) -> bool:
    found = re.match(r"([0-9.]+) s ago", await beat.inner_text())
    return found is not None and float(found[1]) < 60


async def test_in_a_storm_of_events_each_list_is_fetched_at_most_once_a_second(window, house):
    context = await window.context()
    other = Looker(await context.new_page(), house.hub.url)
    await other.page.clock.install()
    asked, answered = Counter[str](), Counter[str]()
    other.page.on("request", lambda request: asked.update([request.url.partition("?")[0]]))
    other.page.on("requestfinished", lambda request: answered.update([request.url.partition("?")[0]]))
    await other.log_in(house.hub.admin_secret)
    await other.go("nodes?q=storm")
    await other.page.wait_for_function("() => document.documentElement.dataset.stream === 'live'")
    await other.page.evaluate(COUNT_HEARD.replace("KIND", "'node.'"))
    await eventually(lambda: answered[f"{house.hub.url}/queue"])  # the last list that is fetched before it is opened
    before = asked.copy()
    await other.page.clock.pause_at(await other.page.evaluate("Date.now() / 1000 + 2"))  # time is stepped from here
    asked.clear()
    answered.clear()
    for tenth in range(10 * STORM_S):
        for number in range(3):
            await house.publish(f"storm-{tenth:02}-{number}", {})

        async def all_heard_and_answered(events: int = 3 * (tenth + 1)) -> bool:
            return bool(await other.page.evaluate("heard") >= events) and asked <= answered

        await eventually(all_heard_and_answered)
        await other.page.clock.run_for(100)
    assert 2 <= asked[f"{house.hub.url}/nodes"] <= STORM_S + 1, asked
    assert max(asked.values()) <= STORM_S + 1, asked
    before += asked
    assert [before[f"{house.hub.url}/{name}"] for name in ("pools", "sessions", "queue")] == [1, 1, 1], before
    await other.page.clock.resume()
    await other.page.get_by_role("link", name=f"storm-{10 * STORM_S - 1}-2").wait_for()
    await context.close()


async def test_the_row_of_a_schedule_is_updated_by_events_without_a_reload(window, house):
    """Time is stepped by less than what a list is old after: what is seen came by an event."""
    context = await window.context()
    other = Looker(await context.new_page(), house.hub.url)
    await other.page.clock.install()
    await other.log_in(house.hub.admin_secret)
    await other.go("schedules?q=seen")
    await other.page.wait_for_function("() => document.documentElement.dataset.stream === 'live'")
    await other.page.evaluate(COUNT_HEARD.replace("KIND", "'schedule.'"))
    await other.page.clock.pause_at(await other.page.evaluate("Date.now() / 1000 + 2"))
    row, path = other.page.locator("tr[data-id='lab:seen']"), f"{J}/rooms/lab/schedules/seen"

    async def told(number: int, method: str, **body: Any) -> None:
        (await house.admin.request(method, path, **({"json": body} if body else {}))).raise_for_status()
        await other.page.wait_for_function(f"() => heard >= {number}")
        await other.page.clock.run_for(1_100)  # a list is fetched at most once a second

    every = {"job": "lab:modifiers:Rotate", "payload": {}}
    await told(1, "PUT", **every, everySeconds=5400)
    await row.get_by_text("every 90 min").wait_for()
    await told(2, "PUT", **every, everySeconds=6000)
    await row.get_by_text("every 100 min").wait_for()
    await told(3, "PATCH", paused=True)
    await row.get_by_text("paused").wait_for()
    await told(4, "PATCH", paused=False)
    await row.get_by_text("active").wait_for()
    await told(5, "DELETE")
    await row.wait_for(state="detached")
    await context.close()


async def test_estimated_waits_are_numbers_once_a_queue_has_moved(looker, house):
    label = "phone:moves"
    await house.publish("moves", {"moves-0": label})
    lease = await house.borrow(label)
    await house.wait_for(label, 3)
    first = house.waiting[-3]
    await house.runner.post("/session/return", json={"labelKey": label, "browserId": lease["browserId"]})
    answer = (await first).json()
    await house.runner.post("/session/return", json={"labelKey": label, "browserId": answer["browserId"]})
    await house.waiting[-2]
    (line,) = (await house.admin.get(f"/queue?label={label}&tickets=5")).json()["labels"]
    (ticket,) = line["tickets"]
    assert ticket["estimatedWaitSeconds"] is not None
    await looker.go(f"queue?label={label}")
    await looker.page.get_by_text(re.compile(r"A new borrower waits about [0-9.]+ (s|min)")).wait_for()
    row = looker.page.locator(f"tr[data-id='{ticket['ticket']}']")
    assert "unknown" not in await row.inner_text()
    await row.get_by_text(re.compile(r"^[0-9.]+ s$")).wait_for()


async def test_the_filter_of_the_audit_log_is_kept_in_the_address(looker, house):
    await looker.go("events/audit")
    await looker.page.get_by_role("button", name="Operators", exact=True).click()
    await looker.page.get_by_label("Contains").fill("cap.set")
    await looker.page.wait_for_url("**/#/events/audit?category=admin&q=cap.set")
    await looker.page.locator("tbody tr", has_text="node.drain").first.wait_for(state="detached")
    whats = await looker.page.locator("tbody tr td:nth-child(2) code").all_inner_texts()
    assert set(whats) == {"cap.set"}
    await looker.page.get_by_role("button", name="Nodes", exact=True).click()
    await looker.page.get_by_text("No entry is like that").wait_for()


async def test_events_can_be_filtered_by_kind_and_text_and_the_address_keeps_the_filter(looker, house):
    await looker.go("events")
    await looker.page.get_by_role("button", name="Leases", exact=True).click()
    await looker.page.get_by_label("Contains").fill("nightly-1")
    await looker.page.wait_for_url("**/#/events?kind=grant&q=nightly-1")
    await looker.page.locator("tbody tr", has_text="nightly-1").first.wait_for()
    await looker.page.locator("tbody tr", has_not_text="nightly-1").first.wait_for(state="detached")
    whats = await looker.page.locator("tbody tr td:nth-child(2)").all_inner_texts()
    assert whats
    assert {what.partition(".")[0] for what in whats} == {"grant"}


async def test_an_event_that_happens_while_the_list_is_fetched_is_in_the_list(window, house):
    context = await window.context()
    other = Looker(await context.new_page(), house.hub.url)
    await other.log_in(house.hub.admin_secret)
    await other.page.wait_for_function("() => document.documentElement.dataset.stream === 'live'")
    await other.page.evaluate(COUNT_HEARD.replace("KIND", "'node.'"))

    async def late(route: Any) -> None:
        answer = await route.fetch()  # as it was before
        await house.publish("between", {})
        await other.page.wait_for_function("() => heard >= 1")
        await other.page.wait_for_timeout(200)  # the page shows together what comes within a tenth of a second
        await route.fulfill(response=answer)

    await other.page.route(re.compile(r"/history\?"), late)
    await other.go("events?kind=node")
    await other.page.locator(".tag", has_text="node between").wait_for()
    await context.close()


@pytest.mark.parametrize(
    "view",
    [
        "overview", f"nodes/{node_name(2)}", "tasks?status=dead", "switches", "nodes?q=rack-01", "pools",
        "pools/licence:matlab", "leases?by=run&of=nightly-1", "queue", "jobs", "schedules", "access",
        "events/audit?q=cap", "stuck/orders", "stuck",
    ],
)  # fmt: skip
async def test_tab_reaches_every_control_and_shows_the_focus(looker, view):
    page = looker.page
    await looker.go(view)
    for _ in range(10):
        await page.evaluate("document.documentElement.tabIndex = -1, document.documentElement.focus()")
        stops = await page.evaluate(REACHABLE)
        walked = []
        for _ in stops:
            await page.keyboard.press("Tab")
            walked.append(await page.evaluate(AT))
        if await page.locator("[data-stop]").count() == len(stops):  # nothing was drawn anew meanwhile
            break
    assert [each["stop"] for each in walked] == stops
    assert [each["tag"] for each in walked if not each["seen"]] == []
    await page.keyboard.press("Tab")  # and out of the page, or to its beginning
    assert (await page.evaluate(AT))["stop"] in ("", "0")


@pytest.mark.parametrize(
    ("view", "choose", "button"),
    [
        (f"nodes/{node_name(2)}", "", "Cordon…"), ("pools/licence:matlab", "", "Replace all slots…"),
        ("leases?by=run&of=nightly-1", "", "End…"), ("queue", "", "Cancel…"), ("jobs", "", "Remove…"),
        ("tasks?status=dead", "Choose all that are shown", "Try again…"), ("switches", "", "Switch off…"),
        ("schedules", "Choose all that are shown", "Pause…"), ("stuck/orders", "", "Dry run and reset…"),
        ("access", "", "Revoke…"), ("nodes?q=rack-01", "Choose all that are shown", "Drain…"),
        (f"nodes/{node_name(4)}", "Choose all that are shown", "Hold…"),
    ],
)  # fmt: skip
async def test_every_action_can_be_opened_and_left_by_keyboard(looker, view, choose, button):
    page = looker.page
    await looker.go(view)
    await page.evaluate("document.documentElement.tabIndex = -1, document.documentElement.focus()")
    if choose:
        await tab_to(page, f"on.getAttribute('aria-label') === {choose!r}")
        await page.keyboard.press("Space")
    await tab_to(page, f"on.textContent === {button!r}")
    await page.keyboard.press("Enter")
    await page.get_by_role("dialog").get_by_label("Reason").wait_for()
    await tab_to(page, "on.closest('dialog') && on.labels?.[0]?.textContent.startsWith('Reason')")
    await page.keyboard.type("by keyboard")
    assert await page.get_by_role("dialog").get_by_label("Reason").input_value() == "by keyboard"
    await page.keyboard.press("Escape")
    await page.get_by_role("dialog").wait_for(state="detached")
    if choose:
        await page.get_by_role("button", name="Choose none").click()


async def tab_to(page: Any, wanted: str) -> None:
    """Press Tab until that has the focus."""
    for _ in range(500):
        if await page.evaluate(f"() => {{ const on = document.activeElement; return Boolean({wanted}); }}"):
            return
        await page.keyboard.press("Tab")
    pytest.fail(f"Tab does not lead to {wanted}")


async def test_a_dialog_keeps_the_keyboard_focus_until_it_is_closed(looker):
    page = looker.page
    await looker.go(f"nodes/{node_name(2)}")
    opener = page.get_by_role("button", name="Drain…")
    await opener.focus()
    await page.keyboard.press("Enter")
    await page.get_by_label("Reason").wait_for()
    inside = "document.activeElement === document.body || !!document.activeElement.closest('dialog')"
    for _ in range(12):
        await page.keyboard.press("Tab")
        assert await page.evaluate(inside)
    await page.get_by_label("Reason").fill("typed")
    await page.keyboard.press("Escape")
    await page.get_by_role("dialog").wait_for(state="detached")
    assert await opener.evaluate("(each) => each === document.activeElement")


async def test_a_reload_keeps_the_selected_rows_and_the_scroll_position(looker):
    page = looker.page
    await looker.go("nodes?q=rack-")  # nodes that other tests register do not come in between
    ids = await page.locator("tbody tr").evaluate_all("rows => rows.map((row) => row.dataset.id)")
    rows = [page.get_by_label(f"Choose {name}", exact=True) for name in ids[60:62]]
    for row in rows:
        await row.check()
    scrolled = await page.evaluate("scrollY")
    assert scrolled > 500
    await page.wait_for_function("() => history.state.chosen.length === 2")
    await page.reload()
    await page.get_by_text("2 nodes chosen").wait_for()
    assert [await row.is_checked() for row in rows] == [True, True]
    await page.wait_for_function(f"() => Math.abs(scrollY - {scrolled}) < 2")
    await page.get_by_role("button", name="Choose none").click()


async def test_no_waiter_was_lost_while_the_console_was_used(house):
    assert (await house.admin.get(f"/queue?label={CROWDED}")).json()["waiting"] >= WAITERS
