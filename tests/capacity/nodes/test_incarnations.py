"""Two processes under one node id, and calls carried out late: only the newer process, and its last word, count."""

from __future__ import annotations

import hashlib

import pytest

from tests.world import age_node, beat, borrow, give_back, listed

LABEL = "a:b"


async def register(api, incarnation="first", number=1, *slots, **more):
    body = {"nodeId": "n1", "incarnation": incarnation, "number": number, **more}
    return await api.post("/node/register", json={**body, "slots": [slot(each) for each in slots]})


def slot(name):
    return {"slotId": name, "labelKey": LABEL}


async def publish(api, incarnation, number, *slots, **more):
    body = {"incarnation": incarnation, "number": number, "slots": [slot(each) for each in slots], **more}
    return await api.post("/node/n1/slots", json=body)


async def withdraw(api, incarnation, number, name):
    query = {"incarnation": incarnation, "number": str(number)}
    return await api.delete(f"/node/n1/slots/{name}", params=query)


def words(answer):
    assert answer.status_code == 200, answer.text
    return {each["browserId"]: each["status"] for each in answer.json()["slots"]}


async def heard(api, incarnation="first", version=0):
    return await beat(api, "n1", version, incarnation=incarnation)


def in_short(*slots):
    hashes = (int(hashlib.sha1(each.encode()).hexdigest()[:10], 16) for each in slots)
    return f"{len(slots)}-{sum(hashes) % 2**40}"


# -- incarnations --------------------------------------------------------------------------------------------------


async def test_the_newer_process_of_a_node_takes_over_its_leases_and_the_older_is_told_to_stop(api, redis):
    await register(api, "old", 1, "s1", "s2")
    token = (await borrow(api, LABEL)).json()["leaseToken"]
    assert words(await register(api, "new", 1, "s1", "s2")) == {"s1": "lent", "s2": "unchanged"}
    told = await heard(api, "old")
    assert (told["superseded"], told["known"], told["recycle"], "lent" in told) == (True, True, [], False)
    fresh = await heard(api, "new")
    assert (fresh["lent"], "superseded" in fresh) == ({"s1": token}, False)
    assert listed(redis, f"available:{LABEL}") == ["s2"]


@pytest.mark.parametrize("call", ["register", "publish", "withdraw", "leave"])
async def test_calls_of_the_older_process_of_a_node_change_nothing(api, redis, call):
    await register(api, "old", 1, "s1")
    await register(api, "new", 1, "s1", "s2")
    await borrow(api, LABEL)
    calls = {
        "register": lambda: register(api, "old", 9, "s9"),
        "publish": lambda: publish(api, "old", 9, "s9"),
        "withdraw": lambda: withdraw(api, "old", 9, "s1"),
        "leave": lambda: api.delete("/node/n1", params={"incarnation": "old"}),
    }
    refused = await calls[call]()
    assert (refused.status_code, refused.json()["code"]) == (409, "superseded")
    assert {each["browserId"]: each["state"] for each in (await api.get("/nodes/n1")).json()["slotList"]} == {
        "s1": "lent",
        "s2": "free",
    }
    assert (await heard(api, "new"))["known"]


async def test_heartbeats_of_the_older_process_do_not_keep_the_node_alive(api, redis):
    await register(api, "old", 1)
    await register(api, "new", 1)
    age_node(redis, "n1", 600)
    await heard(api, "old")
    assert (await api.get("/nodes/n1")).json()["state"] == "stale"
    await heard(api, "new")
    assert (await api.get("/nodes/n1")).json()["state"] == "alive"


async def test_a_late_call_does_not_bring_back_a_process_that_left(api, redis):
    await register(api, "first", 1, "s1")
    assert (await api.delete("/node/n1", params={"incarnation": "first"})).json()["slots"] == 1
    refused = await register(api, "first", 1, "s1")
    assert (refused.status_code, refused.json()["code"]) == (409, "superseded")
    assert (await api.get("/nodes")).json() == []
    assert words(await register(api, "second", 1, "s1")) == {"s1": "published"}


async def test_a_process_that_takes_over_is_told_the_leases_at_once(api):
    """If the store is lost before its first heartbeat, that process alone can report the older leases."""
    first = await register(api, "old", 1, "s1", "s2")
    given = (await borrow(api, LABEL)).json()
    again = await register(api, "old", 2, "s1", "s2")
    over = await register(api, "new", 1, "s1", "s2")
    assert over.json()["lent"] == {given["browserId"]: given["leaseToken"]}
    assert ["lent" in answer.json() for answer in (first, again, await register(api, "new", 2, "s1"))] == [False] * 3


async def test_a_store_that_lost_both_processes_learns_from_the_term_which_is_newer(api, redis):
    old = (await register(api, "old", 1)).json()["term"]
    assert (await register(api, "old", 2)).json()["term"] == old
    new = (await register(api, "new", 1)).json()["term"]
    assert int(new) > int(old)
    await api.delete("/node/n1")
    redis.delete("hub:incarnations:n1")
    assert (await register(api, "new", 2, term=new)).json()["term"] == new
    refused = await register(api, "old", 3, term=old)
    assert (refused.status_code, refused.json()["code"]) == (409, "superseded")
    assert (await heard(api, "new"))["known"]


async def test_a_process_whose_registration_the_store_lost_is_asked_to_register_again(api, redis):
    """The store came back without its last second, in which the newer process had registered."""
    await register(api, "old", 1, "s1")
    assert not (await heard(api, "new"))["known"]
    assert (await publish(api, "new", 2, "s2")).json()["code"] == "unknown-node"
    assert (await withdraw(api, "new", 3, "s1")).json()["code"] == "unknown-node"
    await register(api, "new", 4, "s1")
    assert (await heard(api, "old"))["superseded"]


async def test_a_node_that_names_no_incarnation_is_served_as_before(api, redis):
    await register(api, "first", 1, "s1")
    plain = await api.post("/node/register", json={"nodeId": "n1", "slots": [slot("s1"), slot("s2")]})
    assert words(plain) == {"s1": "unchanged", "s2": "published"}
    assert "term" not in plain.json()
    assert (await beat(api, "n1"))["known"]
    assert (await heard(api))["known"]
    assert (await api.delete("/node/n1/slots/s2")).json() == {"withdrawn": "s2", "ended": False}
    assert (await api.delete("/node/n1")).json()["slots"] == 1


async def test_why_and_the_log_name_the_process_of_a_node_and_whom_it_replaced(api, redis, caplog):
    await register(api, "old", 1)
    await register(api, "new", 1)
    said = (await api.get("/why/node/n1")).json()
    assert said["facts"]["incarnation"] == "new"
    taken = [each for each in said["history"] if each["event"] == "node.superseded"]
    assert [(each["incarnation"], each["before"]) for each in taken] == [("new", "old")]
    assert "newer process" in taken[0]["rule"]
    told = [record.msg for record in caplog.records if record.msg["event"] == "node process replaced"]
    assert [(each["node"], each["by"], each["before"]) for each in told] == [("n1", "new", "old")]


BAD = [
    ("incarnation", 5, "incarnation"),
    ("incarnation", "", "incarnation"),
    ("incarnation", "a b", "incarnation"),
    ("incarnation", "x" * 65, "incarnation"),
    ("number", -1, "number"),
    ("number", "x", "number"),
    ("number", 2**53 + 1, "number"),
    ("term", 5, "term"),
    ("term", "1" * 20, "term"),
]


@pytest.mark.parametrize(("name", "value", "member"), BAD)
async def test_an_invalid_incarnation_or_number_is_refused_with_its_member(api, redis, name, value, member):
    answer = await api.post("/node/register", json={"nodeId": "n1", "incarnation": "a", name: value})
    assert (answer.status_code, answer.json()["code"], answer.json()["member"]) == (400, "invalid-value", member)
    if name == "incarnation":
        answer = await api.post("/node/heartbeat", json={"nodeId": "n1", name: value})
        assert (answer.status_code, answer.json()["member"]) == (400, member)


# -- calls carried out late ----------------------------------------------------------------------------------------


async def test_a_late_withdrawal_does_not_remove_what_was_published_since(api, redis):
    await register(api, "first", 1, "s1")
    await withdraw(api, "first", 3, "s1")  # call 2 hangs in a hub that stands still
    assert words(await publish(api, "first", 4, "s1")) == {"s1": "published"}
    late = await withdraw(api, "first", 2, "s1")
    assert late.json() == {"withdrawn": "s1", "ended": False, "note": "published again by a later call"}
    assert listed(redis, f"available:{LABEL}") == ["s1"]


async def test_a_late_publication_does_not_offer_what_was_withdrawn_since(api, redis):
    await register(api, "first", 1)
    await publish(api, "first", 3, "s1")  # call 2 hangs
    await withdraw(api, "first", 4, "s1")
    assert words(await publish(api, "first", 2, "s1", "s2")) == {"s1": "refused", "s2": "published"}
    assert listed(redis, f"available:{LABEL}") == ["s2"]
    assert words(await publish(api, "first", 5, "s1")) == {"s1": "published"}


async def test_a_withdrawal_that_overtakes_its_publication_counts(api, redis):
    await register(api, "first", 1)
    assert (await withdraw(api, "first", 3, "s1")).json()["note"] == "not published"
    assert words(await publish(api, "first", 2, "s1")) == {"s1": "refused"}


async def test_a_late_report_of_leases_brings_no_old_token_back(api, redis):
    """After the store was lost: the node reports what is lent, the slot goes back, and the report comes again."""
    await register(api, "first", 1, "s1")
    old = (await borrow(api, LABEL)).json()["leaseToken"]
    redis.flushall()
    report = {"lent": {"s1": old}}
    assert words(await register(api, "first", 2, "s1", **report)) == {"s1": "lent"}
    await give_back(api, LABEL, "s1", leaseToken=old)
    redis.delete("hub:ended:s1")  # so the lower token must keep it from coming back
    assert words(await register(api, "first", 2, "s1", **report)) == {"s1": "unchanged"}
    assert (await api.get("/leases/s1/verify", params={"token": old})).json()["valid"] is False
    assert redis.hget("hub:slot:s1", "place") == "free"


async def test_a_repeated_publication_is_answered_with_the_present_state(api, redis):
    first = await register(api, "first", 1, "s1", "s2")
    await borrow(api, LABEL)
    assert words(first) == {"s1": "published", "s2": "published"}
    assert words(await register(api, "first", 1, "s1", "s2")) == {"s1": "lent", "s2": "unchanged"}


async def test_the_next_process_counts_its_calls_from_the_start(api, redis):
    await register(api, "old", 70, "s1")
    await withdraw(api, "old", 71, "s1")
    assert words(await register(api, "new", 1, "s1")) == {"s1": "published"}
    assert (await withdraw(api, "new", 2, "s1")).json() == {"withdrawn": "s1", "ended": False}
    assert redis.zrange("hub:withdrawn:n1", 0, -1, withscores=True) == [("s1", 2)]


async def test_the_last_thousand_withdrawals_of_a_node_are_remembered_until_it_leaves(api, redis):
    await register(api, "first", 1)
    redis.zadd("hub:withdrawn:n1", {f"x{n}": n for n in range(2, 1100)})
    await withdraw(api, "first", 2000, "s1")
    assert redis.zcard("hub:withdrawn:n1") == 1000
    await api.delete("/node/n1")
    assert not redis.exists("hub:withdrawn:n1")


# -- what the hub offers of a node ---------------------------------------------------------------------------------


async def test_the_answer_to_a_heartbeat_has_a_summary_of_the_offered_slots_when_that_changed(api, redis):
    await register(api, "first", 1, "s1", "s2")
    told = await heard(api)
    assert told["offers"] == in_short("s1", "s2")
    assert "offers" not in await heard(api, version=told["version"])
    await publish(api, "first", 2, "s3")
    after = await heard(api, version=told["version"])
    assert after["offers"] == in_short("s1", "s2", "s3")
    await withdraw(api, "first", 3, "s1")
    assert (await heard(api, version=after["version"]))["offers"] == in_short("s2", "s3")


async def test_a_lent_slot_counts_as_offered_and_a_node_without_slots_gets_a_summary_of_none(api, redis):
    await register(api, "first", 1)
    assert (await heard(api))["offers"] == in_short()
    await publish(api, "first", 2, "s1")
    await borrow(api, LABEL)
    assert (await heard(api))["offers"] == in_short("s1")


async def test_a_slot_dropped_by_another_program_changes_the_summary_of_offered_slots(api, redis):
    await register(api, "first", 1, "s1", "s2")
    told = await heard(api)
    redis.lrem(f"available:{LABEL}", 1, redis.lrange(f"available:{LABEL}", 0, 0)[0])
    await api.post("/admin/sweep")
    assert (await heard(api, version=told["version"])) != {**told, "offers": in_short("s1", "s2")}


async def test_clients_without_an_incarnation_get_no_summary_of_offered_slots(api, redis):
    await api.post("/node/register", json={"nodeId": "n1", "slots": [slot("s1")]})
    assert "offers" not in await beat(api, "n1")
