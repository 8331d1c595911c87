"""Every view of a busy hub: its content, use by keyboard, accessibility, and any size of screen."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import pytest_asyncio
from axe_playwright_python.async_playwright import Axe

from tests.console.browser import PULSES, Looker
from tests.console.look import VIEWS
from tests.console.stage import CROWDED, NODES, WAITERS, node_name
from tests.world import clean_environment, eventually

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow]

# Marks rows with the same elements as an earlier row: one row of each kind is checked.
ALIKE = """() => {
  for (const body of document.querySelectorAll('tbody')) {
    const seen = new Set();
    for (const row of body.rows) {
      const built = [...row.querySelectorAll('*')].map((each) => [
        each.tagName, each.getAttribute('class'), [...each.attributes].map((one) => one.value && one.name),
      ].join(' ')).join('; ') + row.className;
      row.toggleAttribute('data-alike', seen.has(built));
      seen.add(built);
    }
  }
  const ids = [...document.querySelectorAll('[id]')].map((each) => each.id);
  return ids.filter((id, at) => ids.indexOf(id) !== at);
}"""
# Names of the wire as the published clients have it.
OLD = re.compile(
    r"browserId|labelKey|webSocketEndpoint|browserType|leaseToken|matchedLabel|poolLabel|\b[a-z]\w+Utc\b|\b[a-z]+_(?:name|id|at)\b"
)
ONE_OF_A_KIND = {"exclude": [["tr[data-alike]"]]}
SAYS = {
    "overview": [f"{NODES} nodes are alive", f"No slot for {CROWDED} is free", "dead letter"],
    "pools": ["browser:chromium:eu", CROWDED, "licence:matlab", "all lent"],
    "pool": ["Waiting for", "train-0", "Replace all slots"],
    "nodes": [node_name(0), "alive", "draining", f"of {NODES}"],
    "node": [node_name(2), CROWDED, "lent", "What comes next", "node.expired"],
    "leases": ["nightly-0", CROWDED, "Holder", "Node", "Since", "Ends in"],
    "queue": [CROWDED, f"{WAITERS} waiting", "waits because", "unknown", "train-1", "Since", "Gives up in"],
    "usage": ["Hours by day", "Borrows by day", "Held", "Refused", node_name(2)],
    "teams": ["No team has a share", "hub team set"],
    "jobs": ["lab:modifiers:Rotate", "lab:selections:Still", "idle"],
    "tasks": ["dead letter", "ValueError: texture is missing", "2 of 2"],
    "failed": ["RuntimeError: CUDA out of memory"],
    "schedules": ["lab:nightly", "30 2 * * mon-fri", "every 90 min", "paused"],
    "stuck": ["orders", "A pass every 60 minutes"],
    "source": ["records not updated", "order-1000", "Processing"],
    "events": ["ticket.waiting", "train-0"],
    "audit": ["node.drain", "cap.set", "token.create", "admin secret"],
    "why": ["What happened", "grant.lent"],
    "switches": ["Expiry of dead nodes", "Brake on nodes", "licence:matlab", "12"],
    "settings": ["HUB_NODE_TIMEOUT", "600", "environment"],
    "realms": ["default", "this one", "open", "everything without a realm", "hub realm move NAME --to URL"],
    "access": ["admin secret", "ann", "superuser", "bob", "you"],
    "manual": ["Concepts"],
}


BEYOND = """[...document.querySelectorAll('main *')].filter((each) => !each.closest('.rows, .nav')
  && each.getBoundingClientRect().right > 391).map((each) => each.outerHTML.slice(0, 90))"""


# Tables of which something is seen by scrolling sideways alone, and how far each goes on.
ASIDE = """[...document.querySelectorAll('main .rows')].filter((each) => each.scrollWidth > each.clientWidth + 1)
  .map((each) => [each.querySelector('caption')?.textContent, each.scrollWidth - each.clientWidth])"""


# Words that go on in the next line, of names as well: those end at each colon, slash, dot, hyphen and underscore.
BROKEN = """() => {
  const texts = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT), found = new Set();
  for (let text = texts.nextNode(); text; text = texts.nextNode()) {
    if (text.parentElement.closest('pre, caption, .hidden')) continue;
    for (const { 0: word, index } of text.data.matchAll(/[^\\s:/.,_=-]+/g)) {
      const range = document.createRange();
      range.setStart(text, index);
      range.setEnd(text, index + word.length);
      const tops = [...range.getClientRects()].map((each) => each.top);
      if (Math.max(...tops) - Math.min(...tops) > 4) found.add(word);
    }
  }
  return [...found].slice(0, 5);
}"""


# Keeps what moved without being asked to: of texts that change, such as "as of 2 s ago", only their own beginning may.
SHIFTS = """() => {
  globalThis.shifts = [];
  new PerformanceObserver((seen) => shifts.push(...seen.getEntries().filter((each) => !each.hadRecentInput)
    .flatMap((each) => each.sources.map(({ node }) => node?.nodeType === 3 ? node.parentElement.closest('td.num.time')
      ? null : node.parentElement : node)) // an age that has a digit more begins further left in its cell
    .filter((moved) => moved && !moved.closest('.asof, .keys')).map((moved) => moved.outerHTML.slice(0, 90))))
    .observe({ type: 'layout-shift' });
}"""


@asynccontextmanager
async def fetched_anew(page: Any) -> AsyncIterator[None]:
    """Wait, at the end of the block, for the answer to the request that it caused; the manual causes none."""
    if "/manual" in page.url:
        yield
        return
    async with page.expect_response(lambda answer: answer.request.resource_type == "fetch"):
        yield
    await page.wait_for_function("() => !document.querySelector('.asking')")


# Whether the view that is open now has drawn its first answers.
DRAWN = """() => document.querySelector('main h1:not([data-before])') && !document.querySelector('.asking')
  && ![...document.querySelectorAll('main .asof')].some((each) => each.textContent === 'asking…')"""


async def open_drawn(looker: Looker, view: str) -> None:
    """Open a view, and wait until it is drawn with its first answers; a title of another view is replaced by then."""
    if looker.page.url.partition("#/")[2].partition("?")[0] != view.partition("?")[0]:
        await looker.page.evaluate("document.querySelector('main h1').dataset.before = ''")
    await looker.go(view)
    await looker.page.wait_for_function(DRAWN)


async def moved_elements(page: Any) -> list[str]:
    """Return, and forget, what has moved up to the frame drawn next."""
    await page.evaluate("new Promise((go) => requestAnimationFrame(() => requestAnimationFrame(go)))")
    moved: list[str] = await page.evaluate("shifts.splice(0)")
    return moved


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def looker(window, house) -> Any:
    context = await window.context()
    found = Looker(await context.new_page(), house.hub.url)
    await found.log_in(house.hub.admin_secret)
    yield found
    await context.close()


async def barriers(page: Any, *themes: str) -> dict[str, Any]:
    """Return the accessibility faults that axe finds on the page, in both themes or in the given ones."""
    wrong = {}
    for theme in themes or ("light", "dark"):
        await page.evaluate(f"document.documentElement.dataset.theme = '{theme}'")
        if twice := await page.evaluate(ALIKE):
            wrong["ids"] = twice
        found = (await Axe().run(page, ONE_OF_A_KIND, {"resultTypes": ["violations"]})).response["violations"]
        if found:
            wrong[theme] = [(v["id"], v["nodes"][0]["html"][:160]) for v in found]
    return wrong


@pytest.mark.timeout(280)
async def test_every_view_shows_its_content_and_is_accessible_in_both_themes(looker):
    wrong: dict[str, Any] = {}
    looking_s, started = 0.0, time.monotonic()
    for name, view in VIEWS.items():
        began = time.monotonic()
        await looker.go(view)
        for text in SAYS[name]:
            if text not in await looker.text():
                await looker.page.locator("main", has_text=text).first.wait_for()
        looking_s += time.monotonic() - began
        if old := OLD.findall(await looker.page.content()):
            wrong[f"names of {name}"] = old
        if found := await barriers(looker.page):
            wrong[name] = found
    print(f"{len(VIEWS)} views read in {looking_s:.0f} s, and with axe in {time.monotonic() - started:.0f} s")
    assert wrong == {}
    assert await looker.page.evaluate("document.documentElement.dataset.violations") == "0"
    assert looker.complaints == []


async def test_dialogs_and_the_login_are_accessible_in_both_themes(looker, window):
    page = looker.page
    await looker.go("tasks?status=dead")
    await page.get_by_label("Choose all that are shown").check()
    await page.get_by_role("button", name="Drop…").click()
    await page.get_by_label("Type 12 to go on").fill("11")
    assert await barriers(page) == {}
    await page.get_by_role("button", name="Leave it").click()
    await page.get_by_role("button", name="Keys and help").click()
    await page.get_by_role("dialog").get_by_text("find any id").wait_for()
    assert await barriers(page) == {}
    await page.keyboard.press("Escape")
    context = await window.context()
    other = await context.new_page()
    await other.goto(looker.url)
    await other.get_by_label("Secret or token").fill("guessed")
    await other.get_by_role("button", name="Log in").click()
    await other.get_by_role("alert").wait_for()
    assert await barriers(other) == {}
    await context.close()


async def test_a_freshly_opened_page_never_says_that_it_is_disconnected(window, house):
    context = await window.context()
    opened = Looker(await context.new_page(), house.hub.url)
    await opened.page.add_init_script(PULSES)
    await opened.log_in(house.hub.admin_secret)
    await opened.page.wait_for_function("() => document.documentElement.dataset.stream === 'live'")
    await opened.page.reload()
    await opened.page.locator(".pulse.good").wait_for()
    seen = await opened.page.evaluate("sessionStorage.pulses")
    assert "Live" in seen
    assert "bad" not in seen
    await context.close()


async def test_no_element_moves_while_numbers_are_fetched_again(looker):
    page, jumps = looker.page, {}
    await page.reload()  # or lists would begin with what others have added to since they were seen
    await page.wait_for_function("() => document.documentElement.dataset.stream === 'live'")
    await looker.settled()  # the stream may be live before the module of the view has come
    await page.evaluate(SHIFTS)
    for name, view in VIEWS.items():
        await open_drawn(looker, view)
        # The acts of a view come with its first answer, beside its age; everything else has its place before that.
        opening = [moved for moved in await moved_elements(page) if not moved.startswith('<div class="acts">')]
        async with fetched_anew(page):
            await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")  # all of it is fetched again
        if found := opening + await moved_elements(page):
            jumps[name] = found
    assert jumps == {}


async def test_no_view_overflows_a_small_screen(looker):
    """Neither page nor tables scroll sideways, where content would be missed, and no word is broken to fit."""
    await looker.page.set_viewport_size({"width": 390, "height": 844})
    wide, wrong, broken = {}, {}, {}
    for name, view in VIEWS.items():
        await looker.go(view)
        if found := await looker.page.evaluate(BROKEN):
            broken[name] = found
        if await looker.page.evaluate("document.documentElement.scrollWidth") > 390:
            wide[name] = await looker.page.evaluate(BEYOND)
        if found := await looker.page.evaluate(ASIDE):
            wide[f"tables of {name}"] = found
        if found := await barriers(looker.page, "light"):
            wrong[name] = found
    await looker.page.set_viewport_size({"width": 1280, "height": 860})
    assert wide == {}
    assert wrong == {}
    assert broken == {}


@pytest.mark.parametrize("age_ms", [125_000, 599_000, 172_799_000])
async def test_tables_of_long_ages_fit_a_small_screen(looker, age_ms):
    async def age(route: Any) -> None:
        answer = await route.fetch()
        text = re.sub(r'"sinceBeatMs": ?\d+', f'"sinceBeatMs":{age_ms}', await answer.text())
        await route.fulfill(response=answer, body=text)

    page, wide = looker.page, {}
    await page.set_viewport_size({"width": 390, "height": 844})
    await page.route(re.compile(r"/(nodes|console/workers)\?"), age)
    await page.reload()
    await looker.settled()
    for view, shown in (("nodes", "Nodes"), ("jobs", "Workers")):
        await open_drawn(looker, view)
        await page.locator(f"[aria-label={shown}] td.time", has_text=re.compile(r"(min|h) .* ago")).first.wait_for()
        if found := await page.evaluate(ASIDE):
            wide[view] = found
    await page.unroute_all(behavior="wait")
    await page.set_viewport_size({"width": 1280, "height": 860})
    assert wide == {}


async def test_every_control_can_be_reached_by_keyboard(looker):
    page = looker.page
    await looker.go("overview")
    await page.keyboard.press("/")
    await page.keyboard.type(f"{node_name(2)}-0")
    await page.keyboard.press("Enter")
    await page.get_by_role("heading", name=f"slot {node_name(2)}-0").wait_for()
    await page.locator("#title").focus()
    await page.keyboard.press("g")
    await page.keyboard.press("n")
    await page.get_by_role("heading", name="Nodes", exact=True).wait_for()
    await page.get_by_role("link", name=node_name(3), exact=True).focus()
    await page.keyboard.press("Enter")
    await page.get_by_role("heading", name=node_name(3)).wait_for()
    await page.get_by_role("button", name="Drain…").focus()
    await page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Reason").wait_for()
    await page.keyboard.press("Escape")
    await dialog.wait_for(state="detached")
    assert await page.evaluate("document.activeElement.textContent") == "Drain…"
    await page.keyboard.press("?")
    await page.get_by_role("dialog").get_by_text("find any id").wait_for()
    await page.keyboard.press("Escape")


async def test_the_address_of_a_view_contains_its_filter(looker, house):
    await looker.go("tasks?status=failed")
    await looker.page.get_by_label("Id, job, room, error or payload contains").fill("texture")
    await looker.page.wait_for_url("**/#/tasks?status=failed&q=texture")
    other = await looker.page.context.new_page()
    await other.goto(looker.page.url)
    await other.get_by_text("lab:modifiers:Bake").first.wait_for()
    assert await other.get_by_label("Id, job, room, error or payload contains").input_value() == "texture"
    await other.close()


async def test_a_node_can_be_drained_and_the_reason_is_in_the_audit_log(looker, house):
    await looker.go(f"nodes/{node_name(30)}")
    await looker.page.get_by_role("button", name="Drain…").click()
    go = looker.page.get_by_role("button", name="Drain", exact=True)
    assert await go.is_disabled()
    await looker.page.get_by_label("Reason").fill("new disk, ticket 7")
    await go.click()
    await looker.page.get_by_role("button", name="Undrain…").wait_for()
    assert (await house.admin.get(f"/nodes/{node_name(30)}")).json()["draining"]
    entries = (await house.admin.get("/audit?category=console")).json()
    assert [e["details"]["reason"] for e in entries if "drain" in e["details"].get("path", "")] == [
        "new disk, ticket 7"
    ]


async def test_a_cordoned_node_shows_its_reason(looker, house):
    await looker.go(f"nodes/{node_name(31)}")
    await looker.page.get_by_role("button", name="Cordon…").click()
    await looker.page.get_by_label("Reason").fill("the fan is broken")
    await looker.page.get_by_role("button", name="Cordon", exact=True).click()
    await looker.page.get_by_role("button", name="Undrain…").wait_for()
    await looker.page.get_by_text("the fan is broken", exact=True).first.wait_for()
    assert (await house.admin.get(f"/nodes/{node_name(31)}")).json()["reason"] == "the fan is broken"


async def test_a_lease_can_be_ended_by_its_token(looker, house):
    lease = await house.borrow("device:pixel-9", "mine")
    slot = lease["browserId"]
    await looker.go("leases?by=run&of=mine")
    await looker.page.get_by_role("button", name=f"End the lease of {slot}").click()
    await looker.page.get_by_role("dialog").get_by_text(lease["leaseToken"]).wait_for()
    # The lease ends while the dialog is open, and the slot may have a new holder: its lease must not be ended.
    await house.runner.post("/session/return", json={"labelKey": lease["labelKey"], "browserId": slot})
    await looker.page.get_by_label("Reason").fill("hangs")
    await looker.page.get_by_role("button", name="End the lease", exact=True).click()
    await looker.page.get_by_text("This lease is over already").wait_for()
    await looker.page.get_by_role("button", name="Leave it").click()
    lease = await house.borrow("device:pixel-9", "mine")
    slot = lease["browserId"]
    await looker.page.get_by_role("button", name=f"End the lease of {slot}").click()
    await looker.page.get_by_label("Reason").fill("hangs")
    await looker.page.get_by_role("button", name="End the lease", exact=True).click()
    await looker.page.get_by_text(f"The lease of {slot} has ended").wait_for()
    assert (await house.runner.get(f"/sessions/{slot}")).status_code == 404


async def test_a_task_shows_its_progress_its_log_and_its_result(looker, house):
    full = "lab:modifiers:Told"
    worker = await house.offer("modifiers:Told")
    jobs = house.admin
    task = (await jobs.post(f"/v1/joblib/rooms/lab/tasks/{full}", json={"payload": {}})).json()["id"]
    (
        await jobs.post("/v1/joblib/tasks/claim", json={"worker_id": worker, "limit": 1, "start": True})
    ).raise_for_status()
    said = {"id": task, "progress": 0.4, "message": "step 3", "log": ["<b>begins</b>"]}
    answer = await jobs.post("/v1/joblib/tasks/progress", json={"worker_id": worker, "tasks": [said]})
    assert answer.json()["tasks"] == [{"id": task, "outcome": "ok"}]
    await looker.go(f"tasks?status=running&q={task}")
    await looker.page.locator(f"[aria-controls=detail-{task}]").first.click()
    await looker.page.locator(f"#detail-{task}").get_by_text("40% step 3").wait_for()
    await looker.page.get_by_text("<b>begins</b>").wait_for()
    moved = await jobs.patch(f"/v1/joblib/tasks/{task}", json={"status": "completed", "result": {"n": 144}})
    moved.raise_for_status()
    assert f"open={task}" in looker.page.url
    await looker.page.reload()  # it stays open, and the link is one to it
    await looker.go(f"tasks?status=completed&q={task}&open={task}")
    await looker.page.get_by_label("Result").get_by_text('"n": 144').wait_for()


async def test_an_action_on_more_than_ten_things_needs_their_number_typed(looker, house):
    full = "lab:modifiers:Oven"
    worker = await house.offer("modifiers:Oven")
    await house.submit("modifiers:Oven", 12)
    claim = {"worker_id": worker, "limit": 12, "start": True}
    for task in (await house.admin.post("/v1/joblib/tasks/claim", json=claim)).json()["tasks"]:
        failed = {"status": "failed", "error": "cold"}
        (await house.admin.patch(f"/v1/joblib/tasks/{task['id']}", json=failed)).raise_for_status()
    await looker.go(f"tasks?status=failed&job={full}")
    await looker.page.get_by_label("Choose all that are shown").check()
    await looker.page.get_by_role("button", name="Try again…").click()
    dialog = looker.page.get_by_role("dialog")
    await dialog.get_by_label("Reason").fill("textures are back")
    go = dialog.get_by_role("button", name="Try again", exact=True)
    assert await go.is_disabled()
    await dialog.get_by_label("Type 12 to go on").fill("11")
    assert await go.is_disabled()
    await dialog.get_by_label("Type 12 to go on").fill("12")
    await go.click()
    await looker.page.get_by_text("12 tasks queued again").wait_for()
    assert (await house.admin.get(f"/console/tasks?status=pending&job={full}")).json()["total"] == 12


async def test_a_reset_of_a_frozen_list_of_stuck_records_touches_no_other_record(looker, house, records):
    records.get_stuck(3000, 3)
    await looker.go("stuck/orders")
    await looker.page.get_by_label("Choose order-3000").check()
    await looker.page.get_by_label("Choose order-3001").check()
    await looker.page.get_by_role("button", name="Reset…", exact=True).click()
    await looker.page.get_by_label("Reason").fill("worker was killed")
    await looker.page.get_by_role("button", name="Reset", exact=True).click()
    await looker.page.get_by_text("2 records of orders reset").wait_for()
    assert [records.status(f"order-{n}") for n in (3000, 3001, 3002)] == ["Pending", "Pending", "Processing"]


async def test_a_viewer_is_offered_no_change(window, house):
    context = await window.context()
    looker = Looker(await context.new_page(), house.hub.url)
    await looker.log_in(house.hub.admin_secret, look=True)
    for view in ("nodes", f"nodes/{node_name(2)}", "leases", "queue", "tasks?status=dead", "switches", "stuck/orders"):
        await looker.go(view)
        buttons = await looker.page.locator("main button:not(.link)").all_inner_texts()  # links are short ids, with …
        assert [text for text in buttons if text.endswith("…")] == [], view
    await context.close()


async def test_the_link_of_hub_ui_opens_the_console_once(window, house):
    command = [sys.executable, "-m", "hub.cli", "ui", "--json", "--role", "viewer"]
    named = {"HUB_URL": house.hub.url, "HUB_ADMIN_SECRET": house.hub.admin_secret, "DISABLE_DOTENV": "1"}
    environment = {**clean_environment(), **named}
    done = await asyncio.to_thread(
        subprocess.run, command, env=environment, capture_output=True, check=True, timeout=60
    )
    link = json.loads(done.stdout)["url"]
    for opens in (True, False):
        context = await window.context()
        page = await context.new_page()
        await page.goto(link)
        if opens:
            await page.locator("#health").wait_for()
            assert await page.locator(".who").inner_text() == "viewer"
            assert "login" not in page.url, "nobody reads it from the window or its history"
        else:
            await page.get_by_role("alert").wait_for()
            await page.get_by_label("Secret or token").wait_for()
        await context.close()


async def test_tabs_of_a_browser_share_one_stream(window, house):
    context = await window.context()
    lookers = [Looker(await context.new_page(), house.hub.url) for _ in range(3)]
    asked: list[str] = []
    context.on("request", lambda request: asked.append(request.url) if re.search(r"/events$", request.url) else None)
    await lookers[0].log_in(house.hub.admin_secret)
    for looker in lookers[1:]:
        await looker.page.goto(f"{house.hub.url}/#/events")
    for looker in lookers:
        await looker.page.wait_for_function("() => document.documentElement.dataset.stream === 'live'")
    asked.clear()
    await house.add_nodes(1, first=900)
    for looker in lookers[1:]:
        await looker.page.get_by_text(node_name(900)).first.wait_for()
    assert asked == []
    await house.admin.delete(f"/admin/nodes/{node_name(900)}")  # the other tests count
    await context.close()


async def test_all_waiters_still_wait_after_the_walk_through_the_console(house):
    async def waits() -> bool:
        return bool((await house.admin.get("/queue")).json()["waiting"] >= WAITERS)

    await eventually(waits)
