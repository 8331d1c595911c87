"""Settings that all hubs share over HTTP: what holds, setting one for all hubs at run time, and what is refused."""

from __future__ import annotations

from datetime import datetime

import pytest

from tests.world import borrow, publish

NAMES = [
    "HUB_NODE_TIMEOUT", "HUB_BORROW_TRAILING_FALLBACK", "HUB_BORROW_PREFIX_EXPAND", "HUB_BORROW_WILDCARDS",
    "HUB_BORROW_CONCURRENCY_DEFAULT", "HUB_BORROW_CONCURRENCY_CAPS", "HUB_REVOKE_GRACE_SECONDS",
]  # fmt: skip


async def shown(api):
    answer = await api.get("/admin/settings")
    assert answer.status_code == 200, answer.text
    return {row["name"]: row for row in answer.json()["settings"]}


async def put(api, name, value, **more):
    answer = await api.put(f"/admin/settings/{name}", json={"value": value, **more})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_a_shared_setting_wins_over_the_environment_of_the_hubs_until_it_is_cleared(make_api):
    async with make_api(node_timeout_s=60, borrow_concurrency_caps="c:d=3,a:b=2") as api:
        before = await shown(api)
        assert list(before) == NAMES
        assert before["HUB_BORROW_CONCURRENCY_CAPS"] == {
            "name": "HUB_BORROW_CONCURRENCY_CAPS", "value": "a:b=2,c:d=3", "agreed": "a:b=2,c:d=3", "setBy": None,
            "setAtUtc": None, "otherwise": {},
        }  # fmt: skip
        row = await put(api, "HUB_NODE_TIMEOUT", " 90.5 ", by="ann")
        assert datetime.fromisoformat(row.pop("setAtUtc")).tzinfo
        assert row == {
            "name": "HUB_NODE_TIMEOUT", "value": "90.5", "agreed": "60", "setBy": "ann", "otherwise": {},
        }  # fmt: skip
        assert (await shown(api))["HUB_NODE_TIMEOUT"]["value"] == "90.5"
        (entry,) = (await api.get("/audit", params={"action": "setting.set"})).json()
        assert (entry["actor"], entry["details"]) == ("ann", {"setting": "HUB_NODE_TIMEOUT", "value": "90.5"})
        assert await put(api, "HUB_NODE_TIMEOUT", None) == before["HUB_NODE_TIMEOUT"]
        assert await shown(api) == before


async def test_a_new_value_of_a_shared_setting_counts_at_once(make_api):
    async with make_api() as api:
        await publish(api, "n1", **{"gpu:a100": ["s1", "s2", "s3"]})
        assert (await borrow(api, "gpu:*")).status_code == 503
        await put(api, "HUB_BORROW_WILDCARDS", "true")
        assert (await borrow(api, "gpu:*")).status_code == 200
        await put(api, "HUB_BORROW_CONCURRENCY_CAPS", "gpu:a100=1")
        assert [(await borrow(api, "gpu:a100")).status_code for _ in range(2)] == [200, 503]  # a slot is left
        await put(api, "HUB_BORROW_WILDCARDS", None)
        assert (await borrow(api, "gpu:*")).json()["hint"] == "no pool serves gpu:*"
        config = (await api.get("/diagnostics")).json()["hubConfig"]
        assert (config["borrowWildcards"], config["nodeTimeoutSeconds"]) == (False, 60.0)


@pytest.mark.parametrize(
    ("name", "body", "status", "says"),
    [
        ("HUB_NODE_TIMEOUT", {"value": "soon"}, 400, "it is a number from 1 to"),
        (
            "HUB_NODE_TIMEOUT",
            {"value": "0"},
            400,
            "HUB_NODE_TIMEOUT='0' is out of its bounds: it is a number from 1 to",
        ),
        ("HUB_BORROW_WILDCARDS", {"value": "yes"}, 400, "is neither true nor false"),
        ("HUB_BORROW_CONCURRENCY_CAPS", {"value": "gpu=x"}, 400, "such as gpu:a100=4"),
        ("HUB_BORROW_CONCURRENCY_CAPS", {"value": "a" * 10_001}, 400, "at most 10000 characters"),
        ("HUB_NODE_TIMEOUT", {}, 400, "missing value"),
        ("HUB_PORT", {"value": "1"}, 404, "none of the settings that all hubs share: HUB_NODE_TIMEOUT"),
    ],
)
async def test_an_impossible_value_of_a_shared_setting_is_refused_and_changes_nothing(
    make_api, name, body, status, says
):
    async with make_api() as api:
        before = await shown(api)
        answer = await api.put(f"/admin/settings/{name}", json=body)
        assert answer.status_code == status, answer.text
        assert says in answer.json()["detail"]
        assert await shown(api) == before
