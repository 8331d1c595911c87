"""Two machines with one node id: the one that was there and is heard keeps the id."""

from __future__ import annotations

import pytest

from tests.world import age_node, beat, picture

HERE, THERE = "rack-7/1f0c", "rack-8/99aa"


async def start(api, incarnation, host="", **more):
    """Register a process of the node; return the status and the answer."""
    said = {"host": host} if host else {}
    body = {"nodeId": "n1", "incarnation": incarnation, "slots": [{"labelKey": "a:b", "slotId": "s1"}], **said, **more}
    answer = await api.post("/node/register", json=body)
    return answer.status_code, answer.json()


async def is_node(api, incarnation):
    return "superseded" not in await beat(api, "n1", incarnation=incarnation)


async def test_a_process_on_another_host_does_not_take_over_from_one_that_is_heard(api, redis):
    await start(api, "old", HERE)
    before = picture(redis, own=True)
    for _ in range(3):
        status, said = await start(api, "new", THERE)
        assert (status, said["code"], said["host"]) == (409, "node-id-in-use", HERE)
        assert 0 <= said["heardMs"] <= 30_000
        assert said["heardMs"] + said["silentInMs"] == 30_001  # half the timeout, and more
        assert HERE in said["detail"]
    after = picture(redis, own=True)
    assert {key for key in after if after[key] != before.get(key)} <= {"hub:hubs", "hub:store"}
    assert await is_node(api, "old")
    status, _ = await start(api, "old", HERE)
    assert status == 200


@pytest.mark.parametrize("old", [HERE, ""])
@pytest.mark.parametrize("new", [HERE, THERE, ""])
async def test_who_says_no_other_host_takes_over_as_ever(api, old, new):
    await start(api, "old", old)
    status, _ = await start(api, "new", new)
    assert status == (409 if (old, new) == (HERE, THERE) else 200)
    assert await is_node(api, "old" if status == 409 else "new")


@pytest.mark.parametrize("why", ["it left", "it is silent for half the timeout"])
async def test_a_process_on_another_host_takes_over_when_the_one_before_is_gone(api, redis, why):
    await start(api, "old", HERE)
    if why == "it left":
        await api.delete("/node/n1", params={"incarnation": "old"})
    else:
        age_node(redis, "n1", 31)
    status, _ = await start(api, "new", THERE)
    assert status == 200
    assert await is_node(api, "new")
    status, said = await start(api, "old", HERE)
    assert (status, said["code"]) == (409, "superseded")


async def test_a_host_that_took_over_is_the_one_that_is_named(api, redis):
    await start(api, "one", HERE)
    age_node(redis, "n1", 31)
    await start(api, "two", THERE)
    assert (await start(api, "three", HERE))[1]["host"] == THERE
    await start(api, "four")  # a client that says no host
    assert (await start(api, "five", HERE))[0] == 200


@pytest.mark.parametrize("host", ["", " ", "x" * 201, "two\nlines", 7])
async def test_a_host_is_one_printable_line(api, host):
    answer = await api.post("/node/register", json={"nodeId": "n1", "host": host})
    assert (answer.status_code, answer.json()["code"], answer.json()["member"]) == (400, "invalid-value", "host")
