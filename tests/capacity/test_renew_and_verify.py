"""Extending a lease, and asking whether a token is still good."""

from __future__ import annotations

import pytest

from tests.world import SLACK_S, age_lease, borrow, give_back, publish

LABEL = "a:b"


@pytest.fixture
async def lease(api):
    await publish(api, "n1", **{LABEL: ["s1"]})
    return (await borrow(api, LABEL, ttlSeconds=100)).json()


def renew(api, **body):
    return api.post("/session/renew", json={"browserId": "s1", **body})


async def test_a_renewal_extends_the_lease_from_now(api, redis, lease):
    answer = (await renew(api, leaseToken=lease["leaseToken"], ttlSeconds=500)).json()
    assert answer.pop("expiresAtUtc") > lease["expiresAtUtc"]
    assert answer.pop("ttlSeconds") == pytest.approx(500, abs=1)
    assert answer == {"browserId": "s1", "leaseToken": lease["leaseToken"]}
    assert redis.ttl("borrow_ttl:s1") == pytest.approx(500, abs=SLACK_S)


async def test_a_renewal_without_a_length_asks_for_the_default(api, lease):
    assert (await renew(api)).json()["ttlSeconds"] == pytest.approx(900, abs=1)


async def test_a_renewal_never_shortens_a_lease(api, lease):
    assert (await renew(api, ttlSeconds=60)).json()["ttlSeconds"] == pytest.approx(100, abs=1)


async def test_renewals_cannot_exceed_the_longest_session(make_api, redis):
    async with make_api(max_session_ttl_s=300) as api:
        await publish(api, "n1", **{LABEL: ["s1"]})
        await borrow(api, LABEL, ttlSeconds=100)
        left = []
        for _ in range(4):
            left.append((await renew(api, ttlSeconds=86_400)).json()["ttlSeconds"])
            redis.hincrby("hub:store", "clock_ms", 70_000)
        assert left == pytest.approx([300, 230, 160, 90], abs=3)


async def test_a_renewal_extends_the_idle_key_as_well(make_api, redis):
    async with make_api(idle_timeout_s=20) as api:
        await publish(api, "n1", **{LABEL: ["s1"]})
        await borrow(api, LABEL, ttlSeconds=100)
        await renew(api, ttlSeconds=500)
    assert redis.ttl("borrow_idle:s1") >= 20


@pytest.mark.parametrize("how", ["returned", "lent again", "overdue", "never lent", "wrong token"])
async def test_a_lease_that_is_over_cannot_be_renewed(api, hub, lease, how):
    token = lease["leaseToken"]
    if how in ("returned", "lent again"):
        await give_back(api, LABEL, "s1")
    if how == "lent again":
        await borrow(api, LABEL)
    if how == "overdue":
        await age_lease(hub, "s1")
    body = {"browserId": "s2"} if how == "never lent" else {"leaseToken": "1" if how == "wrong token" else token}
    answer = await renew(api, **body)
    assert (answer.status_code, answer.json()["code"]) == (409, "grant-over")


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"browserId": None}, "missing-member"),
        ({"browserId": " "}, "missing-member"),
        ({"browserId": []}, "invalid-value"),
        ({"ttlSeconds": "soon"}, "invalid-value"),
        ({"ttlSeconds": [1]}, "invalid-value"),
        ({"leaseToken": {}}, "invalid-value"),
    ],
)
async def test_an_invalid_renewal_is_refused_and_changes_nothing(api, redis, lease, body, code):
    answer = await renew(api, **body)
    assert (answer.status_code, answer.json()["code"]) == (400, code)
    assert redis.ttl("borrow_ttl:s1") == pytest.approx(100, abs=SLACK_S)


async def verify(api, slot, token):
    answer = await api.get(f"/leases/{slot}/verify", params={"token": token})
    assert answer.status_code == 200
    found = answer.json()
    assert found.pop("slotId") == slot
    return found


async def test_a_token_is_valid_for_as_long_as_its_lease_lasts(api, hub, lease):
    good = await verify(api, "s1", lease["leaseToken"])
    assert good.pop("ttlSeconds") == pytest.approx(100, abs=1)
    assert good == {"valid": True}
    assert await verify(api, "s1", "1") == {"valid": False, "reason": "stale token"}
    assert await verify(api, "s2", "1") == {"valid": False, "reason": "not lent"}
    await age_lease(hub, "s1")
    assert await verify(api, "s1", lease["leaseToken"]) == {"valid": False, "reason": "lapsed"}
    await give_back(api, LABEL, "s1")
    assert await verify(api, "s1", lease["leaseToken"]) == {"valid": False, "reason": "not lent"}
    later = (await borrow(api, LABEL)).json()
    assert (await verify(api, "s1", later["leaseToken"]))["valid"]
    assert await verify(api, "s1", lease["leaseToken"]) == {"valid": False, "reason": "stale token"}


async def test_a_verification_without_a_token_is_refused(api, lease):
    answer = await api.get("/leases/s1/verify")
    assert (answer.status_code, answer.json()["code"]) == (400, "missing-member")
