"""Every button that changes something: what will happen is shown first, a reason is asked and stands in the audit log,
and above ten things their number is typed."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.console.browser import Looker
from tests.console.stage import J, Stage, node_name, staged
from tests.world import age_node, eventually

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow]

POOL = "gpu:a100:eu"
FEW = 3  # nodes of the pool, each with four slots


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(own_server, records) -> AsyncIterator[Stage]:
    """A hub with a few nodes, where dead nodes stay until an operator says otherwise, and orders that may get stuck."""
    settings = {"HUB_SWEEPER_EXPIRE": "false", "HUB_SWEEPER_INTERVAL_SECONDS": "1"}
    async with staged(own_server, **settings, HUB_RECOVERY_FILE=str(records.file)) as found:
        for number in range(FEW):
            await found.publish(node_name(number), {f"{node_name(number)}-{slot}": POOL for slot in range(4)})
        yield found


async def act(looker: Looker, button: str, verb: str, *shown: str, reason: str, number: int = 0, **fields: str) -> None:
    """Press a button, read what will happen, and go on with a reason; a `number` is asked for above ten things."""
    await looker.page.get_by_role("button", name=button, exact=True).first.click()
    dialog = looker.page.get_by_role("dialog")
    go = dialog.get_by_role("button", name=verb, exact=True)
    for text in shown:
        await dialog.get_by_text(text).first.wait_for()
    for label, text in fields.items():
        await dialog.get_by_label(label).fill(text)
    assert await go.is_disabled()
    await dialog.get_by_label("Reason").fill(reason)
    typed = dialog.get_by_label("Type ")
    if number:
        await typed.wait_for()  # the number comes with the answer of the hub
    assert await typed.count() == bool(number)
    if number:
        assert await go.is_disabled()
        await typed.fill(str(number - 1))
        assert await go.is_disabled()
        await typed.fill(str(number))
    await go.click()
    await dialog.wait_for(state="detached")


async def reasons(stage: Stage, path: str) -> list[str]:
    """Return the reasons that the audit log has for changes at a path, the latest first."""
    entries = (await stage.admin.get("/audit?category=console")).json()
    return [entry["details"]["reason"] for entry in entries if entry["details"].get("path") == path]


async def test_a_cap_can_be_set_changed_and_cleared(looker, stage):
    await looker.go("switches")
    await act(looker, "Set a cap…", "Set the cap", "0 is no limit", reason="night shift", Label=POOL, Cap="3")
    await looker.page.get_by_text(f"The cap of {POOL} is 3 now; 0 leases are live.").wait_for()
    row = looker.page.locator(f"tr[data-id='{POOL}']")
    await row.get_by_text("3", exact=True).wait_for()
    change = f"Change the cap of {POOL}"
    await act(looker, change, "Set the cap", "Now: 3", "0 live, 0 waiting", reason="day shift", Cap="5")
    await row.get_by_text("5", exact=True).wait_for()
    await act(looker, change, "Set the cap", "Now: 5", reason="over", Cap="")
    await row.wait_for(state="detached")
    assert await reasons(stage, f"/admin/caps/{POOL}") == ["over", "day shift", "night shift"]


async def test_a_pool_can_be_put_under_maintenance(looker, stage):
    await looker.go(f"pools/{POOL}")
    shown = ("none of its slots is lent", "all 12 slots")
    await act(looker, "Replace all slots…", "Replace all slots", *shown, reason="new driver", number=12)
    await looker.page.get_by_text("under maintenance").wait_for()
    assert (await stage.admin.get(f"/pools/{POOL}")).json()["maintenanceActive"]
    assert await reasons(stage, f"/admin/pools/{POOL}/restart") == ["new driver"]


async def test_a_node_can_be_asked_to_rebuild_its_slots(looker, stage):
    name = "worn"
    await stage.publish(name, {f"{name}-{slot}": "phone:worn" for slot in range(4)})
    assert (await stage.admin.post("/admin/pools/phone:worn/restart")).status_code == 200
    await looker.go(f"nodes/{name}")
    await act(looker, "Rebuild slots…", "Ask the node", "Leases stay with their holders", reason="new image")
    await looker.page.get_by_text(f"{name} is asked.").wait_for()
    assert stage.hub.redis.exists(f"node_upgrade:{name}")
    told = looker.page.get_by_role("region", name=f"Orders of {name}")
    await told.locator("tr[data-id=rebuild]").get_by_text("dropped in").wait_for()
    await told.locator("tr[data-id=recycle]").get_by_text(f"{name}-3").wait_for()
    assert await reasons(stage, f"/admin/nodes/{name}/sidecar/upgrade") == ["new image"]


async def test_a_draining_node_can_be_made_to_lend_again(looker, stage):
    await stage.drain(2)
    name = node_name(2)
    await looker.go(f"nodes/{name}")
    await act(looker, "Undrain…", "Undrain", "Their slots are lent again", reason="the disk is in")
    await looker.page.get_by_role("button", name="Drain…").wait_for()
    assert not (await stage.admin.get(f"/nodes/{name}")).json()["draining"]
    assert await reasons(stage, f"/admin/nodes/{name}/undrain") == ["the disk is in"]


async def test_a_slot_can_be_held_for_a_reason_that_is_shown_wherever_it_is_and_released(looker, stage):
    await stage.publish("lab", {"cam-0": "cam:hd", "cam-1": "cam:hd"})
    lent = (await stage.borrow("cam:hd", "film"))["browserId"]
    await looker.go("nodes/lab")
    for slot in ("cam-0", "cam-1"):
        await looker.page.get_by_label(f"Choose {slot}").check()
    shown = ("Not lent until released", "2 slots, as of now")
    await act(looker, "Hold…", "Hold", *shown, reason="lens is cracked")
    await looker.page.get_by_text("2 slots held back.").wait_for()
    row = looker.page.locator(f"tr[data-id='{lent}']")
    await row.get_by_text("by an operator: lens is cracked").wait_for()
    await looker.go("leases?by=run&of=film")
    await row.get_by_text("lens is cracked").wait_for()
    await looker.go("pools/cam:hd")
    await row.get_by_text("lens is cracked").wait_for()
    await looker.page.get_by_text("1 unwell").wait_for()
    assert (await stage.admin.get("/pools/cam:hd")).json()["available"] == 0
    await looker.go(f"why/slot/{lent}")
    await act(looker, "Release…", "Release", "Lent again at once", reason="new lens")
    await looker.page.get_by_text("1 slot released by operators.").wait_for()
    assert await reasons(stage, f"/admin/slots/{lent}/hold") == ["new lens", "lens is cracked"]
    held = [slot for slot in (await stage.admin.get("/nodes/lab")).json()["slotList"] if "held" in slot]
    assert [slot["browserId"] for slot in held] == [slot for slot in ("cam-0", "cam-1") if slot != lent]


async def test_a_node_can_be_removed_with_its_leases(looker, stage):
    await stage.publish("old", {"old-0": "phone:pixel", "old-1": "phone:pixel"})
    await stage.borrow("phone:pixel", "mine")
    await looker.go("nodes/old")
    await act(
        looker, "Remove…", "Remove the node", "Its 2 slots are withdrawn, and the 1 leases on them end",
        "those that come until you go on are included", reason="sold",
    )  # fmt: skip
    await looker.page.get_by_text("old is off the books; 1 leases ended.").wait_for()
    assert (await stage.admin.get("/nodes/old")).status_code == 404
    assert (await stage.admin.get("/sessions?run=mine")).json()["total"] == 0
    assert await reasons(stage, "/admin/nodes/old") == ["sold"]


async def test_several_leases_can_be_ended_each_by_its_token(looker, stage):
    await stage.publish("pads", {f"pad-{number}": "pad:air" for number in range(3)})
    slots = [(await stage.borrow("pad:air", "night"))["browserId"] for _ in range(3)]
    await looker.go("leases?by=run&of=night")
    for slot in slots[:2]:
        await looker.page.get_by_label(f"Choose {slot}").check()
    shown = ("Each lease is ended by its token", *slots[:2], "2 leases, as of now: later ones are not touched")
    await act(looker, "End…", "End the leases", *shown, reason="the night is over")
    await looker.page.get_by_text("2 leases ended.").wait_for()
    await looker.page.locator(f"tr[data-id='{slots[0]}']").wait_for(state="detached")
    left = (await stage.admin.get("/sessions?run=night")).json()["sessions"]
    assert [lease["browserId"] for lease in left] == slots[2:]
    for slot in slots[:2]:
        assert await reasons(stage, f"/console/leases/{slot}/end") == ["the night is over"]


async def test_a_reset_resets_exactly_the_records_of_its_dry_run(looker, stage, records):
    records.get_stuck(1, 12)
    await looker.go("stuck")  # no pass has seen them: they are counted when the page asks
    await looker.page.locator("tr[data-id='orders'] td:nth-child(3)", has_text=re.compile("^12$")).wait_for()
    await looker.page.locator("tr[data-id='orders']", has_text="warning").wait_for()
    await looker.go("stuck/orders")
    button = looker.page.get_by_role("button", name="Dry run and reset…")
    await button.click()
    await looker.page.get_by_role("dialog").get_by_text("A dry run: these 12 records would be reset").wait_for()
    await looker.page.get_by_role("button", name="Leave it").click()
    assert {records.status(f"order-{number:04}") for number in range(1, 13)} == {"Processing"}
    await button.click()
    dialog = looker.page.get_by_role("dialog")
    await dialog.get_by_text("order-0012").wait_for()
    records.get_stuck(13, 1)  # which comes later, and is not touched
    await dialog.get_by_label("Reason").fill("the worker is back")
    await dialog.get_by_label("Type 12 to go on").fill("12")
    await dialog.get_by_role("button", name="Reset", exact=True).click()
    await looker.page.get_by_text("12 records of orders reset, 0 failed for good, 0 left alone.").wait_for()
    assert {records.status(f"order-{number:04}") for number in range(1, 13)} == {"Pending"}
    assert records.status("order-0013") == "Processing"
    assert await reasons(stage, "/console/stuck/orders/reset") == ["the worker is back"]
    await looker.go("stuck")
    await looker.page.locator("tr[data-id='orders'] td:nth-child(3)", has_text=re.compile("^1$")).wait_for()


async def test_one_or_several_tickets_can_be_cancelled(looker, stage):
    await stage.wait_for("phone:iphone", 12)
    tickets = (await stage.admin.get("/queue?label=phone:iphone&tickets=20")).json()["labels"][0]["tickets"]
    first, second, third = (each["ticket"] for each in tickets[:3])
    await looker.go("queue?label=phone:iphone")
    await act(looker, f"Cancel {first}", "Cancel", "is answered 409", first, reason="not today")
    await looker.page.locator(f"tr[data-id='{first}']").wait_for(state="detached")
    for ticket in (second, third):
        await looker.page.get_by_label(f"Choose {ticket}").check()
    await act(looker, "Cancel…", "Cancel", second, third, reason="nor tomorrow")
    await looker.page.get_by_text("2 tickets cancelled.").wait_for()
    await looker.page.get_by_role("region", name="Chosen rows").wait_for(state="detached")  # what is gone is not chosen
    assert (await stage.admin.get("/queue?label=phone:iphone")).json()["labels"][0]["waiting"] == 9
    assert await reasons(stage, f"/queue/{first}") == ["not today"]
    assert await reasons(stage, f"/queue/{third}") == ["nor tomorrow"]


async def test_tasks_can_be_cancelled_and_dead_letters_dropped(looker, stage):
    await stage.offer("modifiers:Paint")
    await stage.submit("modifiers:Paint", 11)
    await looker.go("tasks?status=pending&job=lab:modifiers:Paint")
    await looker.page.get_by_label("Choose all that are shown").check()
    await act(looker, "Cancel…", "Cancel", "They end as cancelled", reason="wrong colour", number=11)
    await looker.page.get_by_text("11 tasks cancelled.").wait_for()
    await looker.page.get_by_text("No task matches").wait_for()
    gone = (await stage.admin.get(f"{J}/rooms/lab/tasks?status=cancelled")).json()["items"]
    assert await reasons(stage, f"{J}/tasks/{gone[0]['id']}") == ["wrong colour"]
    await stage.bury(1)
    await looker.go("tasks?status=dead")
    await looker.page.get_by_label("Choose all that are shown").check()
    await act(looker, "Drop…", "Drop", "They stay failed", reason="known")
    await looker.page.get_by_text("There is no dead letter").wait_for()
    assert (await stage.admin.get(f"{J}/dead")).json()["total"] == 0


async def test_a_worker_can_be_removed_and_its_tasks_fail(looker, stage):
    worker = await stage.offer("modifiers:Carve")
    await stage.submit("modifiers:Carve", 11)
    claim = {"worker_id": worker, "limit": 11, "start": True}
    assert len((await stage.admin.post(f"{J}/tasks/claim", json=claim)).json()["tasks"]) == 11
    await looker.go("jobs")
    await looker.page.locator(f"tr[data-id='{worker}']").get_by_text("11", exact=True).wait_for()
    await act(
        looker, f"Remove worker {worker}", "Remove the worker", "The 11 tasks it holds fail", worker,
        reason="hangs", number=11,
    )  # fmt: skip
    await looker.page.locator(f"tr[data-id='{worker}']").wait_for(state="detached")
    assert (await stage.admin.get(f"{J}/rooms/lab/tasks?status=failed")).json()["total"] >= 11
    assert await reasons(stage, f"{J}/workers/{worker}") == ["hangs"]


async def test_a_token_can_be_revoked_and_a_login_ended(looker, stage, window):
    made = (await stage.admin.post("/admin/tokens", json={"user": "zoe", "superuser": True})).json()
    context = await window.context()
    zoe = Looker(await context.new_page(), stage.hub.url)
    await zoe.show(made["token"])
    await looker.go("access")
    shown = ("logins that were made with it end", made["id"])
    await act(looker, f"Revoke token {made['id']}", "Revoke", *shown, reason="she has left")
    await zoe.page.get_by_text("Your login is over").wait_for()
    assert await reasons(stage, f"/admin/tokens/{made['id']}") == ["she has left"]
    await zoe.log_in(stage.hub.admin_secret, look=True)
    await looker.page.get_by_text("viewer", exact=True).first.wait_for()
    logins = (await stage.admin.get("/console/logins")).json()["logins"]
    (login,) = (each["id"] for each in logins if each["role"] == "viewer")
    await act(looker, f"End login {login}", "End it", "must log in again", reason="went home")
    await zoe.page.get_by_text("Your login is over").wait_for()
    assert await reasons(stage, f"/console/logins/{login}") == ["went home"]
    await context.close()


async def test_expiry_can_be_switched_and_the_brake_released(looker, stage):
    """Twelve nodes die at once while expiry is off; switched on, the brake holds them back until it is released."""
    many, redis = 12, stage.hub.redis
    await stage.add_nodes(many, slots=0, first=500)
    dead = [node_name(500 + number) for number in range(many)]
    for name in dead:
        age_node(redis, name, 3600)
    await looker.go("switches")
    shown = ("Now it is off, by the setting", "12 nodes are silent now", dead[0])
    await act(looker, "Switch on…", "Switch on", *shown, reason="they are dead", number=many)
    for name in dead:  # while expiry was off they were kept, each time for half a minute
        age_node(redis, name, 3600)
    await looker.page.get_by_text("engaged").first.wait_for()
    shown = ("All nodes that are silent now are removed", dead[-1])
    await act(looker, "Release the brake…", "Release the brake", *shown, reason="the rack burns", number=many)

    async def gone() -> bool:
        return not set(dead) & set((await stage.admin.get("/nodes")).json())

    await eventually(gone)
    await act(looker, "Switch off…", "Switch off", "0 nodes are silent", reason="a new rack comes")
    await act(looker, "Back to the setting…", "Clear it", "follows its own HUB_SWEEPER_EXPIRE", reason="it is there")
    await looker.page.get_by_text("HUB_SWEEPER_EXPIRE of this hub").wait_for()
    assert (await stage.admin.get("/admin/sweeper")).json()["source"] == "setting"
    assert await reasons(stage, "/admin/brake/release") == ["the rack burns"]
    assert await reasons(stage, "/admin/sweeper") == ["it is there", "a new rack comes", "they are dead"]


async def test_the_brake_on_silent_workers_can_be_released(looker, stage):
    """All workers are silent at once, and the brake holds those back that were ever heard."""
    workers = [await stage.offer("modifiers:Sand") for _ in range(12)]
    for worker in workers:  # the brake holds only workers that were heard at least once
        (await stage.admin.patch(f"{J}/workers/{worker}")).raise_for_status()
    redis = stage.hub.redis
    redis.zadd("hub:worker_beats", dict.fromkeys(redis.zrange("hub:worker_beats", 0, -1), -10_000_000))
    await looker.go("switches")
    brake = looker.page.locator("section", has=looker.page.get_by_role("heading", name="Brake on workers"))
    await brake.get_by_text("engaged").wait_for()
    await act(
        looker, "Release the brake…", "Release the brake", "their tasks fail or are tried again", workers[3],
        reason="they are gone", number=12,
    )  # fmt: skip

    async def left() -> bool:
        found = (await stage.admin.get("/console/workers?limit=1000")).json()["workers"]
        return not {each["id"] for each in found} & set(workers)

    await eventually(left)
    assert (await reasons(stage, "/admin/brake/release"))[0] == "they are gone"


async def test_a_schedule_can_be_paused_resumed_and_removed(looker, stage):
    await stage.offer("modifiers:Sweep")
    await stage.schedule("hourly", "modifiers:Sweep", everySeconds=3600)
    await stage.schedule("other", "modifiers:Sweep", everySeconds=7200)
    path = f"{J}/rooms/lab/schedules/hourly"
    await looker.go("schedules")
    row = looker.page.locator("tr[data-id='lab:hourly']")
    await row.get_by_text("every 60 min").wait_for()
    for button, verb, what, state, reason in (
        ("Pause…", "Pause", "times that pass meanwhile are not caught up", "paused", "the disk is full"),
        ("Resume…", "Resume", "goes on with its next time", "active", "it is empty again"),
    ):
        await row.get_by_label("Choose lab:hourly").check()
        await act(looker, button, verb, what, "lab:hourly", reason=reason)
        await row.get_by_text(state).wait_for()
        assert (await stage.admin.get(path)).json()["paused"] is (state == "paused")
        assert (await reasons(stage, path))[0] == reason
    await row.get_by_role("button", name="lab:hourly").click()
    await looker.page.get_by_label("Payload").get_by_text('"quality": "high"').wait_for()
    await row.get_by_label("Choose lab:hourly").check()
    await act(
        looker, "Remove…", "Remove", "The tasks that it has submitted stay", "lab:hourly", reason="nobody reads it"
    )
    await row.wait_for(state="detached")
    assert (await stage.admin.get(path)).status_code == 404
    assert await looker.page.locator("tr[data-id='lab:other']").count() == 1


async def test_dependent_tasks_are_linked_to_each_other(looker, stage):
    await stage.offer("modifiers:Cut")
    first = (await stage.admin.post(f"{J}/rooms/lab/tasks/lab:modifiers:Cut", json={"payload": {}})).json()["id"]
    body = {"payload": {}, "after": [first]}
    last = (await stage.admin.post(f"{J}/rooms/lab/tasks/lab:modifiers:Cut", json=body)).json()["id"]
    await looker.go(f"tasks?status=blocked&open={last}")
    await looker.page.locator(f"tr[data-id='{last}']").get_by_text("waits for 1 task").wait_for()
    waits_for = looker.page.locator(".detail dl > div", has_text="Waits for")
    await waits_for.get_by_text("pending").wait_for()
    await waits_for.get_by_role("link").click()
    await looker.page.get_by_role("heading", name=f"task {first}").wait_for()
    waits = looker.page.locator("dl > div", has_text="waited for by")
    await waits.locator(f"a[href='#/why/task/{last}']").wait_for()
    await looker.go(f"why?id={last}")
    await looker.page.get_by_text(f"It waits for a task: {first} (pending).").wait_for()
