"""A lease that ends early: its holder is told why, in the words of the node or the operator if they gave some."""

from __future__ import annotations

import pytest

from tests.world import borrow, give_back, publish

LABEL = "a:b"
WORDS = "profile could not be wiped"


async def ended(api, redis, how):
    """End the lease of s1 in some way."""
    if how == "withdrawn":
        await api.delete(f"/node/n1/slots/s1?reason={WORDS}")
    elif how == "operator":
        await give_back(api, LABEL, "s1", revoke=True, reason=WORDS)
    elif how == "without words":
        await api.delete("/node/n1/slots/s1")
    elif how == "node":
        await api.delete("/node/n1")
    elif how == "returned":
        await give_back(api, LABEL, "s1")
    else:
        redis.delete("borrow_ttl:s1")
        await api.post("/admin/sweep")


@pytest.mark.parametrize(
    ("how", "because"),
    [
        ("withdrawn", f"its node withdrew the slot: {WORDS}"),
        ("operator", f"an operator ended it: {WORDS} (127.0.0.1)"),
        ("without words", "its node withdrew the slot"),
        ("node", "its node left or was silent for too long"),
        ("deleted", "another program ended it"),
        ("returned", None),
    ],
)
async def test_the_holder_is_told_why_its_lease_has_ended(api, redis, how, because):
    await publish(api, "n1", **{LABEL: ["s1", "s2"]})
    token = (await borrow(api, LABEL)).json()["leaseToken"]
    await ended(api, redis, how)
    held = {"browserId": "s1", "leaseToken": token}
    (over,) = (await api.post("/leases/watch", json={"leases": [held], "waitSeconds": 0})).json()["over"]
    assert over == {**held, "reason": "not lent", **({"because": because} if because else {})}
    refused = await api.post("/session/renew", json=held)
    assert (refused.status_code, refused.json()["code"]) == (409, "grant-over")
    assert refused.json()["detail"] == "The lease of s1 is over" + (f": {because}" if because else "")


async def test_the_reason_of_a_lease_is_not_told_to_the_holder_of_another(api):
    await publish(api, "n1", **{LABEL: ["s1"]})
    first = (await borrow(api, LABEL)).json()["leaseToken"]
    await give_back(api, LABEL, "s1", force=True, reason=WORDS)
    second = (await borrow(api, LABEL)).json()["leaseToken"]
    await give_back(api, LABEL, "s1", leaseToken=second)
    for token, because in ((first, f"an operator ended it: {WORDS} (127.0.0.1)"), (second, None)):
        held = {"browserId": "s1", "leaseToken": token}
        (over,) = (await api.post("/leases/watch", json={"leases": [held], "waitSeconds": 0})).json()["over"]
        assert over.get("because") == because


async def test_a_reason_is_one_printable_line(api):
    await publish(api, "n1", **{LABEL: ["s1"]})
    answer = await api.delete("/node/n1/slots/s1", params={"reason": "a\nb"})
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid-value")
    assert (await borrow(api, LABEL)).status_code == 200
