"""Bodies that ask for no bundle, and what is said to them."""

from __future__ import annotations

import pytest

from tests.api.bundles import LABEL, ask, end, ids, lent, offer, sessions

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
        ({"parts": [{"label": {}}]}, "label"), ({"parts": [{**ONE, "where": 7.5}]}, None),
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
async def test_a_flag_is_true_or_false_and_nothing_else(api, flag):
    await offer(api, 1)
    for value in ("true", "yes", "", 1, 0, [], {}):
        for path in ("/bundles", "/v2/bundles"):
            refused = await api.post(path, json={"parts": [ONE], flag: value})
            told = refused.json()
            assert (refused.status_code, told["code"], told["member"]) == (400, "invalid-value", flag)
            assert told["detail"] == f"{flag} must be true or false"
    assert not await sessions(api)
    for absent in (False, None):
        assert (await ask(api, (LABEL, 2), **{flag: absent})).status_code == 404


@pytest.mark.parametrize(
    ("part", "code", "detail"),
    [
        ({**ONE, "where": "vram >"}, "bad-where", "part 2: where: expected "),
        ({"label": "a::b"}, "invalid-label", "part 2: invalid label: "),
        ({"label": {}}, "invalid-value", "part 2: label must be text"),
        ({**ONE, "count": 17}, "invalid-value", "part 2: count must be a whole number from 1 to 16"),
        ({"count": 2}, "missing-member", "part 2: missing label"),
    ],
)
async def test_a_refusal_says_which_part_it_is_about(api, part, code, detail):
    told = (await ask(api, ONE, part)).json()
    assert (told["status"], told["code"], told["part"]) == (400, code, 1)
    assert told["detail"].startswith(detail)


async def test_a_label_is_called_as_the_caller_calls_it(api):
    body = {"labelKey": "a::b"}
    for path, name in (("/session/borrow", "labelKey"), ("/v2/borrow", "label")):
        assert (await api.post(path, json=body)).json()["detail"].startswith(f"invalid {name}: ")
        assert (await api.post(path, json={})).json()["detail"] == f"missing {name}"
    told = (await api.post("/bundles", json={"parts": [body]})).json()
    assert told["detail"].startswith("part 1: invalid labelKey: ")


async def test_an_id_that_no_hub_gives_is_not_found_and_one_that_is_over_is(api):
    for bundle in ("none", "b", "b1x", "B1", "b1.5", "n1-1", "b\u0661", "b1%0A", f"b{'1' * 31}"):
        for act in ("renew", "return"):
            refused = await end(api, bundle, act)
            assert (refused.status_code, refused.json()["code"]) == (404, "not-found"), bundle
            assert refused.json()["detail"].endswith("the answer of POST /bundles says it, such as b17")
    later = f"b{'9' * 25}"  # of earlier ones the nodes of a new store may yet report leases
    assert (await end(api, later)).json() == {"bundle": later, "returned": [], "note": "already returned"}
    assert (await end(api, later, "renew")).json()["code"] == "grant-over"
