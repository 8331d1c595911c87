"""Having every slot of a pool replaced: what is recorded, what is not lent meanwhile, and when it is over."""

from __future__ import annotations

import re

import pytest

from tests.world import SLACK_S, beat, borrow, give_back, listed, publish, push

LABEL = "Maps:Chromium:Prod"
FLAG = f"maintenance:{LABEL}"


async def restart(api, label=LABEL):
    answer = await api.post(f"/admin/pools/{label}/restart")
    assert answer.status_code == 200, answer.text
    return answer.json()


def let_pass(redis, seconds):
    """Make the maintenance that much older: its flag lives 30 minutes."""
    redis.pexpire(FLAG, 1_800_000 - int(seconds * 1000))


async def refused(api):
    return (await borrow(api, LABEL)).json().get("code") == "no-capacity"


async def test_a_restart_marks_every_slot_of_a_pool_and_remembers_the_counts(api, redis):
    await publish(api, "n1", **{LABEL: ["s1", "s2", "s3"]})
    await borrow(api, LABEL)
    assert await restart(api) == {
        "labelKey": LABEL,
        "scheduled": 3,
        "maintenance": {"active": True, "target": 3, "avail": 2, "inuse": 1},
    }
    kept = {name: redis.get(f"maintenance:{name}{LABEL}") for name in ("", "target:", "snap_avail:", "snap_inuse:")}
    assert kept == {"": "1", "target:": "3", "snap_avail:": "2", "snap_inuse:": "1"}
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:]{8}\.\d{7}Z", redis.get(f"maintenance:since:{LABEL}"))
    lives = [redis.ttl(key) for key in redis.keys("maintenance:*")]
    assert lives == pytest.approx([1800] * 5, abs=SLACK_S)
    assert {slot: redis.ttl(f"recycle:{slot}") for slot in ("s1", "s2", "s3")} == pytest.approx(
        {"s1": 120, "s2": 120, "s3": 120}, abs=2
    )
    assert sorted((await beat(api, "n1"))["recycle"]) == ["s1", "s2", "s3"]


async def test_a_restart_marks_slots_of_other_programs_too(api, redis):
    push(redis, LABEL, ("s1", "n1"), ("s2", "n1"))
    push(redis, LABEL, ("s3", "n1"), lent=True)
    assert (await restart(api))["scheduled"] == 3
    assert redis.exists("recycle:s1", "recycle:s2", "recycle:s3") == 3
    redis.delete(f"inuse:{LABEL}")
    let_pass(redis, 15)
    assert await refused(api), "none of them was replaced"


async def test_restarting_an_unknown_pool_is_no_error(api):
    assert await restart(api) == {
        "labelKey": LABEL, "scheduled": 0, "maintenance": {"active": True, "target": 0, "avail": 0, "inuse": 0},
    }  # fmt: skip


@pytest.mark.parametrize("label", ["one", "a::b", "target:a:b", "since:a:b", "snap_avail:a", "snap_inuse:a"])
async def test_a_restart_of_an_invalid_label_is_refused(api, redis, label):
    answer = await api.post(f"/admin/pools/{label}/restart")
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid-label")
    assert answer.json()["detail"].startswith("invalid labelKey:")
    assert redis.keys("maintenance:*") == []


async def test_the_label_of_a_restart_may_be_encoded_in_the_path(api, redis):
    assert (await restart(api, "Maps%3AChromium%3AProd%20"))["labelKey"] == LABEL
    assert redis.exists(FLAG)


async def test_a_pool_under_maintenance_lends_nothing_and_accepts_returns(api, redis):
    await publish(api, "n1", **{LABEL: ["s1", "s2"], "Maps:Chromium": ["t1"]})
    await borrow(api, LABEL)
    await restart(api)
    assert (await borrow(api, LABEL)).json()["matchedLabel"] == "Maps:Chromium"
    assert await refused(api)
    assert (await give_back(api, LABEL, "s1")).json() == {"returned": "s1"}
    assert await refused(api)


async def replace_all(api):
    for old in ("s1", "s2"):
        await api.delete(f"/node/n1/slots/{old}")
    await publish(api, "n1", **{LABEL: ["s3", "s4"]})


async def test_a_maintenance_ends_after_ten_seconds_once_every_slot_was_replaced(api, redis):
    await publish(api, "n1", **{LABEL: ["s1", "s2"]})
    await restart(api)
    await replace_all(api)
    let_pass(redis, 10 - SLACK_S)
    assert await refused(api)
    let_pass(redis, 10.5)
    assert (await borrow(api, LABEL)).json()["browserId"] == "s3"
    assert redis.keys("maintenance:*") == []


@pytest.mark.parametrize("missing", ["not replaced", "one replaced", "one too few", "one lent"])
async def test_a_maintenance_with_missing_slots_ends_after_two_minutes(api, redis, missing):
    await publish(api, "n1", **{LABEL: ["s1", "s2"]})
    if missing == "one lent":
        await borrow(api, LABEL)
    await restart(api)
    if missing in ("one replaced", "one too few"):
        await api.delete("/node/n1/slots/s1")
    if missing == "one replaced":
        await publish(api, "n1", **{LABEL: ["s3"]})
    if missing == "one too few":
        await api.delete("/node/n1/slots/s2")
        await publish(api, "n1", **{LABEL: ["s3"]})
    let_pass(redis, 100)
    assert await refused(api)
    let_pass(redis, 121)
    if missing == "one lent":
        assert await refused(api)
        await give_back(api, LABEL, "s1")
    assert not await refused(api)


async def test_a_node_that_keeps_its_slot_ids_acknowledges_that_it_replaced_them(api, redis):
    await publish(api, "n1", **{LABEL: ["s1", "s2"]})
    await restart(api)
    let_pass(redis, 15)
    await beat(api, "n1", recycled=["s1"])
    assert await refused(api)
    await beat(api, "n1", recycled=["s2"])
    assert (await borrow(api, LABEL)).json()["browserId"] == "s1"


async def test_a_held_slot_is_marked_by_a_restart_and_not_waited_for(api, redis):
    await publish(api, "n1", **{LABEL: ["s1", "s2"]})
    await publish(api, "n2", **{LABEL: ["t1"]})
    await api.post("/admin/nodes/n2/drain")
    assert (await restart(api))["maintenance"] == {"active": True, "target": 2, "avail": 2, "inuse": 0}
    assert (await beat(api, "n2"))["recycle"] == ["t1"]
    await replace_all(api)
    let_pass(redis, 10.5)
    assert (await borrow(api, LABEL)).json()["browserId"] == "s3"


async def test_a_pool_under_maintenance_shows_the_counts_of_its_start(api, redis):
    await publish(api, "n1", **{LABEL: ["s1", "s2", "s3"]})
    await borrow(api, LABEL)
    await restart(api)
    await api.delete("/node/n1/slots/s2")
    shown = (await api.get(f"/pools/{LABEL}")).json()
    assert {name: shown[name] for name in ("total", "borrowed", "available", "maintenanceActive")} == {
        "total": 3, "borrowed": 1, "available": 2, "maintenanceActive": True,
    }  # fmt: skip
    assert (await api.get("/pools")).json()["pools"][0]["maintenanceActive"]
    await give_back(api, LABEL, "s1")
    let_pass(redis, 121)
    shown = (await api.get(f"/pools/{LABEL}")).json()
    assert (shown["total"], shown["available"], shown["maintenanceActive"]) == (2, 2, False)
    assert sorted(listed(redis, f"available:{LABEL}")) == ["s1", "s3"]


async def test_an_upgrade_is_scheduled_for_one_node_or_for_all(api, redis):
    await publish(api, "n 1")
    await publish(api, "n2")
    one = await api.post("/admin/nodes/n9/sidecar/upgrade")
    assert one.json() == {"scheduled": 1, "targets": ["n9"]}
    everyone = (await api.post("/admin/nodes/ALL/sidecar/upgrade")).json()
    assert (everyone["scheduled"], sorted(everyone["targets"])) == (2, ["n 1", "n2"])
    marked = {key: redis.ttl(key) for key in redis.keys("node_upgrade:*")}
    assert marked == pytest.approx(
        {"node_upgrade:n9": 300, "node_upgrade:n-1": 300, "node_upgrade:n2": 300}, abs=SLACK_S
    )
