"""Looking at pools and at what is lent: pages, filters, exact totals."""

from __future__ import annotations

import pytest

from tests.api.people import NAMELESS
from tests.world import borrow, give_back, publish, push


async def test_pools_are_shown_by_label_with_their_nodes(api, redis):
    slots = [{"labelKey": "b:x", "slotId": "s1", "browserVersion": "126"}, {"labelKey": "a:x", "slotId": "s2"}]
    body = {"nodeId": "n1", "capacity": 2, "labels": {"os": "linux", "empty": " "}, "slots": slots}
    await api.post("/node/register", json=body)
    redis.hset(
        "node:n1",
        mapping={"PlaywrightVersion": "1.4", "PlaywrightVersionExpected": "1.5", "PlaywrightVersionMismatch": "1"},
    )
    await borrow(api, "b:x")
    shown = (await api.get("/pools")).json()
    assert shown.pop("now").endswith("Z")
    assert shown["workers"][0].pop("lastSeen").endswith("Z")
    common = {"heldBack": 0, "maintenanceActive": False}
    assert shown == {
        "total": 2,
        "pools": [
            {"label": "a:x", "total": 1, "borrowed": 0, "available": 1, "browserVersion": None, **common},
            {"label": "b:x", "total": 1, "borrowed": 1, "available": 0, "browserVersion": "126", **common},
        ],
        "workers": [
            {
                "id": "n1", "labels": ["os=linux"], "totalBrowsers": 2,
                "pools": {"a:x": {"total": 1, "borrowed": 0}, "b:x": {"total": 1, "borrowed": 1}},
                "playwrightVersion": "1.4", "playwrightVersionExpected": "1.5", "playwrightVersionMismatch": True,
            }
        ],
    }  # fmt: skip
    assert (await api.get("/pools/b:x")).json() == shown["pools"][1]
    assert (await api.get("/pools/b%3Ax")).json() == shown["pools"][1]


async def test_pools_are_paged_in_order_with_the_exact_total(api):
    labels = sorted(f"p:{n:03}" for n in range(23))
    await publish(api, "n1", **{label: [f"s{n}"] for n, label in enumerate(labels)})
    seen = []
    for offset in range(0, 30, 7):
        page = (await api.get("/pools", params={"offset": offset, "limit": 7})).json()
        assert page["total"] == 23
        seen += [pool["label"] for pool in page["pools"]]
    assert seen == labels
    page = (await api.get("/pools", params={"offset": 1, "limit": 2, "q": "P:01"})).json()
    assert ([pool["label"] for pool in page["pools"]], page["total"]) == (["p:011", "p:012"], 10)


async def test_a_pool_without_slots_is_not_found(api):
    await publish(api, "n1", **{"a:b": ["s1"]})
    await api.delete("/node/n1/slots/s1")
    assert (await api.get("/pools/a:b")).status_code == 404
    assert (await api.get("/pools")).json()["total"] == 0


async def test_pools_of_other_programs_are_listed_after_a_sweep(api, redis):
    push(redis, "a:b", ("s1", "n1"), ("s2", "n1"))
    push(redis, "a:b", ("s3", "n1"), lent=True)
    redis.rpush("available:no-label", "x")
    await api.post("/admin/sweep")
    shown = (await api.get("/pools")).json()
    assert [(pool["label"], pool["total"], pool["borrowed"], pool["available"]) for pool in shown["pools"]] == [
        ("a:b", 3, 1, 2)
    ]


@pytest.fixture
async def lent(api):
    """Six leases: three labels, two nodes, two runs."""
    await publish(api, "n1", **{"a:b": ["s1", "s2", "s3"]})
    await publish(api, "n2", **{"c:d": ["t1", "t2", "t3"]})
    for number, label in enumerate(("a:b", "a:b", "a:b:more", "c:d", "c:d", "c:d")):
        answer = await borrow(api, label, run=f"r{number % 2}", ttlSeconds=100 * (number + 1))
        assert answer.status_code == 200


async def test_a_session_is_shown_with_its_remaining_time(api, lent):
    shown = (await api.get("/sessions/s3")).json()
    assert shown.pop("borrowedAtUtc").endswith("0000Z")
    assert shown.pop("secondsLeft") == pytest.approx(300, abs=2)
    assert shown.pop("holder") == NAMELESS
    assert shown == {
        "browserId": "s3", "labelKey": "a:b:more", "poolLabel": "a:b", "runId": "r0", "nodeId": "n1", "ttlSeconds": 300,
    }  # fmt: skip
    await give_back(api, "a:b", "s3")
    assert (await api.get("/sessions/s3")).status_code == 404


FILTERS = [
    ({}, ["s1", "s2", "s3", "t1", "t2", "t3"]),
    ({"label": "a:b"}, ["s1", "s2"]),
    ({"label": "a:b:more"}, ["s3"]),
    ({"pool": "a:b"}, ["s1", "s2", "s3"]),
    ({"node": "n2"}, ["t1", "t2", "t3"]),
    ({"run": "r1"}, ["s2", "t1", "t3"]),
    ({"run": "none"}, []),
    ({"node": "none"}, []),
    ({"pool": "no:ne"}, []),
    ({"label": ""}, []),
]


@pytest.mark.parametrize(("query", "slots"), FILTERS, ids=[str(row[0]) for row in FILTERS])
async def test_sessions_are_filtered_and_counted_exactly_on_every_page(api, lent, query, slots):
    for limit in (1, 2, 100):
        seen = []
        for offset in range(0, 7, limit):
            page = (await api.get("/sessions", params={**query, "offset": offset, "limit": limit})).json()
            assert page["total"] == len(slots)
            seen += [session["browserId"] for session in page["sessions"]]
        assert sorted(seen) == slots


async def test_all_sessions_come_in_the_order_in_which_they_end(api, lent):
    left = [session["secondsLeft"] for session in (await api.get("/sessions")).json()["sessions"]]
    assert left == sorted(left)


async def test_two_filters_at_once_are_refused(api):
    answer = await api.get("/sessions", params={"run": "r", "pool": "a:b"})
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid-value")


@pytest.mark.parametrize("path", ["/pools", "/sessions"])
@pytest.mark.parametrize(
    "query", ["offset=-1", "offset=x", "limit=0", "limit=1001", "limit=", "offset=1e3", "limit=99999999999999999999"]
)
async def test_impossible_page_bounds_are_refused(api, path, query):
    answer = await api.get(f"{path}?{query}")
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid-value")
