"""What the audit log says of who did what: it cannot be pushed out by refusals, and not be forged."""

from __future__ import annotations

import json
from collections import Counter

import httpx
import pytest

from tests.world import publish

SECRETS = {"runner_secret": "runner-x", "node_secret": "node-x", "admin_secret": "admin-x"}
ADMIN = {"x-hub-secret": "admin-x"}


def shown(entries):
    return [(each["action"], each["actor"], each["by"]) for each in entries]


async def test_refused_calls_push_no_accepted_call_out_of_the_audit_log(make_api, redis):
    async with make_api(**SECRETS, audit_max_entries=100) as api:
        assert (await api.put("/admin/sweeper", json={"expire": None, "by": "ann"}, headers=ADMIN)).status_code == 200
        for _ in range(150):
            assert (await api.post("/node/register", json={"nodeId": "n1"})).status_code == 401
        found = (await api.get("/audit", headers=ADMIN, params={"take": 500})).json()
        assert shown(found) == [("register.denied", None, None), ("sweeper.expire", "ann", "admin secret")]
        counted = (await api.get("/metrics")).text
    assert (redis.llen("audit:entries"), redis.llen("hub:refusals")) == (1, 1)
    lines = [line for line in counted.splitlines() if line.startswith("hub_refusals_total{")]
    assert max(float(line.split()[-1]) for line in lines) >= 150


async def test_refusals_left_out_of_the_audit_log_are_counted_in_the_next_entry(hub, redis, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr("hub.audit.time.monotonic", lambda: now[0])
    for _ in range(5):
        await hub.audit.refused("node", "register.denied", "10.0.0.1", "unauthorized")
    now[0] += 60
    await hub.audit.refused("node", "register.denied", "10.0.0.1", "unauthorized")
    details = [json.loads(text)["Details"] for text in redis.lrange("hub:refusals", 0, -1)]
    assert details == [{"reason": "unauthorized", "leftOut": "4"}, {"reason": "unauthorized"}]
    now[0] += 60
    for number in range(700):
        await hub.audit.refused("node", "register.denied", f"10.0.{number // 100}.{number % 100}", "unauthorized")
    assert redis.llen("hub:refusals") == 2 + 600


async def test_many_refusals_of_one_address_do_not_push_out_the_refusals_of_others(hub, redis, monkeypatch):
    monkeypatch.setattr("hub.audit.REFUSALS_MAX", 20)
    now = [1000.0]
    monkeypatch.setattr("hub.audit.time.monotonic", lambda: now[0])
    await hub.audit.refused("node", "register.denied", "10.0.0.2", "unauthorized")
    for number in range(100):
        await hub.audit.refused("node", "register.denied", "10.0.0.1", f"reason {number}")
        now[0] += 6.5
    await hub.audit.refused("node", "register.denied", "10.0.0.3", "unauthorized")
    addresses = [json.loads(text)["RemoteIp"] for text in redis.lrange("hub:refusals", 0, -1)]
    assert (len(addresses), addresses[0], addresses[-1]) == (20, "10.0.0.3", "10.0.0.2")
    assert set(addresses[1:-1]) == {"10.0.0.1"}


async def test_many_audit_entries_of_one_credential_push_out_its_own_oldest_entries_first(make_api, redis):
    async with make_api(**SECRETS, audit_max_entries=100) as api:
        for value in (True, None):
            said = {"expire": value, "by": "ann"}
            assert (await api.put("/admin/sweeper", json=said, headers=ADMIN)).status_code == 200
        for _ in range(150):
            again = await api.post("/node/register", json={"nodeId": "n1"}, headers={"x-hub-secret": "node-x"})
            assert again.status_code == 200
        found = (await api.get("/audit", headers=ADMIN, params={"take": 500})).json()
    assert redis.llen("audit:entries") == 100
    assert [each["by"] for each in found] == ["node secret"] * 98 + ["admin secret"] * 2


async def test_the_audit_log_is_shared_out_among_credentials_that_write_many_entries(hub, redis):
    hub.audit.max_entries = 150
    for number in range(300):
        await hub.audit.write("admin", "change", by=f"token {number % 7}")
        await hub.audit.write("admin", "flood", by="weak")
    by = Counter(json.loads(text)["By"] for text in redis.lrange("audit:entries", 0, -1))
    assert by.total() == 150
    assert max(by.values()) - min(by.values()) <= 1
    hub.audit.max_entries = 100
    for number in range(101):
        await hub.audit.write("admin", "change", by=f"many {number}")
    assert redis.llen("audit:entries") == 100
    assert json.loads(redis.lindex("audit:entries", 0))["By"] == "many 100"


async def test_lowering_the_size_of_the_audit_log_drops_the_oldest_entries_at_once(hub, redis):
    redis.rpush("audit:entries", *("{}" for _ in range(2000)))
    hub.audit.max_entries = 100
    await hub.audit.write("admin", "change", by="ann")
    assert redis.llen("audit:entries") == 100
    assert json.loads(redis.lindex("audit:entries", 0))["By"] == "ann"


async def test_the_list_of_refusals_is_trimmed(hub, redis, monkeypatch):
    monkeypatch.setattr("hub.audit.REFUSALS_MAX", 3)
    for number in range(5):
        await hub.audit.refused("node", "register.denied", f"10.0.0.{number}", "unauthorized")
    addresses = [json.loads(text)["RemoteIp"] for text in redis.lrange("hub:refusals", 0, -1)]
    assert addresses == ["10.0.0.4", "10.0.0.3", "10.0.0.2"]


async def test_an_audit_entry_has_the_credential_and_the_name_that_the_caller_claims(make_api):
    async with make_api(runner_secret="r", node_secret="n1,n2", admin_secret="a1, a2") as api:
        root = await api.post("/admin/tokens", json={"user": "root", "superuser": True}, headers={"x-hub-secret": "a1"})
        token = root.json()
        bearer = {"authorization": f"Bearer {token['token']}"}
        await api.post("/admin/tokens", json={"user": "ann"}, headers=bearer)
        for secret in ("a1", "a2", "a1, a2"):
            await api.put("/admin/sweeper", json={"expire": None, "by": "root"}, headers={"x-hub-secret": secret})
        for secret in ("n2", "n1"):
            await api.post("/node/register", json={"nodeId": "rack-7"}, headers={"x-hub-secret": secret})
        await api.delete(f"/admin/tokens/{token['id']}", headers=bearer)
        found = (await api.get("/audit", headers={"x-hub-secret": "a1"})).json()
    by_root = f"token {token['id']} of user root"
    assert shown(found) == [
        ("token.revoke", "root", by_root),
        ("register.update", "rack-7", "node secret 1 of 2"),
        ("register.success", "rack-7", "node secret 2 of 2"),
        ("sweeper.expire", "root", "admin secret"),
        ("sweeper.expire", "root", "admin secret 2 of 2"),
        ("sweeper.expire", "root", "admin secret 1 of 2"),
        ("token.create", "root", by_root),
        ("token.create", "operator", "admin secret 1 of 2"),
    ]


async def test_the_audit_log_tells_what_a_node_did_with_its_own_token(make_api):
    async with make_api(**SECRETS) as api:
        made = (await api.post("/admin/tokens", json={"node": "rack-7"}, headers=ADMIN)).json()
        mine = {"x-hub-secret": made["token"]}
        await api.post("/node/register", json={"nodeId": "rack-7"}, headers=mine)
        await api.post("/admin/nodes/rack-7/drain", headers=mine)
        found = (await api.get("/audit", headers=ADMIN)).json()
    by = f"token {made['id']} of node rack-7"
    assert shown(found)[:2] == [("node.drain", None, by), ("register.success", "rack-7", by)]


async def test_the_audit_log_of_an_open_hub_says_that_no_credential_was_needed(api):
    await publish(api, "n1")
    await api.put("/admin/sweeper", json={"expire": None, "by": "ann"})
    found = (await api.get("/audit")).json()
    assert {each["by"] for each in found} == {"none: the hub is open"}


async def test_without_an_admin_secret_the_audit_log_names_the_runner_secret(make_api):
    async with make_api(runner_secret="r", node_secret="n") as api:
        await api.put("/admin/sweeper", json={"expire": None}, headers={"x-hub-secret": "r"})
        assert (await api.get("/audit", headers={"x-hub-secret": "r"})).json()[0]["by"] == "runner secret"


async def test_a_sweep_by_hand_is_audited_and_a_dry_run_is_not(make_api):
    async with make_api(**SECRETS) as api:
        await api.post("/admin/sweep", json={"dryRun": True}, headers=ADMIN)
        await api.post("/admin/sweep", headers=ADMIN)
        found = (await api.get("/audit", headers=ADMIN)).json()
    assert [(each["action"], each["by"], each["details"]) for each in found] == [
        ("sweep", "admin secret", {"expired": "0", "returned": "0"})
    ]


FORWARDED = [
    # FORWARDED_ALLOW_IPS, what is said, whom that makes the caller; the test itself calls from 127.0.0.1
    ("127.0.0.1", ["198.51.100.7"], "198.51.100.7"),
    ("127.0.0.1", ["10.9.9.9, 198.51.100.7"], "198.51.100.7"),  # what a caller sends himself comes first
    ("127.0.0.1", ["10.9.9.9", "198.51.100.7"], "198.51.100.7"),
    ("127.0.0.1", ["198.51.100.7:4711"], "198.51.100.7"),
    ("127.0.0.1", ["[2001:db8::1]:4711"], "2001:db8::1"),
    ("127.0.0.1", ["2001:DB8::1"], "2001:db8::1"),
    ("127.0.0.1", ["operator"], "127.0.0.1"),
    ("127.0.0.1", ["198.51.100.7, <script>"], "127.0.0.1"),
    ("127.0.0.1", [""], "127.0.0.1"),
    ("127.0.0.1", [], "127.0.0.1"),
    ("127.0.0.1,10.0.0.0/8", ["10.9.9.9, 198.51.100.7, 10.0.0.2"], "198.51.100.7"),
    ("127.0.0.1,10.0.0.0/8", ["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
    ("*", ["10.9.9.9, 198.51.100.7"], "198.51.100.7"),
    ("*", ["nonsense"], "127.0.0.1"),
    ("10.0.0.1", ["198.51.100.7"], "127.0.0.1"),
    ("", ["198.51.100.7"], "127.0.0.1"),
    ("nonsense", ["198.51.100.7"], "127.0.0.1"),
]  # fmt: skip


@pytest.mark.parametrize(("trusted", "said", "caller"), FORWARDED, ids=str)
async def test_a_forwarded_address_counts_only_when_it_comes_from_a_trusted_proxy(
    make_api, monkeypatch, trusted, said, caller
):
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", trusted)
    async with make_api() as api:
        headers = httpx.Headers([("x-forwarded-for", each) for each in said])
        await api.put("/admin/sweeper", json={"expire": None}, headers=headers)
        (entry,) = (await api.get("/audit")).json()
    assert entry["remoteIp"] == caller
