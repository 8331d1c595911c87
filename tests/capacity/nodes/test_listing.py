"""Listing nodes: ids for every caller, pages with exact totals for admins."""

from __future__ import annotations

import asyncio

import pytest

from tests.world import age_node, borrow, publish


async def pages(api, **query):
    """Return every page of the detailed listing: (total of the first, sizes, nodes)."""
    cursor, sizes, nodes, total = "0", [], [], None
    while cursor is not None:
        answer = await api.get("/nodes", params={"detail": "1", "cursor": cursor, **query})
        assert answer.status_code == 200, answer.text
        found = answer.json()
        total = found["total"] if total is None else total
        sizes.append(len(found["nodes"]))
        nodes += found["nodes"]
        cursor = found["next"]
        assert len(sizes) < 200
    return total, sizes, nodes


async def test_any_caller_may_list_the_node_ids(make_api):
    async with make_api(runner_secret="r", node_secret="n") as api:
        for node in ("n1", "n 2"):
            await api.post("/node/register", json={"nodeId": node}, headers={"x-hub-secret": "n"})
        assert sorted((await api.get("/nodes")).json()) == ["n 2", "n1"]
        assert (await api.get("/nodes?detail=1")).status_code == 401
        assert (await api.get("/nodes/n1")).status_code == 401
        assert (await api.get("/nodes/n1", headers={"x-hub-secret": "n"})).status_code == 200


async def test_the_detail_of_a_node_shows_everything_that_is_known_of_it(api):
    slots = [
        {"labelKey": "a:b", "slotId": "s1"},
        {"labelKey": "a:b", "slotId": "s2"},
        {"labelKey": "c:d", "slotId": "s3"},
    ]
    await api.post(
        "/node/register",
        json={
            "nodeId": "rack 1/n",
            "apps": ["a:b"],
            "capacity": 3,
            "labels": {"os": "x"},
            "baseUrl": "u",
            "slots": slots,
        },
    )
    await borrow(api, "a:b")
    shown = (await api.get("/nodes/rack 1/n")).json()
    assert shown.pop("lastSeenUtc").endswith("0000Z")
    assert 0 <= shown.pop("sinceBeatMs") < 5000
    assert shown == {
        "nodeId": "rack 1/n", "state": "alive", "draining": False, "deadlineSecondsLeft": None, "capacity": 3,
        "apps": ["a:b"], "labels": {"os": "x"}, "baseUrl": "u", "slots": 3, "lent": 1,
        "slotList": [
            {"browserId": "s1", "labelKey": "a:b", "state": "lent"},
            {"browserId": "s2", "labelKey": "a:b", "state": "free"},
            {"browserId": "s3", "labelKey": "c:d", "state": "free"},
        ],
        "orders": [],
    }  # fmt: skip
    missing = await api.get("/nodes/n2")
    assert (missing.status_code, missing.json()["code"]) == (404, "unknown-node")


async def test_orders_to_a_node_are_shown_until_it_has_carried_them_out(api, redis):
    async def orders():
        return (await api.get("/nodes/n1")).json()["orders"]

    await publish(api, "n1", **{"a:b": ["s1", "s2"]})
    await api.post("/admin/nodes/n1/drain", json={"deadlineSeconds": 600})
    (drain,) = await orders()
    assert (drain.pop("secondsLeft") <= 600, drain) == (True, {"order": "drain"})
    await api.post("/admin/nodes/n1/cordon", json={"reason": "fan"})
    assert await orders() == [{"order": "cordon", "secondsLeft": None, "reason": "fan"}]
    await api.post("/admin/nodes/n1/undrain")
    await api.post("/admin/nodes/n1/sidecar/upgrade")
    await api.post("/admin/pools/a:b/restart")
    rebuild, recycle = await orders()
    assert (rebuild["order"], 0 < rebuild["secondsLeft"] <= 300) == ("rebuild", True)
    assert recycle == {"order": "recycle", "secondsLeft": None, "slots": ["s1", "s2"]}
    redis.delete("node_upgrade:n1")  # as a node does that has seen it
    await api.post("/node/heartbeat", json={"nodeId": "n1", "recycled": ["s1"]})
    assert [(each["order"], each["slots"]) for each in await orders()] == [("recycle", ["s2"])]


@pytest.mark.slow
async def test_pages_of_nodes_hold_every_node_once_with_the_exact_total(api, hub):
    names = {f"node-{n:03}" for n in range(257)}
    for name in sorted(names):
        await publish(api, name)
    total, sizes, nodes = await pages(api, limit=20)
    assert total == 257
    assert {node["nodeId"] for node in nodes} == names
    assert max(sizes) < 60
    assert (await pages(api, limit=1000))[1] == [257]


async def test_nodes_filtered_by_state_have_their_own_pages_and_total(api, redis):
    for n in range(12):
        await publish(api, f"n{n:02}")
    for n in range(5):
        age_node(redis, f"n{n:02}", 3600)
    for n in (5, 6):
        redis.zadd("hub:beats", {f"n{n:02}": int(redis.hget("hub:store", "clock_ms")) - 40_000})
        redis.hset(f"node:n{n:02}", "LastSeen", "2020-01-01T00:00:00.0000000Z")
        redis.delete(f"node_alive:n{n:02}")
    await api.post("/admin/nodes/n00/drain")
    found = {}
    for state in ("alive", "suspect", "stale", "draining"):
        total, sizes, nodes = await pages(api, state=state, limit=2)
        assert total == sum(sizes) == len({node["nodeId"] for node in nodes})
        assert state == "draining" or {node["state"] for node in nodes} == {state}
        assert max(sizes) <= 2 or state == "draining"
        found[state] = total
    assert found == {"alive": 5, "suspect": 2, "stale": 5, "draining": 1}


async def test_a_search_looks_in_the_ids_labels_and_pools_of_all_nodes(api, redis):
    for n in range(60):
        pool = "gpu:a100" if n % 20 == 3 else "gpu:h100"
        await api.post("/node/register", json={"nodeId": f"Rack-{n:02}", "apps": [pool]})
    redis.hset("node:Rack-41", "Labels", '{"zone":"EU-West"}')
    age_node(redis, "Rack-23", 3600)
    await api.post("/admin/nodes/Rack-43/drain")
    for wanted, names in (
        ("rack-1", [f"Rack-{n}" for n in range(10, 20)]), ("A100", ["Rack-03", "Rack-23", "Rack-43"]),
        ("eu-west", ["Rack-41"]), ("%-", []), ("nothing", []),
    ):  # fmt: skip
        _, _, nodes = await pages(api, q=wanted, limit=5)
        assert sorted({node["nodeId"] for node in nodes}) == names
    for state, names in (("alive", ["Rack-03", "Rack-43"]), ("stale", ["Rack-23"]), ("draining", ["Rack-43"])):
        total, _, nodes = await pages(api, q="A100", state=state, limit=1)
        assert (total, [node["nodeId"] for node in nodes]) == (len(names), names)


async def test_a_search_stops_after_a_bounded_number_of_nodes_and_can_go_on(api, monkeypatch):
    monkeypatch.setattr("hub.capacity.nodes.nodes.SEARCHED", 400)
    async with asyncio.TaskGroup() as together:
        for n in range(1500):
            together.create_task(api.post("/node/register", json={"nodeId": f"n{n:04}"}))
    total, sizes, nodes = await pages(api, q="n1499")
    assert (total, [node["nodeId"] for node in nodes]) == (1500, ["n1499"])
    assert len(sizes) > 2


async def test_nodes_of_other_programs_have_the_same_state_in_every_list(api, redis):
    redis.sadd("nodes", "n1", "n2", "n3")
    redis.set("node_alive:n1", "1")
    redis.hset("node:n2", "LastSeen", "2099-01-01T00:00:00.0000000Z")
    await api.post("/admin/sweeper")
    _, _, everybody = await pages(api)
    shown = {node["nodeId"]: node["state"] for node in everybody}
    assert (shown["n1"], shown["n2"], shown["n3"]) == ("alive", "alive", "stale")
    for state in ("alive", "suspect", "stale"):
        total, _, nodes = await pages(api, state=state)
        expected = {node for node, its in shown.items() if its == state}
        assert ({node["nodeId"] for node in nodes}, total) == (expected, len(expected))


@pytest.mark.parametrize(
    "query",
    [
        "limit=0", "limit=1001", "limit=x", "cursor=-1", "cursor=x", "state=dead", "cursor=99999999999999999999",
        f"q={'x' * 201}",
    ],
)  # fmt: skip
async def test_impossible_page_bounds_of_nodes_are_refused(api, query):
    answer = await api.get(f"/nodes?detail=1&{query}")
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid-value")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("Labels", "[]"), ("Labels", "null"), ("Labels", '"x"'), ("Labels", "7"), ("Labels", "{"),
        ("Labels", '{"a":[1]}'),
        ("Capacity", "9" * 30), ("Capacity", "9" * 5000), ("Capacity", "x"), ("Capacity", ""), ("LastSeen", "x"),
        ("Labels", b"\xff"), ("LastSeen", b"\xff"), ("BaseUrl", b"\xff"), ("Apps", b"\xff"), ("Capacity", b"\xff"),
        ("PlaywrightVersion", b"\xff"),
    ],
)  # fmt: skip
async def test_a_node_record_written_by_another_program_can_always_be_shown(api, redis, field, value):
    redis.sadd("nodes", "n1")
    redis.hset("node:n1", field, value)
    for path in ("/nodes", "/nodes?detail=1", "/nodes/n1", "/pools", "/diagnostics", "/metrics"):
        answer = await api.get(path)
        assert answer.status_code == 200, (path, answer.text)


async def test_a_node_id_that_is_not_utf_8_does_not_hide_the_others(api, redis):
    await publish(api, "n1")
    redis.sadd("nodes", b"\xff\xfe")
    assert "n1" in (await api.get("/nodes")).json()
    for path in ("/nodes?detail=1", "/pools", "/diagnostics"):
        assert (await api.get(path)).status_code == 200
    assert (await api.post("/admin/sweep")).status_code == 200
