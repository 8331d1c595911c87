"""A lease keeps its holder when the store was lost: as hubs remember it, and as nodes report it."""

from __future__ import annotations

from typing import Any

import pytest

from hub.store.store import SETTLE_MS

LABEL = "a:b"
SECRET = "runner-secret-of-the-test"
ADA, BOB, RUNNER = ({"x-hub-secret": secret} for secret in ("ada-token", "bob-token", SECRET))
TOKENS = """
[[tokens]]
token = "ada-token"
user = "ada"
team = "ml"
scopes = ["borrow"]

[[tokens]]
token = "bob-token"
user = "bob"
scopes = ["borrow"]
"""


@pytest.fixture
async def serving(make_api, tmp_path):
    """(client, hub) of an application whose tokens outlive the store."""
    file = tmp_path / "tokens.toml"
    file.write_text(TOKENS)
    async with make_api(tokens_file=file, runner_secret=SECRET, node_secret=SECRET) as api:
        hub = api._transport.app.app.state.serving.hub
        await register(api)
        yield api, hub


async def register(api, **more: Any) -> Any:
    body = {"nodeId": "n1", "slots": [{"labelKey": LABEL, "slotId": "s1"}], **more}
    answer = await api.post("/node/register", json=body, headers=RUNNER)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def borrow(api) -> dict[str, Any]:
    answer = await api.post("/session/borrow", json={"labelKey": LABEL, "name": "ada-1"}, headers=ADA)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def check_holder(api, lease: dict[str, Any]) -> None:
    """The lease is still Ada's, and nobody else renews or returns it."""
    session = (await api.get("/sessions/s1", headers=RUNNER)).json()
    assert session["holder"] == {"user": "ada", "team": "ml", "name": "ada-1", "client": "127.0.0.1"}, session
    named = {"browserId": "s1", "leaseToken": lease["leaseToken"]}
    for other in (BOB, RUNNER):
        for path, body in (("/session/renew", named), ("/session/return", {**named, "labelKey": LABEL})):
            answer = await api.post(path, json=body, headers=other)
            assert (answer.status_code, answer.json().get("code")) == (403, "not-holder"), answer.text
    assert (await api.post("/session/renew", json=named, headers=ADA)).status_code == 200
    returned = await api.post("/session/return", json={**named, "labelKey": LABEL}, headers=ADA)
    assert returned.json() == {"returned": "s1"}


async def test_a_hub_that_remembers_a_lease_restores_its_holder(serving, redis):
    api, hub = serving
    lease = await borrow(api)
    redis.flushall()
    await hub.clock.tick()
    redis.hincrby("hub:store", "clock_ms", SETTLE_MS + 1)
    await register(api)
    await check_holder(api, lease)


async def test_a_node_that_reports_a_lease_restores_its_holder(serving, redis):
    api, hub = serving
    lease = await borrow(api)
    told = (await api.post("/node/heartbeat", json={"nodeId": "n1"}, headers=RUNNER)).json()
    hub.leases.memory.leases.clear()
    redis.flushall()
    await hub.clock.tick()
    redis.hincrby("hub:store", "clock_ms", SETTLE_MS + 1)
    await register(api, lent=told["lent"], lentFor=told["lentFor"])
    await check_holder(api, lease)


async def test_a_lease_that_a_plain_node_brought_back_gets_the_holder_that_the_hub_remembers(serving, redis):
    api, hub = serving
    lease = await borrow(api)
    told = (await api.post("/node/heartbeat", json={"nodeId": "n1"}, headers=RUNNER)).json()
    remembered = hub.leases.memory.leases.copy()
    hub.leases.memory.leases.clear()
    redis.flushall()
    await hub.clock.tick()
    await register(api, lent=told["lent"])
    hub.leases.memory.leases.update(remembered)
    await hub.leases.memory.recall()
    redis.hincrby("hub:store", "clock_ms", SETTLE_MS + 1)
    await check_holder(api, lease)


async def test_the_holder_of_a_lease_that_only_a_plain_node_knows_is_who_knows_its_token(serving, redis):
    api, hub = serving
    lease = await borrow(api)
    told = (await api.post("/node/heartbeat", json={"nodeId": "n1"}, headers=RUNNER)).json()
    hub.leases.memory.leases.clear()
    redis.flushall()
    await hub.clock.tick()
    redis.hincrby("hub:store", "clock_ms", SETTLE_MS + 1)
    await register(api, lent=told["lent"])
    assert (await api.get("/sessions/s1", headers=RUNNER)).json()["holder"] is None
    nameless = await api.post("/session/return", json={"browserId": "s1", "labelKey": LABEL}, headers=BOB)
    assert (nameless.status_code, nameless.json()["code"]) == (403, "not-holder")
    named = {"browserId": "s1", "leaseToken": lease["leaseToken"]}
    assert (await api.post("/session/renew", json=named, headers=ADA)).status_code == 200


async def test_while_it_is_not_known_who_holds_a_lease_a_user_is_asked_to_return_it_again(serving, redis):
    api, hub = serving
    lease = await borrow(api)
    told = (await api.post("/node/heartbeat", json={"nodeId": "n1"}, headers=RUNNER)).json()
    hub.leases.memory.leases.clear()
    redis.flushall()
    await hub.clock.tick()
    named = {"browserId": "s1", "leaseToken": lease["leaseToken"], "labelKey": LABEL}
    for who in (BOB, ADA):
        answer = await api.post("/session/return", json=named, headers=who)
        assert (answer.status_code, answer.json()["code"]) == (503, "settling"), answer.text
    redis.hincrby("hub:store", "clock_ms", SETTLE_MS + 1)
    await register(api, lent=told["lent"], lentFor=told["lentFor"])
    await check_holder(api, lease)


@pytest.mark.parametrize("reports", ["node", "hub"])
async def test_a_return_by_the_runner_secret_after_a_loss_ends_no_lease_of_a_user(serving, redis, reports):
    api, hub = serving
    lease = await borrow(api)
    told = (await api.post("/node/heartbeat", json={"nodeId": "n1"}, headers=RUNNER)).json()
    remembered = hub.leases.memory.leases.copy()
    hub.leases.memory.leases.clear()
    redis.flushall()
    await hub.clock.tick()
    named = {"browserId": "s1", "leaseToken": lease["leaseToken"], "labelKey": LABEL}
    assert (await api.post("/session/return", json=named, headers=RUNNER)).status_code == 200
    if reports == "hub":
        hub.leases.memory.ends.clear()
        hub.leases.memory.leases.update(remembered)
        await hub.leases.memory.recall()
        await register(api)
    else:
        await register(api, lent=told["lent"], lentFor=told["lentFor"])
    redis.hincrby("hub:store", "clock_ms", SETTLE_MS + 1)
    await check_holder(api, lease)
