"""Caps over HTTP: what the environment sets, what is set at run time, and who is let in by it."""

from __future__ import annotations

import pytest

from tests.api.people import LABEL, People, in_use, refused
from tests.world import borrow, give_back, publish

# HUB_BORROW_CONCURRENCY_CAPS -> the caps it sets
SPELLINGS = {
    "Pay:Chromium:Prod=2, Shop : WebKit : Dev = 1": {"Pay:Chromium:Prod": 2, "Shop:WebKit:Dev": 1},
    "Pay:Chromium=0,Pay:Firefox=-3,Pay:WebKit=x": {},
    "Crm:Firefox=4=5,broken,=3": {},
    "Maps:Chromium=1,Maps:Chromium=6": {"Maps:Chromium": 6},
    "poolX=2": {"poolX": 2},
    "": {},
    " , ,, ": {},
    "a:b=2,,c:d= 3 ,": {"a:b": 2, "c:d": 3},
    "a:b=2.5,c:d=1e3,e:f=0x2": {},
    "a:b=9999999999": {},
}


async def shown(api):
    answer = await api.get("/admin/caps")
    assert answer.status_code == 200, answer.text
    return answer.json()


async def put(api, label, cap, **more):
    answer = await api.put(f"/admin/caps/{label}", json={"cap": cap, **more})
    assert answer.status_code == 200, answer.text
    return answer.json()


def row(label, cap, source="environment", live=0, waiting=0):
    return {"labelKey": label, "cap": cap, "source": source, "inFlight": live, "waiting": waiting}


@pytest.mark.parametrize(("text", "caps"), SPELLINGS.items(), ids=SPELLINGS)
async def test_caps_are_read_from_the_environment_and_unreadable_ones_are_left_out(make_api, text, caps):
    async with make_api(borrow_concurrency_caps=text) as api:
        assert await shown(api) == {
            "default": 0,
            "defaultSource": "default",
            "caps": [row(label, cap) for label, cap in sorted(caps.items())],
        }
        for label in [label for label in caps if ":" in label]:
            await publish(api, "n1", **{label: [f"{label.split(':')[0]}-{n}" for n in range(9)]})
            codes = [(await borrow(api, label)).status_code for _ in range(9)]
            assert codes == [200] * caps[label] + [503] * (9 - caps[label])


async def test_a_cap_set_at_run_time_wins_over_the_environment_until_it_is_cleared(make_api):
    async with make_api(borrow_concurrency_caps="a:b=2,c:d=3", borrow_concurrency_default=5) as api:
        await publish(api, "n1", **{"a:b": ["s1", "s2"]})
        await borrow(api, "a:b")
        assert await put(api, "a:b", 1) == row("a:b", 1, "run-time", live=1)
        assert await put(api, "e%3Af", 0) == row("e:f", 0, "run-time")
        assert await put(api, "*", 7) == row("*", 7, "run-time", live=None, waiting=None)
        assert await shown(api) == {
            "default": 7,
            "defaultSource": "run-time",
            "caps": [row("a:b", 1, "run-time", live=1), row("c:d", 3), row("e:f", 0, "run-time")],
        }
        for _ in range(2):
            assert await put(api, "a:b", None) == row("a:b", 2, live=1)
            assert await put(api, " e : f ", None) == row("e:f", 7, "default")
        assert await put(api, "*", None) == row("*", 5, live=None, waiting=None)
        assert await shown(api) == {
            "default": 5, "defaultSource": "environment", "caps": [row("a:b", 2, live=1), row("c:d", 3)],
        }  # fmt: skip


async def test_a_cap_of_null_lifts_the_default_cap_for_its_label(make_api):
    async with make_api(borrow_concurrency_default=1) as api:
        await publish(api, "n1", **{"a:b": ["s1", "s2"], "c:d": ["t1", "t2"]})
        await put(api, "a:b", 0)
        codes = [(await borrow(api, label)).status_code for label in ("a:b", "a:b", "c:d", "c:d")]
        assert codes == [200, 200, 200, 503]


async def test_raising_a_cap_serves_as_many_waiters_as_it_has_room_for(people: People):
    await put(people.api, LABEL, 1)
    await publish(people.api, "n1", **{LABEL: ["s1", "s2", "s3", "s4"]})
    await people.start()
    calls = [await people.come() for _ in range(3)]
    assert await put(people.api, LABEL, 3) == row(LABEL, 3, "run-time", live=3, waiting=1)
    assert [(await call).status_code for call in calls[:2]] == [200, 200]
    assert not calls[2].done()
    assert await put(people.api, LABEL, None) == row(LABEL, 0, "default", live=4)
    assert (await calls[2]).status_code == 200


async def test_raising_the_default_cap_serves_the_waiters_it_held_up(people: People):
    await put(people.api, "*", 1)
    labels = [f"{LABEL}:{number}" for number in range(3)]
    await publish(people.api, "n1", **{LABEL: [f"s{number}" for number in range(9)]})
    for label in labels:
        await people.start(label)
    calls = [await people.come(label) for label in labels]
    await put(people.api, "*", 2)
    assert [(await call).status_code for call in calls] == [200] * 3


async def test_lowering_a_cap_ends_no_lease_and_makes_borrows_wait_until_there_is_room(people: People):
    await in_use(people, "s1", "s2", "s3")
    assert await put(people.api, LABEL, 1) == row(LABEL, 1, "run-time", live=3)
    call = await people.come()
    for slot in ("s1", "s2"):
        await give_back(people.api, LABEL, slot)
        assert (await people.queue())["waiting"] == 1
    assert not call.done()
    await give_back(people.api, LABEL, "s3")
    assert (await call).status_code == 200
    refused(await people.start(maxWaitSeconds=0), "capped")


async def test_a_cap_holds_for_all_hubs_at_once(make_api):
    async with make_api() as one, make_api() as other:
        await publish(one, "n1", **{"a:b": ["s1", "s2"]})
        await put(one, "a:b", 1)
        assert (await borrow(one, "a:b")).status_code == 200
        assert (await borrow(other, "a:b")).json()["code"] == "capped"


async def test_the_audit_log_names_who_changed_a_cap(api):
    await put(api, "a:b", 4, by="ann")
    await put(api, "a:b", None)
    found = (await api.get("/audit", params={"action": "cap.set"})).json()
    assert [(entry["actor"], entry["details"]) for entry in found] == [
        ("127.0.0.1", {"labelKey": "a:b", "cap": "cleared"}),
        ("ann", {"labelKey": "a:b", "cap": "4"}),
    ]


@pytest.mark.parametrize("cap", [-1, 1.5, "x", True, [], {}, 10**9, "1e2"], ids=repr)
async def test_a_cap_that_is_not_a_whole_number_of_leases_is_refused(api, redis, cap):
    answer = await api.put("/admin/caps/a:b", json={"cap": cap})
    assert (answer.status_code, answer.json()["member"]) == (400, "cap")
    assert not redis.exists("hub:caps", "audit:entries")


async def test_a_body_without_the_cap_is_refused_and_does_not_clear_the_cap(api):
    await put(api, "a:b", 3)
    answer = await api.put("/admin/caps/a:b", json={})
    assert (answer.status_code, answer.json()["code"]) == (400, "missing-member")
    assert (await shown(api))["caps"] == [row("a:b", 3, "run-time")]


@pytest.mark.parametrize("label", ["a:", "a::b", "**", "a:b:c:d:e:f:g:h:i", "%00:a", "x" * 600 + ":a"])
async def test_a_cap_on_an_invalid_label_is_refused(api, label):
    answer = await api.put(f"/admin/caps/{label}", json={"cap": 1})
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid-label")


async def test_a_cap_on_a_label_of_a_kind_that_is_not_allowed_is_refused(make_api):
    async with make_api(label_kinds="Chromium") as api:
        assert (await api.put("/admin/caps/a:Firefox", json={"cap": 1})).status_code == 400
        assert (await put(api, "a:chromium", 1))["cap"] == 1


async def test_only_operators_may_change_caps(make_api):
    async with make_api(runner_secret="runner-x", node_secret="node-x", admin_secret="admin-x") as api:
        for role, status in (("runner", 401), ("node", 401), ("admin", 200)):
            secret = {"x-hub-secret": f"{role}-x"}
            assert (await api.get("/admin/caps", headers=secret)).status_code == status
            assert (await api.put("/admin/caps/a:b", json={"cap": 1}, headers=secret)).status_code == status


GPU, LARGE, SMALL = "gpu:a100", "gpu:a100:80g", "gpu:a100:40g"


async def gpus(api):
    await publish(api, "n1", **{GPU: ["g1", "g2"], LARGE: ["l1", "l2"], SMALL: ["s1", "s2"]})


async def test_a_cap_on_what_is_served_counts_leases_whatever_was_asked_for(make_api):
    async with make_api(borrow_wildcards=True) as api:
        await gpus(api)
        assert await put(api, GPU, 1) == row(GPU, 1, "run-time")
        asked = [LARGE, "gpu:*:40g", LARGE]
        assert [(await borrow(api, label)).status_code for label in asked] == [200] * 3  # past the cap on what is asked
        assert await put(api, GPU, 4, served=True) == row(GPU, 4, "served", live=3)
        assert (await borrow(api, "gpu:*:40g")).status_code == 200
        refusal = (await borrow(api, SMALL)).json()
        assert refusal["code"] == "capped"
        assert refusal["detail"].endswith(f"4 of 4 allowed are lent by {GPU} and pools below it")
        assert (await borrow(api, "gpu:*:40g")).status_code == 503
        assert (await shown(api))["caps"] == [row(GPU, 1, "run-time"), row(GPU, 4, "served", live=4)]
        assert await put(api, GPU, None, served=True) == row(GPU, 0, "served")
        assert [(await borrow(api, GPU)).status_code for _ in range(2)] == [200, 503]  # the other cap holds on


async def test_a_lease_that_ends_under_a_cap_on_what_is_served_lets_waiters_of_all_its_pools_take_turns(people: People):
    api = people.api
    await gpus(api)
    await put(api, GPU, 1, served=True)
    held = (await borrow(api, LARGE)).json()
    small, large = await people.come(SMALL), await people.come(LARGE)
    why = (
        await api.get(f"/why/ticket/{(await people.queue(label=SMALL))['labels'][0]['tickets'][0]['ticket']}")
    ).json()
    assert f"1 of 1 leases that the cap of {GPU} allows for what it and the pools below it serve" in str(why)
    await give_back(api, LARGE, held["browserId"])
    first = (await small).json()
    assert first["matchedLabel"] == SMALL  # it came first, although the free place is that of the other pool
    assert not large.done()
    await give_back(api, SMALL, first["browserId"])
    assert (await large).json()["matchedLabel"] == LARGE


async def test_a_cap_on_what_is_served_is_refused_for_many_labels_and_doubted_without_a_pool(make_api):
    async with make_api(borrow_wildcards=True) as api:
        for label in ("*", "gpu:*"):
            answer = await api.put(f"/admin/caps/{label}", json={"cap": 1, "served": True})
            assert (answer.status_code, answer.json()["code"]) == (400, "invalid-value")
            assert "names one pool, without *" in answer.json()["detail"]
        await gpus(api)
        assert (await put(api, "gpu:a200", 1))["hint"].endswith(f"did you mean {GPU}?")
        assert "hint" not in await put(api, SMALL, 1)
