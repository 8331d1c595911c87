"""Bodies that ask for no bundle, and what is said to them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.bundles import LABEL, ask, ids, lent, offer, sessions

ONE = {"label": LABEL}


@pytest.mark.parametrize(
    ("body", "member"),
    [
        ({}, "parts"), ({"parts": None}, "parts"), ({"parts": []}, "parts"), ({"parts": LABEL}, "parts"),
        ({"parts": {"label": LABEL}}, "parts"), ({"parts": [LABEL]}, "parts"), ({"parts": [7]}, "parts"),
        ({"parts": [None]}, "parts"), ({"parts": [{}]}, "parts"), ({"parts": [{"count": 2}]}, "parts"),
        ({"parts": [ONE] * 17}, "parts"), ({"parts": [{**ONE, "count": 16}, ONE]}, "parts"),
        ({"parts": [{**ONE, "count": 9}, {**ONE, "count": 8}]}, "parts"), ({"parts": [ONE] * 1000}, "parts"),
        *(
            ({"parts": [{**ONE, "count": count}]}, "count")
            for count in (0, -1, 17, 1.5, 10**30, "two", "", True, [], {}, float(2**70))
        ),
        ({"parts": [{"label": {}}]}, "labelKey"), ({"parts": [{**ONE, "where": 7.5}]}, None),
        ({"parts": [{**ONE, "where": []}]}, "where"), ({"parts": [{**ONE, "where": {}}]}, "where"),
        ({"parts": [{"label": "a"}]}, None), ({"parts": [{"label": "a::b"}]}, None),
        ({"parts": [ONE], "priority": 101}, "priority"), ({"parts": [ONE], "priority": 0.5}, "priority"),
        ({"parts": [ONE], "maxWaitSeconds": -1}, "maxWaitSeconds"), ({"parts": [ONE], "name": "a\nb"}, "name"),
        ({"parts": [ONE], "runName": "a/b"}, "runName"), ({"parts": [ONE], "runId": "x" * 201}, "runId"),
    ],
)  # fmt: skip
async def test_a_wish_that_is_none_is_refused_with_the_member(api, body, member):
    await offer(api, 2)
    refused = await api.post("/v2/bundles", json={"maxWaitSeconds": 0, **body})
    told = refused.json()
    assert (refused.status_code, told.get("member")) == (400, member), refused.text
    assert told["detail"]
    assert not await sessions(api)


@pytest.mark.parametrize(
    ("body", "member"),
    [
        ({"parts": [{**ONE, "number": 2}]}, "number"), ({"parts": [ONE], "anyOf": []}, "anyOf"),
        ({"parts": [ONE], "realms": ["eu"]}, "realms"), ({"parts": [ONE], "prefer": []}, "prefer"),
        ({"parts": [ONE], "samenode": True}, "samenode"),
    ],
)  # fmt: skip
async def test_a_member_that_bundles_do_not_have_is_refused_below_v2_and_ignored_elsewhere(api, body, member):
    await offer(api, 1)
    refused = await api.post("/v2/bundles", json=body)
    assert (refused.status_code, refused.json()["code"], refused.json()["member"]) == (400, "unknown-member", member)
    assert (await api.post("/bundles", json=body)).status_code == 200


async def test_an_expression_that_cannot_be_read_is_refused_at_its_first_fault(api):
    refused = await ask(api, {**ONE, "where": "vram >"})
    assert (refused.status_code, refused.json()["code"], refused.json()["position"]) == (400, "bad-where", 7)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b'"parts"', b"\xff"])
async def test_a_body_that_is_no_object_is_refused(api, content):
    for path in ("/v2/bundles", "/bundles"):
        refused = await api.post(path, content=content)
        assert (refused.status_code, refused.json()["code"]) == (400, "invalid-json")


@pytest.mark.parametrize("body", [{"ttlSeconds": "soon"}, {"ttlSeconds": []}, {"ttlSeconds": True}, {"ttl": 60}])
async def test_a_renewal_that_says_no_length_is_refused_and_changes_nothing(api, body):
    await offer(api, 1)
    found = await lent(api, LABEL)
    refused = await api.post(f"/v2/bundles/{found['bundle']}/renew", json=body)
    assert (refused.status_code, refused.json()["member"]) == (400, next(iter(body)))


async def test_as_many_slots_as_a_bundle_may_have_are_lent(api):
    slots = await offer(api, 17)
    assert sorted(ids(await lent(api, (LABEL, 16)))) != sorted(slots)
    assert len(await sessions(api)) == 16


@pytest.mark.parametrize("flag", ["sameNode", "together", "waitForPool"])
@pytest.mark.parametrize("value", ["true", 1, None, [], {}])
async def test_what_is_not_true_is_false(api, flag, value):
    await offer(api, 1)
    found: dict[str, Any] = await lent(api, LABEL, **{flag: value})
    assert found["together"] is False
    assert (await ask(api, (LABEL, 2), **{flag: value})).status_code == 404
