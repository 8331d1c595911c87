"""Publishing slots over HTTP, and withdrawing them."""

from __future__ import annotations

import pytest

from tests.world import SLACK_S, add_node, beat, borrow, give_back, listed, picture, publish

LABEL = "gpu:a100"


def offer(api, node, *slots, label=LABEL, **more):
    return api.post(
        f"/node/{node}/slots", json={"slots": [{"labelKey": label, "slotId": slot} for slot in slots], **more}
    )


def words(answer):
    assert answer.status_code == 200, answer.text
    return [slot["status"] for slot in answer.json()["slots"]]


async def test_published_slots_are_appended_as_compact_items_with_members_in_wire_order(api, redis, hub):
    await add_node(hub, "n1")
    slot = {
        "labelKey": LABEL, "slotId": "s1", "endpoint": "tcp://n1:9", "labels": {"b": "2", "a": "1"},
        "idleTimeoutSeconds": 30, "extra": {"z": [1, None]},
    }  # fmt: skip
    answer = await api.post("/node/n1/slots", json={"slots": [slot]})
    assert answer.json() == {
        "nodeId": "n1", "published": 1,
        "slots": [{"browserId": "s1", "labelKey": LABEL, "status": "published"}],
    }  # fmt: skip
    assert redis.lrange(f"available:{LABEL}", 0, -1) == [
        '{"nodeId":"n1","browserId":"s1","webSocketEndpoint":"tcp://n1:9","browserType":"a100","browserVersion":null,'
        '"args":null,"labels":{"b":"2","a":"1"},"idleTimeoutSeconds":30,"extra":{"z":[1,null]}}'
    ]


async def test_a_repeated_publication_offers_no_slot_twice(api, redis):
    await publish(api, "n1", **{LABEL: ["s1", "s2"]})
    before = picture(redis)
    assert words(await offer(api, "n1", "s1", "s2")) == ["unchanged", "unchanged"]
    assert picture(redis) == before


async def test_a_lent_slot_stays_lent_when_its_node_publishes_it_again(api, redis):
    await publish(api, "n1", **{LABEL: ["s1"]})
    await borrow(api, LABEL)
    before = picture(redis)
    assert words(await offer(api, "n1", "s1")) == ["lent"]
    assert picture(redis) == before


async def test_a_slot_of_another_node_cannot_be_published(api, redis):
    await publish(api, "n1", **{LABEL: ["s1"]})
    await publish(api, "n2")
    before = picture(redis, own=True)
    answer = await offer(api, "n2", "s1", "s2", label="gpu:h100")
    assert words(answer) == ["refused", "published"]
    assert "another node" in answer.json()["slots"][0]["reason"]
    assert listed(redis, f"available:{LABEL}") == ["s1"]
    assert listed(redis, "available:gpu:h100") == ["s2"]
    assert redis.hgetall("hub:slot:s1") == before["hub:slot:s1"]


async def test_a_slot_published_again_with_another_pool_or_item_is_replaced(api, redis):
    await publish(api, "n1", **{LABEL: ["s1", "s2"]})
    assert words(await offer(api, "n1", "s1", label="gpu:h100")) == ["published"]
    assert (listed(redis, f"available:{LABEL}"), listed(redis, "available:gpu:h100")) == (["s2"], ["s1"])
    slot = {"labelKey": LABEL, "slotId": "s2", "endpoint": "new"}
    assert words(await api.post("/node/n1/slots", json={"slots": [slot]})) == ["published"]
    assert (await borrow(api, LABEL)).json()["webSocketEndpoint"] == "new"
    assert (await borrow(api, LABEL)).json()["code"] == "no-capacity"


async def test_a_slot_that_was_removed_from_its_list_can_be_published_again(api, redis):
    await publish(api, "n1", **{LABEL: ["s1"]})
    redis.delete(f"available:{LABEL}")
    assert words(await offer(api, "n1", "s1")) == ["published"]
    assert listed(redis, f"available:{LABEL}") == ["s1"]


async def test_the_slots_of_a_declared_pool_always_get_the_same_ids(api, redis):
    body = {"nodeId": "blade-9", "pools": {"gpu:a100:eu": 2, " cpu : big ": 1}, "endpoint": "tcp://x"}
    first = (await api.post("/node/register", json=body)).json()["slots"]
    assert [(slot["browserId"], slot["labelKey"], slot["status"]) for slot in first] == [
        ("blade-9-gpu.a100.eu-1", "gpu:a100:eu", "published"),
        ("blade-9-gpu.a100.eu-2", "gpu:a100:eu", "published"),
        ("blade-9-cpu.big-1", "cpu:big", "published"),
    ]
    again = (await api.post("/node/blade-9/slots", json={**body, "pools": {"gpu:a100:eu": 3}})).json()
    assert (again["published"], [slot["status"] for slot in again["slots"]]) == (1, ["unchanged"] * 2 + ["published"])
    assert (await borrow(api, "cpu:big")).json()["webSocketEndpoint"] == "tcp://x"


@pytest.mark.parametrize("node", ["rack 7/blade:3", "n" * 200, "été"])
async def test_every_node_id_gives_distinct_slot_ids_for_its_pools(api, node):
    await api.post("/node/register", json={"nodeId": node, "pools": {LABEL: 2, "gpu:b": 2}})
    taken = {(await borrow(api, label)).json()["browserId"] for label in (LABEL, LABEL, "gpu:b", "gpu:b")}
    assert len(taken) == 4


async def test_reported_tokens_are_adopted_for_slots_that_the_store_does_not_know(api, redis):
    await publish(api, "n1")
    assert words(await offer(api, "n1", "s1", "s2", lent={"s1": "41", "s9": "7"})) == ["lent", "published"]
    assert redis.hget("session:s1", "leaseToken") == "41"
    assert redis.ttl("borrow_ttl:s1") == pytest.approx(900, abs=SLACK_S)
    assert (listed(redis, f"available:{LABEL}"), listed(redis, f"inuse:{LABEL}")) == (["s2"], ["s1"])
    renewed = await api.post("/session/renew", json={"browserId": "s1", "leaseToken": "41", "ttlSeconds": 1000})
    assert renewed.status_code == 200
    assert not redis.exists("session:s9")
    assert words(await offer(api, "n1", "s1", lent={"s1": "41"})) == ["lent"]


async def test_a_returned_slot_is_not_lent_again_by_an_old_report_of_its_node(api, redis):
    await publish(api, "n1", **{LABEL: ["s1"]})
    token = (await borrow(api, LABEL)).json()["leaseToken"]
    await give_back(api, LABEL, "s1")
    await offer(api, "n1", "s1", lent={"s1": token})
    assert (listed(redis, f"available:{LABEL}"), redis.keys("session:*")) == (["s1"], [])


async def test_publishing_a_new_item_under_the_same_id_removes_the_recycle_mark(api, redis):
    await publish(api, "n1", **{LABEL: ["s1"]})
    await borrow(api, LABEL)
    await give_back(api, LABEL, "s1")
    assert redis.exists("recycle:s1")
    await api.post("/node/n1/slots", json={"slots": [{"labelKey": LABEL, "slotId": "s1", "endpoint": "fresh"}]})
    assert not redis.exists("recycle:s1")
    assert (await beat(api, "n1"))["recycle"] == []


async def test_an_unregistered_node_cannot_publish(api, redis):
    for body in ({"slots": [{"labelKey": LABEL, "slotId": "s1"}]}, {}):
        answer = await api.post("/node/n1/slots", json=body)
        assert (answer.status_code, answer.json()["code"]) == (404, "unknown-node")
    assert picture(redis) == {}


S1 = {"labelKey": LABEL, "slotId": "s1"}
REFUSED = [
    ("no label", {"slots": [{"slotId": "s1"}]}, "missing-member"),
    ("no id", {"slots": [{"labelKey": LABEL}]}, "missing-member"),
    ("a bad label", {"slots": [{**S1, "labelKey": "gpu"}]}, "invalid-label"),
    ("a blank id", {"slots": [{**S1, "slotId": " "}]}, "invalid-value"),
    ("an id with a blank", {"slots": [{**S1, "slotId": "a b"}]}, "invalid-value"),
    ("an id too long", {"slots": [{**S1, "slotId": "x" * 201}]}, "invalid-value"),
    ("an id of bad type", {"slots": [{**S1, "slotId": ["s1"]}]}, "invalid-value"),
    ("the same id twice", {"slots": [S1, {**S1, "labelKey": "gpu:b"}]}, "invalid-value"),
    ("another node's", {"slots": [{**S1, "nodeId": "n2"}]}, "invalid-value"),
    ("slots no list", {"slots": {"s1": S1}}, "invalid-value"),
    ("a slot no object", {"slots": ["s1"]}, "invalid-value"),
    ("labels no object", {"slots": [{**S1, "labels": ["x"]}]}, "invalid-value"),
    ("an idle rule below 0", {"slots": [{**S1, "idleTimeoutSeconds": -1}]}, "invalid-value"),
    ("an idle rule of years", {"slots": [{**S1, "idleTimeoutSeconds": 1e9}]}, "invalid-value"),
    ("pools no object", {"pools": [LABEL]}, "invalid-value"),
    ("a pool below 0", {"pools": {LABEL: -1}}, "invalid-value"),
    ("a pool of 1,001", {"pools": {LABEL: 1001}}, "invalid-value"),
    ("a pool of half a slot", {"pools": {LABEL: 0.5}}, "invalid-value"),
    ("a pool with a bad label", {"pools": {"gpu": 1}}, "invalid-label"),
    ("1,001 in all", {"pools": {LABEL: 1000}, "slots": [S1]}, "invalid-value"),
    ("lent no object", {"slots": [S1], "lent": ["s1"]}, "invalid-value"),
    ("a token that is none", {"slots": [S1], "lent": {"s1": "x"}}, "invalid-value"),
    ("a token too long", {"slots": [S1], "lent": {"s1": "1" * 20}}, "invalid-value"),
    ("an unknown policy", {"slots": [S1], "policy": "burn"}, "invalid-value"),
]


@pytest.mark.parametrize("path", ["/node/n1/slots", "/node/register"])
@pytest.mark.parametrize(("body", "code"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
async def test_an_invalid_publication_is_refused_as_a_whole(api, redis, path, body, code):
    if path == "/node/n1/slots":
        await publish(api, "n1")
    before = picture(redis, own=True)
    answer = await api.post(path, json={"nodeId": "n1", "slots": [], **body})
    assert (answer.status_code, answer.json()["code"]) == (400, code), answer.text
    assert picture(redis, own=True) == before


async def test_one_call_publishes_up_to_a_thousand_slots(api, redis):
    await publish(api, "n1")
    answer = await api.post("/node/n1/slots", json={"pools": {LABEL: 1000}})
    assert answer.json()["published"] == 1000
    assert redis.llen(f"available:{LABEL}") == 1000


async def test_withdrawing_a_lent_slot_ends_its_lease(make_api, redis):
    async with make_api(borrow_concurrency_caps=f"{LABEL}=1") as api:
        await publish(api, "n1", **{LABEL: ["s1", "s2"]})
        await borrow(api, LABEL)
        answer = await api.delete("/node/n1/slots/s1")
        assert answer.json() == {"withdrawn": "s1", "ended": True}
        assert redis.keys("*:s1") == ["hub:end_reason:s1"]  # for ten minutes
        assert not redis.exists(f"inuse:{LABEL}")
        assert (await borrow(api, LABEL)).json()["browserId"] == "s2"
        assert "note" in (await give_back(api, LABEL, "s1")).json()


async def test_withdrawing_a_free_slot_ends_no_lease(api, redis):
    await publish(api, "n1", **{LABEL: ["s1", "s2"]})
    assert (await api.delete("/node/n1/slots/s1")).json() == {"withdrawn": "s1", "ended": False}
    assert listed(redis, f"available:{LABEL}") == ["s2"]
    again = (await api.delete("/node/n1/slots/s1")).json()
    assert again == {"withdrawn": "s1", "ended": False, "note": "not published"}
    await api.delete("/node/n1/slots/s2")
    assert (await api.get("/pools")).json()["total"] == 0


async def test_a_lent_slot_stays_when_it_is_withdrawn_only_if_free(api, redis):
    await publish(api, "n1", **{LABEL: ["s1"]})
    await borrow(api, LABEL)
    answer = await api.delete("/node/n1/slots/s1?onlyFree=1")
    assert (answer.status_code, answer.json()["code"]) == (409, "slot-lent")
    assert redis.exists("session:s1")
    await give_back(api, LABEL, "s1")
    assert (await api.delete("/node/n1/slots/s1?onlyFree=1")).json() == {"withdrawn": "s1", "ended": False}


async def test_a_node_cannot_withdraw_the_slot_of_another(api, redis):
    await publish(api, "n1", **{LABEL: ["s1"]})
    await publish(api, "n2")
    redis.set("recycle:s1", "1")
    before = picture(redis, own=True)
    answer = await api.delete("/node/n2/slots/s1")
    assert answer.status_code == 400
    assert picture(redis, own=True) == before


@pytest.mark.parametrize("said", ["\0", "a\nb", "\x1b[2J", "\t"])
@pytest.mark.parametrize("member", ["webSocketEndpoint", "labels", "extra", "attributes"])
async def test_control_characters_in_the_members_of_a_slot_are_refused(api, redis, hub, member, said):
    await add_node(hub, "n1")
    value = said if member in ("webSocketEndpoint", "extra") else {"rack": said}
    name = {"label": LABEL} if member == "attributes" else {"labelKey": LABEL}
    slots = [{**name, "slotId": "s1", member: value}]
    for call in (api.post("/node/n1/slots", json={"slots": slots}),
                 api.post("/node/register", json={"nodeId": "n1", "slots": slots})):  # fmt: skip
        refused = await call
        named = "attributes" if member == "attributes" else "slots"
        assert (refused.status_code, refused.json()["member"]) == (400, named)
    assert listed(redis, f"available:{LABEL}") == []


async def test_a_backslash_in_the_members_of_a_slot_is_accepted(api, hub):
    await add_node(hub, "n1")
    slot = {"labelKey": LABEL, "slotId": "s1", "webSocketEndpoint": "C:\\new\\temp", "extra": "\\u0000"}
    assert words(await api.post("/node/n1/slots", json={"slots": [slot]})) == ["published"]
