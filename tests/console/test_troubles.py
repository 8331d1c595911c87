"""Planted troubles: the page names each, never lies about how old its numbers are, and goes on by itself."""

from __future__ import annotations

import asyncio
import re
import shlex
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from itertools import pairwise, takewhile
from typing import Any

import httpx
import pytest

from hub.cli import main
from tests.cli.command import Command
from tests.console.browser import PULSES, Looker
from tests.console.stage import CALM, Records, node_name, on_stage, staged
from tests.wire import Wire
from tests.world import HubProcess, eventually

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow]


HIDE = """(hidden) => {
  Object.defineProperty(document, "hidden", { get: () => hidden, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""
HEARD = """async () => {
  globalThis.heard = 0;
  (await import("/console/lib/live.js")).listen(() => heard++);
}"""
TOLD = """async () => {
  globalThis.told = 0;
  (await import("/console/lib/live.js")).onOverview(() => told++);
}"""


@asynccontextmanager
async def looking(window: Any, hub: HubProcess, url: str = "", secret: str = "") -> AsyncIterator[Looker]:
    """Yield a page that is logged in at the hub."""
    context = await window.context()
    looker = Looker(await context.new_page(), url or hub.url)
    await looker.log_in(secret or hub.admin_secret)
    yield looker
    await context.close()


async def names(looker: Looker, trouble: str, *texts: str) -> None:
    """The overview names the trouble, and says this of it."""
    found = looker.page.locator(f"[data-trouble='{trouble}']")
    for text in texts or ("",):
        await found.get_by_text(text).first.wait_for()


async def quiet(looker: Looker, trouble: str) -> None:
    """The overview does not name it any more."""
    await looker.page.locator(f"[data-trouble='{trouble}']").wait_for(state="detached")


async def test_troubles_tell_a_dead_fleet_from_an_overloaded_one_and_show_the_brake(window, start_hub):
    hub = start_hub(**{**CALM, "HUB_NODE_TIMEOUT": "6", "HUB_SWEEPER_BRAKE_MIN": "3"})
    async with on_stage(hub) as stage, looking(window, hub) as looker:
        await stage.add_nodes(6, slots=1)
        await stage.beat(*range(6))
        await stage.borrow("gpu:a100:eu")
        await stage.wait_for("gpu:a100:eu", 3)
        await names(looker, "overloaded", "3 borrowers wait", "gpu:a100:eu")
        await names(looker, "nobody-alive", "All 6 registered nodes are silent")  # no node beats any more
        await quiet(looker, "overloaded")
        await names(looker, "brake-nodes", "of 6 nodes are silent at once")
        assert "Nobody is alive" in await looker.page.locator("#health").inner_text()
        await stage.beat(*range(6))
        await quiet(looker, "nobody-alive")


async def test_troubles_tell_a_misspelt_label_from_a_full_pool(window, start_hub):
    hub = start_hub(**CALM)
    async with on_stage(hub) as stage, looking(window, hub) as looker:
        await stage.add_nodes(6)
        await stage.wait_for("gpu:a10:eu", 1)
        await names(looker, "unserved", "gpu:a10:eu: no node offers such slots")
        await looker.go("queue")
        await looker.page.get_by_text("no pool serves this label").wait_for()


async def test_troubles_tell_held_slots_from_a_full_pool(window, start_hub):
    hub = start_hub(**CALM)
    async with on_stage(hub) as stage, looking(window, hub) as looker:
        await stage.add_nodes(6)
        for n in range(6):
            assert (await stage.admin.post(f"/admin/nodes/{node_name(n)}/drain")).is_success
        await stage.wait_for("gpu:a100:eu", 1)
        await names(looker, "held-back", "gpu:a100:eu: nothing of these pools is lent, and nothing is on offer")
        await quiet(looker, "overloaded")
        await looker.go("queue")
        await looker.page.get_by_text("the slots that serve it are held back").wait_for()


async def test_a_misspelt_label_behind_many_labels_is_named(window, start_hub):
    hub = start_hub(**CALM)
    async with on_stage(hub) as stage, looking(window, hub) as looker:
        await stage.add_nodes(6)
        for n in range(25):
            await stage.wait_for(f"gpu:typo{n}:eu", 1)
        await names(looker, "unserved")
        await looker.go("queue?label=gpu:typo24:eu")
        await looker.page.get_by_text("no pool serves this label").wait_for()


async def test_a_stale_node_that_is_kept_is_shown_as_silent_since_its_last_heartbeat(window, start_hub):
    hub = start_hub(**{**CALM, "HUB_NODE_TIMEOUT": "2", "HUB_SWEEPER_EXPIRE": "false"})
    async with on_stage(hub) as stage, looking(window, hub) as looker:
        await stage.add_nodes(1)
        await stage.beat(0)
        await names(looker, "expiry-off", "by HUB_SWEEPER_EXPIRE", "1 node is kept although silent")
        await looker.go("nodes")
        row = looker.page.locator(f"tr[data-id='{node_name(0)}']")
        await row.get_by_text("silent").wait_for()
        await row.get_by_text("kept").wait_for()
        since = (await stage.admin.get(f"/nodes/{node_name(0)}")).json()["sinceBeatMs"]
        assert since > 2000
        shown = re.search(r"([0-9.]+) (s|min)", await row.locator("td.num").first.inner_text())
        assert shown, await row.inner_text()
        assert float(shown[1]) >= 2 or shown[2] == "min"


async def test_page_and_command_show_the_records_that_are_stuck_now(window, start_hub, tmp_path):
    records, command = Records(tmp_path), Command(None, tmp_path)
    hub = start_hub(**CALM, HUB_RECOVERY_FILE=str(records.file))
    command.environment |= {"HUB_URL": hub.url, "HUB_ADMIN_SECRET": hub.admin_secret}
    async with on_stage(hub) as stage, looking(window, hub) as looker:
        await stage.add_nodes(1)

        async def has_passed() -> bool:
            (source,) = (await stage.admin.get("/console/stuck")).json()["sources"]
            return source["found"] == 0

        await eventually(has_passed)
        records.get_stuck(1, 60)  # the next pass comes in an hour
        await names(looker, "stuck", "Records are stuck in orders", "60 records of orders began and never ended")
        said = await asyncio.to_thread(command, "status")
        assert said.returncode == 4, said.stderr
        assert "critical: Records are stuck in orders. 60 records of orders began and never ended." in said.stdout
        assert "orders: 60 stuck, critical" in said.stdout
        records.bring_back()
        await quiet(looker, "stuck")
        said = await asyncio.to_thread(command, "status")
        assert said.returncode == 0, said.stdout
        assert "orders: 0 stuck, ok" in said.stdout


async def test_a_hub_that_stands_still_is_named_and_numbers_show_their_age(window, start_hub):
    hub = start_hub(**CALM)
    async with on_stage(hub) as stage, looking(window, hub) as looker:
        await stage.add_nodes(3)
        await looker.page.get_by_text("3 nodes are alive").first.wait_for()
        hub.signal(signal.SIGSTOP)
        try:
            await names(looker, "hub-silent", "The hub does not answer")
            await looker.page.locator(".pulse", has_text="The hub does not answer").wait_for()
            pulse = await looker.page.locator(".pulse").inner_text()
            assert int("".join(c for c in pulse if c.isdigit())) >= 9, pulse  # it was patient for ten seconds
            assert "3 nodes are alive" in await looker.text()  # what it said last, as what it said last
        finally:
            hub.signal(signal.SIGCONT)
        await quiet(looker, "hub-silent")
        await looker.page.locator(".pulse.good").wait_for()


async def test_the_page_tells_a_store_that_is_away_from_a_hub_that_is_away(window, own_redis):
    async with staged(own_redis) as stage, looking(window, stage.hub) as looker:
        await stage.add_nodes(3)
        await looker.page.get_by_text("3 nodes are alive").first.wait_for()
        own_redis.kill()
        await names(looker, "store-away", "The store is away")
        await looker.page.locator(".pulse", has_text="The store is away").wait_for()
        own_redis.start()
        await quiet(looker, "store-away")
        await looker.page.get_by_text("3 nodes are alive").first.wait_for()


async def test_an_ended_lease_leaves_the_list_and_the_scroll_position_stays(window, start_hub):
    hub = start_hub(**CALM)
    async with on_stage(hub) as stage, looking(window, hub) as looker:
        await stage.add_nodes(60, slots=1)
        leases = [await stage.borrow("browser:chromium:eu"), *[await stage.borrow("gpu:a100:eu") for _ in range(9)]]
        await looker.page.set_viewport_size({"width": 1280, "height": 420})
        await looker.go("leases")
        last = looker.page.locator(f"tr[data-id='{leases[-1]['browserId']}']")
        await last.scroll_into_view_if_needed()
        before = await looker.page.evaluate("scrollY")
        slot = leases[4]["browserId"]
        await stage.runner.post("/session/return", json={"labelKey": "gpu:a100:eu", "browserId": slot})
        await looker.page.locator(f"tr[data-id='{slot}']").wait_for(state="detached")
        assert before > 0
        assert abs(await looker.page.evaluate("scrollY") - before) < 80


async def test_revoking_a_token_ends_the_logins_and_streams_it_opened(window, start_hub):
    hub = start_hub(**CALM)
    async with on_stage(hub) as stage:
        made = (await stage.admin.post("/admin/tokens", json={"user": "ann", "superuser": True})).json()
        context = await window.context()
        looker = Looker(await context.new_page(), hub.url)
        await looker.show(made["token"])
        await looker.go("tasks")
        await looker.page.get_by_text("No task is pending").wait_for()
        await stage.admin.delete(f"/admin/tokens/{made['id']}")
        await looker.page.get_by_text("Your login is over").wait_for()
        await looker.page.get_by_label("Secret or token").wait_for()
        await context.close()


async def test_a_stream_that_is_cut_six_times_loses_no_event(window, start_hub):
    hub = start_hub(**CALM)
    wire = Wire(hub.port)
    url = (await wire.start()).replace("redis://", "http://")
    try:
        async with on_stage(hub) as stage, looking(window, hub, url) as looker:
            await looker.page.add_init_script(PULSES)
            await looker.page.reload()
            await looker.go("events?kind=node")
            for cut in range(6):
                # The stream may be live before a call that met the last cut is answered: the page names that first.
                await looker.page.wait_for_function("() => document.documentElement.dataset.stream === 'live'")
                await looker.page.locator(".pulse.good").wait_for()
                await wire.stop_connections()
                await looker.page.wait_for_function(f"() => Number(document.documentElement.dataset.cuts) > {cut}")
                await stage.add_nodes(5, slots=0, first=5 * cut)
            for number in range(30):
                await looker.page.locator(".tag", has_text=f"node {node_name(number)}").first.wait_for()
            ids = await looker.page.locator("tbody tr").evaluate_all("rows => rows.map((row) => row.dataset.id)")
            assert len(ids) == len(set(ids))
            named = (await looker.page.evaluate("sessionStorage.pulses")).splitlines()
            # A cut that also meets a call of the page is shown as a hub that does not answer.
            shown = sum(was.startswith("pulse good") and now.startswith("pulse bad") for was, now in pairwise(named))
            assert shown >= 6, named
            assert "pulse bad: Cut off, trying again" in named
    finally:
        await wire.stop()


@pytest.mark.parametrize("path", ["console/me", "history", "console/trend", "console/screens/events.js"])
async def test_a_page_whose_first_call_is_cut_off_asks_again(window, start_hub, path):
    hub = start_hub(**CALM)
    async with on_stage(hub) as stage, looking(window, hub) as looker:
        await stage.add_nodes(1)
        asked = asyncio.Queue[str]()

        async def cut_once(route: Any) -> None:
            await (route.continue_() if asked.qsize() else route.abort())
            asked.put_nowait(route.request.url)

        await looker.page.route(re.compile(rf"/{path}(\?|$)"), cut_once)
        await looker.go("overview" if path == "console/trend" else "events?kind=node")
        await looker.page.reload()
        if path != "console/trend":
            await looker.page.locator(".tag", has_text=f"node {node_name(0)}").first.wait_for()
        await looker.page.locator(".who").wait_for()
        await eventually(lambda: asked.qsize() > 1)


async def test_an_open_overview_is_sent_the_state_and_asks_only_without_a_stream(window, start_hub):
    hub = start_hub(**CALM)
    context = await window.context()
    looker = Looker(await context.new_page(), hub.url)
    page = looker.page
    async with on_stage(hub) as stage:
        await stage.add_nodes(1)
        await page.clock.install()
        await looker.log_in(hub.admin_secret)
        await page.get_by_text("1 node is alive").first.wait_for()
        await page.wait_for_function("() => document.documentElement.dataset.stream === 'live'")
        await page.clock.pause_at(
            await page.evaluate("Date.now() / 1000 + 2")
        )  # no timer goes off: it asks for nothing
        await stage.add_nodes(1, first=1)
        await page.get_by_text("2 nodes are alive").first.wait_for()
        await page.clock.resume()
        await context.route("**/console/events", lambda route: route.abort())
        await page.reload()
        await page.wait_for_function("() => document.documentElement.dataset.stream === 'cut'")
        await stage.add_nodes(1, first=2)
        await page.get_by_text("3 nodes are alive").first.wait_for()
    await context.close()


async def test_a_list_that_changed_in_a_hidden_tab_is_right_when_the_tab_is_shown(window, start_hub):
    hub = start_hub(**CALM)
    context = await window.context()
    looker = Looker(await context.new_page(), hub.url)
    page = looker.page
    async with on_stage(hub) as stage:
        await stage.add_nodes(1)
        await page.clock.install()
        await looker.log_in(hub.admin_secret)
        await looker.go("nodes")
        await page.get_by_role("link", name=node_name(0)).wait_for()
        await page.wait_for_function("() => document.documentElement.dataset.stream === 'live'")
        await page.evaluate(HEARD)
        await page.evaluate(HIDE, True)
        await page.clock.run_for(60_000)  # what was planned has been done
        await stage.add_nodes(1, first=1)
        await page.wait_for_function("() => heard > 0")
        await page.evaluate(HIDE, False)
        await page.get_by_role("link", name=node_name(1)).wait_for()
        await stage.add_nodes(1, first=2)
        await page.get_by_role("link", name=node_name(2)).wait_for()
    await context.close()


async def test_a_view_that_is_opened_repeatedly_still_gets_updates(window, start_hub):
    """A view's content is dropped a minute after the view was left, unless the view is open again by then."""
    hub = start_hub(**CALM)
    context = await window.context()
    looker = Looker(await context.new_page(), hub.url)
    page = looker.page
    async with on_stage(hub) as stage:
        await stage.add_nodes(1)
        await page.clock.install()
        await looker.log_in(hub.admin_secret)
        for _ in range(3):
            await looker.go("overview")
            await page.locator("#health").wait_for()
            await looker.go("settings")
            await page.get_by_role("heading", name="Settings", level=1).wait_for()
            await page.clock.run_for(31_000)
        await looker.go("overview")
        await page.locator("#health").wait_for()
        await page.clock.run_for(59_000)
        # The page has missed so many seconds that it may be about to connect anew: not once it has heard something now.
        await page.evaluate(TOLD)
        await page.wait_for_function("() => told")
        await page.clock.pause_at(await page.evaluate("Date.now() / 1000 + 15"))
        await stage.add_nodes(1, first=1)
        await page.get_by_text("2 nodes are alive").first.wait_for()
    await context.close()


async def test_a_read_only_console_shows_everything_and_offers_no_change(window, start_hub):
    hub = start_hub(**CALM, HUB_CONSOLE="readonly")
    async with on_stage(hub) as stage, looking(window, hub) as looker:
        await stage.add_nodes(3)
        await stage.borrow("gpu:a100:eu")
        await looker.page.get_by_text("3 nodes are alive").first.wait_for()
        for view in ("nodes", f"nodes/{node_name(2)}", "leases", "switches", "access", "pools/gpu:a100:eu"):
            await looker.go(view)
            await looker.page.get_by_text("This console is read-only").wait_for()
            buttons = await looker.page.locator("main button").all_inner_texts()
            assert [text for text in buttons if text.endswith("…")] == [], view
            assert await looker.page.locator("main [type=checkbox]").count() == 0, view


async def test_an_empty_hub_suggests_a_next_step_with_a_command_that_exists(window, start_hub, monkeypatch):
    hub = start_hub(**CALM)
    commands = set()
    async with looking(window, hub) as looker:
        await looker.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        for view in (
            "overview", "pools", "nodes", "leases", "queue", "jobs", "tasks", "stuck", "events?kind=task", "why",
            "why?id=nobody", "access",
        ):  # fmt: skip
            await looker.go(view)
            command = looker.page.locator(".command").first
            await command.wait_for()
            await command.get_by_role("button", name="Copy").click()
            await command.get_by_role("button", name="Copied").wait_for()
            copied = await looker.page.evaluate("navigator.clipboard.readText()")
            assert copied == await command.locator("code").inner_text()
            commands.add(copied)
    for command in commands:
        name, *words = shlex.split(command)
        assert name == "hub", command
        taken = list(takewhile(lambda word: re.fullmatch("[a-z]+", word), words))[:2]
        for known in (taken, taken[:1]):  # a word may be an argument
            with suppress(SystemExit):
                if main([*known, "--help"]) == 0:
                    break
        else:
            pytest.fail(f"there is no {command}")


async def test_pages_of_another_site_can_change_nothing_with_the_cookie_of_a_user(window, start_hub):
    hub = start_hub(**CALM)
    async with on_stage(hub) as stage, looking(window, hub) as looker:
        (cookie,) = await looker.page.context.cookies()
        assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
        sent = {
            "cookie": f"{cookie['name']}={cookie['value']}",
            "x-hub-console": "1",
            "x-hub-reason": "calm",
            "content-type": "application/json",
        }
        client = httpx.AsyncClient(base_url=hub.url, headers=sent)
        for foreign in (
            {"origin": "https://evil.example"},
            {"sec-fetch-site": "cross-site"},
            {"sec-fetch-site": "same-site"},
        ):
            answer = await client.put("/admin/sweeper", json={"expire": False}, headers=foreign)
            assert answer.status_code == 403, foreign
        own = {"origin": hub.url, "sec-fetch-site": "same-origin"}
        assert (await client.put("/admin/sweeper", json={"expire": False}, headers=own)).status_code == 200
        await client.aclose()
        assert (await stage.admin.get("/admin/sweeper")).json()["expire"] is False
