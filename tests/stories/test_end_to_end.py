"""The scenarios of the contract, one after the other. Those about the queue are in `tests/api/test_queue.py`."""

from __future__ import annotations

import asyncio
import re

import pytest

from tests.world import SLACK_S, age_node, borrow, give_back, listed, picture, publish, settings_for, sweepers

pytestmark = pytest.mark.story
LABEL = "Maps:Chromium:Prod"
FREE, LENT = f"available:{LABEL}", f"inuse:{LABEL}"


@pytest.fixture
async def blade(api):
    """Node blade-9 has published s1 and s2, in that order."""
    await publish(api, "blade-9", **{LABEL: ["s1", "s2"]})
    return api


async def test_e1_a_borrow_takes_the_first_slot_and_writes_session_and_footprint(blade, redis):
    answer = await borrow(blade, LABEL, run="r1")
    assert answer.json()["browserId"] == "s1"
    assert (listed(redis, FREE), listed(redis, LENT)) == (["s2"], ["s1"])
    assert redis.exists("session:s1")
    assert 900 - SLACK_S <= redis.ttl("borrow_ttl:s1") <= 900
    assert redis.get("browser_run:s1") == "r1"
    assert answer.headers["correlation-id"] == "r1"


async def test_e2_a_returned_slot_is_back_in_its_pool_with_a_recycle_mark(blade, redis):
    await borrow(blade, LABEL, run="r1")
    assert (await give_back(blade, LABEL, "s1")).json() == {"returned": "s1"}
    assert (listed(redis, FREE), redis.exists(LENT)) == (["s2", "s1"], 0)
    assert not redis.exists("session:s1", "borrow_ttl:s1", "browser_run:s1", "browser_test:s1")
    assert 0 < redis.ttl("recycle:s1") <= 120


async def test_e3_a_second_return_changes_nothing(blade, redis):
    await borrow(blade, LABEL)
    await give_back(blade, LABEL, "s1")
    before = picture(redis)
    assert (await give_back(blade, LABEL, "s1")).json()["note"] == "already returned"
    assert picture(redis) == before


async def test_e4_a_slot_served_by_fallback_returns_under_the_requested_label(blade, redis):
    lease = (await borrow(blade, f"{LABEL}:emea", run="r2")).json()
    assert (lease["browserId"], lease["labelKey"]) == ("s1", f"{LABEL}:emea")
    assert (await give_back(blade, f"{LABEL}:emea", "s1")).json() == {"returned": "s1"}
    assert listed(redis, FREE) == ["s2", "s1"]


async def test_e5_the_length_of_a_lease_is_clamped(blade):
    leases = []
    for ttl in (5, 100_000, "abc", "120"):
        lease = (await borrow(blade, LABEL, ttlSeconds=ttl)).json()
        leases.append(lease["ttlSeconds"])
        await give_back(blade, LABEL, lease["browserId"])
    assert leases == [60, 86_400, 900, 120]


async def test_e6_a_deleted_footprint_brings_the_slot_back_with_the_next_sweep(blade, hub, redis):
    await borrow(blade, LABEL)
    redis.delete("borrow_ttl:s1")
    _, leases = sweepers(hub)
    assert (await leases.sweep()).expired == 1
    assert listed(redis, FREE) == ["s2", "s1"]
    assert (redis.exists("session:s1"), redis.exists("recycle:s1")) == (0, 1)


async def test_e6_a_deleted_idle_key_brings_the_slot_back_if_the_rule_is_on(make_api, redis):
    async with make_api(idle_timeout_s=120) as api:
        await publish(api, "blade-9", **{LABEL: ["s1", "s2"]})
        await borrow(api, LABEL)
        redis.delete("borrow_idle:s1")
        assert (await api.post("/admin/sweep", json={})).json()["leases"]["returned"] == 1
    assert listed(redis, FREE) == ["s2", "s1"]


async def test_e10_at_a_reached_cap_a_borrow_without_wait_is_refused_beside_a_free_slot(make_api):
    async with make_api(borrow_concurrency_caps=f"{LABEL}=1") as api:
        await publish(api, "blade-9", **{LABEL: ["s1", "s2"]})
        await borrow(api, LABEL)
        refused = await borrow(api, LABEL)
        assert (refused.status_code, refused.json()["code"]) == (503, "capped")
        await give_back(api, LABEL, "s1")
        assert (await borrow(api, LABEL)).json()["browserId"] == "s2"


async def test_e11_a_dead_node_loses_its_slots_and_their_leases_end(blade, hub, redis):
    await borrow(blade, LABEL, run="r1")
    age_node(redis, "blade-9", 300)
    nodes, _ = sweepers(hub)
    assert (await nodes.sweep()).expired == 1
    assert (redis.smembers("nodes"), redis.keys("available:*"), redis.keys("inuse:*")) == (set(), [], [])
    assert not redis.exists("session:s1", "borrow_ttl:s1", "browser_run:s1", "node:blade-9", "node_alive:blade-9")
    assert (await blade.get("/sessions", params={"run": "r1"})).json()["total"] == 0


async def test_e12_with_expiry_off_a_dead_node_is_kept_for_thirty_seconds(blade, redis, redis_server, make_api):
    await borrow(blade, LABEL)
    age_node(redis, "blade-9", 300)
    before = picture(redis)
    async with make_api(sweeper_expire=False) as api:
        assert (await api.post("/admin/sweep", json={})).json()["nodes"]["refreshed"] == 1
    after = picture(redis)
    (sweep,) = [text for text in after["audit:entries"] if text not in before["audit:entries"]]
    assert after == {**before, "node_alive:blade-9": "1", "audit:entries": [sweep, *before["audit:entries"]]}
    assert 30 - SLACK_S <= redis.ttl("node_alive:blade-9") <= 30


async def test_e13_of_two_concurrent_returns_at_two_hubs_one_succeeds(make_api, redis):
    caps = f"{LABEL}=1"
    async with make_api(borrow_concurrency_caps=caps) as one, make_api(borrow_concurrency_caps=caps) as two:
        await publish(one, "blade-9", **{LABEL: ["s1", "s2"]})
        for _ in range(20):
            slot = (await borrow(one, LABEL)).json()["browserId"]
            answers = await asyncio.gather(give_back(one, LABEL, slot), give_back(two, LABEL, slot))
            assert sorted("note" in answer.json() for answer in answers) == [False, True]
            assert sorted(listed(redis, FREE)) == ["s1", "s2"]
            assert not redis.exists(LENT)


async def test_e14_a_restarted_pool_lends_nothing_until_its_slots_were_replaced(blade, redis):
    answer = (await blade.post(f"/admin/pools/{LABEL}/restart")).json()
    assert (answer["scheduled"], answer["maintenance"]["target"]) == (2, 2)
    assert (await borrow(blade, LABEL)).json()["code"] == "no-capacity"
    for slot in ("s1", "s2"):
        await blade.delete(f"/node/blade-9/slots/{slot}")
    await publish(blade, "blade-9", **{LABEL: ["s3", "s4"]})
    redis.pexpire(f"maintenance:{LABEL}", 1_800_000 - 11_000)
    assert (await borrow(blade, LABEL)).json()["browserId"] == "s3"


async def test_e15_a_body_of_70000_bytes_is_refused(api):
    answer = await api.post("/session/borrow", content=b"x" * 70_000)
    assert (answer.status_code, answer.headers["content-type"]) == (413, "application/problem+json")


GUARDED = [
    ("POST", "/node/join"),
    ("POST", "/node/register"), ("POST", "/node/heartbeat"), ("POST", "/node/heartbeats"), ("POST", "/node/n/slots"),
    ("DELETE", "/node/n/slots/s"), ("POST", "/node/n/slots/s/hold"), ("DELETE", "/node/n/slots/s/hold"),
    ("POST", "/admin/slots/s/hold"), ("DELETE", "/admin/slots/s/hold"), ("DELETE", "/node/n"),
    ("POST", "/session/borrow"), ("POST", "/session/return"), ("POST", "/session/renew"),
    ("POST", "/bundles"), ("POST", "/bundles/b1/renew"), ("POST", "/bundles/b1/return"),
    ("POST", "/leases/watch"), ("POST", "/leases/s/activity"), ("POST", "/leases/s/pause"),
    ("GET", "/diagnostics/worker-env/n"),
    ("GET", "/leases/s/verify?token=1"), ("GET", "/nodes?detail=1"), ("GET", "/nodes/n"), ("GET", "/nodes/n/orders"),
    ("GET", "/pools"), ("GET", "/pools/a:b"), ("GET", "/pools/a:b/attributes"), ("GET", "/sessions"),
    ("GET", "/sessions/s"), ("GET", "/usage"),
    ("GET", "/teams"), ("PUT", "/admin/teams/ml"), ("DELETE", "/admin/teams/ml?label=gpu:*"),
    ("POST", "/results/browser/s/test"), ("POST", "/admin/pools/a:b/restart"), ("POST", "/admin/nodes/n/drain"),
    ("POST", "/admin/nodes/n/undrain"), ("POST", "/admin/nodes/n/cordon"),
    ("POST", "/admin/nodes/n/sidecar/upgrade"), ("DELETE", "/admin/nodes/n"),
    ("GET", "/admin/sweeper"), ("PUT", "/admin/sweeper"), ("POST", "/admin/sweep"), ("GET", "/audit"),
    ("GET", "/admin/brake"), ("POST", "/admin/brake/release"),
    ("GET", "/diagnostics"), ("GET", "/diagnostics/env"), ("GET", "/history"), ("GET", "/events"),
    ("GET", "/why/node/n"),
    ("GET", "/autoscale/a:b"), ("GET", "/nodes/n/safe-to-kill"), ("GET", "/queue"),
    ("GET", "/queue/t"), ("DELETE", "/queue/t"), ("GET", "/admin/caps"), ("PUT", "/admin/caps/a:b"),
    ("GET", "/admin/pools/rules"), *((method, "/admin/pools/a:*/rules") for method in ("GET", "PUT", "DELETE")),
    ("GET", "/admin/tokens"), ("POST", "/admin/tokens"), ("DELETE", "/admin/tokens/t"), ("GET", "/admin/tokens/t"),
    ("GET", "/admin/hooks"), ("POST", "/admin/hooks"), ("GET", "/admin/hooks/h"), ("DELETE", "/admin/hooks/h"),
    ("POST", "/admin/hooks/h/test"), ("POST", "/admin/hooks/h/pause"), ("POST", "/admin/hooks/h/resume"),
    ("GET", "/admin/settings"), ("PUT", "/admin/settings/HUB_NODE_TIMEOUT"), ("GET", "/autoscale/jobs/a:b:c"),
    ("GET", "/realms"),
]  # fmt: skip


async def test_e16_a_wrong_secret_is_refused(make_api, redis):
    async with make_api(runner_secret="r", node_secret="n", admin_secret="a") as api:
        for method, path in GUARDED:
            for secret in ({}, {"x-hub-secret": "wrong"}, {"x-hub-secret": ""}, {"x-node-secret": "n"}):
                answer = await api.request(method, path, headers=secret, json={})
                shown = (method, path, secret, answer.text)
                assert (answer.status_code, answer.headers["content-type"]) == (401, "application/problem+json"), shown
                assert "detail" not in answer.json(), shown
    assert set(picture(redis)) == set()


async def test_every_endpoint_of_the_contract_is_guarded_or_listed_as_open(make_api):
    open_to_all = {"/health", "/health/live", "/health/ready", "/ready", "/metrics", "/nodes"}
    async with make_api() as api:
        paths = (await api.get("/openapi.json")).json()["paths"]
    # The jobs API knows users, not roles; tests/joblib tests their rights.
    for path in (path for path in set(paths) - open_to_all if not path.startswith("/v1/joblib")):
        pattern = re.sub(r"\{[^}]+\}", "[^/]+", path)
        for method in paths[path]:
            tried = [sample for verb, sample in GUARDED if verb == method.upper()]
            assert any(re.fullmatch(pattern, sample.split("?")[0]) for sample in tried), f"{method} {path}"


def test_the_settings_of_the_scenarios_are_the_defaults_of_the_contract(redis_server):
    settings = settings_for(redis_server.url)
    assert (settings.node_timeout_s, settings.borrow_ttl_s, settings.borrow_ttl_min_s) == (60, 900, 60)
    assert (settings.max_session_ttl_s, settings.idle_timeout_s, settings.label_kinds) == (86_400, 0, "*")
