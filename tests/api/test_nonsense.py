"""Nonsense by hand: wrong types everywhere, texts that are none, numbers beyond all bounds."""

from __future__ import annotations

import json

import pytest

from tests.world import borrow, picture, publish

LABEL = "gpu:a100"
MEMBERS = {
    "/node/register": {
        "nodeId": "n1", "apps": [LABEL], "capacity": 1, "labels": {"k": "v"}, "baseUrl": "u",
        "slots": [{"labelKey": LABEL, "slotId": "s1"}], "pools": {LABEL: 1}, "lent": {"s9": "1"}, "policy": "recycle",
    },
    "/node/n1/slots": {"slots": [{"labelKey": LABEL, "slotId": "s1"}], "pools": {LABEL: 1}, "lent": {},
        "policy": "reuse"},
    "/node/heartbeat": {"nodeId": "n1", "version": 0, "recycled": ["s1"]},
    "/node/heartbeats": {"beats": [{"nodeId": "n1"}]},
    "/session/borrow": {
        "labelKey": LABEL, "ttlSeconds": 60, "runName": "x", "runId": "r", "priority": 1, "maxWaitSeconds": 1,
    },
    "/session/return": {"labelKey": LABEL, "browserId": "s1", "leaseToken": "1"},
    "/session/renew": {"browserId": "s1", "leaseToken": "1", "ttlSeconds": 60},
    "/results/browser/s1/test": {"testId": "t", "runId": "r"},
    "/admin/sweep": {"dryRun": True},
    "/admin/sweeper": {"expire": None},
    "/admin/brake/release": {"by": "ann"},
    "/admin/nodes/n1/drain": {"deadlineSeconds": 60},
}  # fmt: skip
WRONG = [
    "null", "true", "7", "-1", "0.5", "1e308", "-1e308", "9" * 400, "18446744073709551616", '""', '" "', '"x"',
    '"\\u0000"', '"a\\u0000b"', '"\\ud83d\\ude00"', '"\\u202e"', "[]", "[null]", "[[]]", "[7]", "{}", '{"":""}',
    '{"a":{}}',
    '{"labelKey":null}', '[{"labelKey":7,"slotId":7}]', '["\\u0000"]', '"' + "x" * 5000 + '"',
    '"' + "a:" * 10_000 + '"',
    "[" * 200 + "]" * 200, "[" * 1000 + "]" * 1000, '{"\\u0000:x":1}', '{"gpu:a100":true}', '{"gpu:a100":"1e9"}',
]  # fmt: skip
BROKEN = [
    b"", b" ", b"{", b"}", b"[", b"nul", b"null", b"[]", b"7", b'"text"', b"\xff", b'{"a":1}x', b'{"a":1,}', b"{'a':1}",
    b'{"a":\xff}', b'{"nodeId":"\xc3"}', b'{"nodeId":"\\ud800"}', b'{"nodeId":"\\udc00\\ud800"}',
    b'{"nodeId":"a\x00b"}',
    b"\x00", b"\xef\xbb\xbf{}", b'{"a":NaN}', b'{"a":Infinity}', b'{"a":01}', b"[" * 60_000, b'{"a":' * 10_000,
    "{}".encode("utf-16"),
]  # fmt: skip

EMPTY = {  # what these answer to no body at all
    "/admin/sweep": 200,
    "/admin/brake/release": 409,
    "/admin/nodes/n1/drain": 200,
}
NOTED = {
    "audit:entries",
    "hub:refusals",
    "hub:hubs",
}  # where refused registrations are told, and when a hub was last heard
PUTS = ("/admin/sweeper", "/admin/caps/gpu:a100")


def send(api, path, body):
    method = "PUT" if path in PUTS else "POST"
    return api.request(method, path, content=body, headers={"content-type": "application/json"})


async def check(api, redis, path, body):
    for lasting in ("hub:request:*", "node_alive:*"):  # what lapses by itself would be taken for the work of a refusal
        for key in redis.keys(lasting):
            redis.expire(key, 3600)
    before = picture(redis, own=True)
    answer = await send(api, path, body)
    shown = (path, body[:200], answer.status_code, answer.text[:300])
    assert answer.status_code < 500 or answer.status_code == 503, shown
    if answer.status_code >= 400:
        assert answer.headers["content-type"] == "application/problem+json", shown
        assert answer.json()["status"] == answer.status_code
        after = picture(redis, own=True)
        assert {key: after[key] for key in after if before.get(key) != after[key]}.keys() <= NOTED, shown
        assert {key for key in before if key not in after} <= {"hub:open:2"}, shown
    return answer.status_code


@pytest.mark.parametrize("path", MEMBERS)
async def test_no_value_of_any_member_makes_the_hub_fail_or_store_a_refused_call(api, redis, path):
    await publish(api, "n1", **{LABEL: ["s1", "s2"]})
    await borrow(api, LABEL)
    seen = set()
    for member in MEMBERS[path]:
        rest = {name: value for name, value in MEMBERS[path].items() if name != member}
        for wrong in WRONG:
            body = json.dumps(rest)[:-1] + (", " if rest else "") + f'"{member}":{wrong}}}'
            seen.add(await check(api, redis, path, body.encode()))
    assert 400 in seen
    for look in ("/nodes?detail=1", "/pools", "/sessions", "/diagnostics", "/audit", "/metrics", "/nodes/n1"):
        assert (await api.get(look)).status_code in (200, 404), look


@pytest.mark.parametrize("path", MEMBERS)
async def test_a_body_that_is_no_object_is_refused_and_does_not_make_the_hub_fail(api, redis, path):
    await publish(api, "n1", **{LABEL: ["s1"]})
    for body in BROKEN:
        status = await check(api, redis, path, body)
        expected = 400 if body.strip() else EMPTY.get(path, 400)
        assert status == expected, (path, body[:50])


@pytest.mark.parametrize("body", [b'{"nodeId":"n1","nodeId":"n2"}', b'{"x":{},"nodeId":"n2"}'])
async def test_the_last_of_two_equal_members_counts(api, body):
    await send(api, "/node/register", body)
    assert (await api.get("/nodes")).json() == ["n2"]


ODD_PATHS = [
    "/nodes/%00", "/nodes/%FF", "/nodes/%ED%A0%80", "/nodes/%2e%2e", "/nodes/" + "x" * 600, "/nodes/a%2Fb%3Fc%23d",
    "/pools/%00:a", "/pools/%FF:%FF", "/pools/" + "a:" * 5000 + "b", "/pools/a:b%0d%0aX-Y: z", "/sessions/%00",
    "/sessions/%FF", "/sessions/" + "x" * 5000, "/leases/%00/verify?token=%00", "/leases/%FF/verify?token=%FF",
    "/nodes?detail=1&state=%00", "/nodes?detail=1&cursor=%FF", "/sessions?label=%00&limit=1", "/sessions?run=%FF",
    "/sessions?node=%00", "/sessions?pool=%00", "/pools?offset=%00", "/pools?limit=1&limit=2", "/audit?take=1e9",
    "/audit?skip=%FF",
    "/audit?sinceUtc=%FF", "/audit?sinceUtc=9999-12-31T23:59:59-23:59", "/audit?sinceUtc=0001-01-01T00:00:00%2B23:59",
    "/audit?category=%00", "/%00", "/%FF", "/nodes//", "/api/v1//nodes", "/pools/*:*", "/sessions?=&&==",
    "/autoscale/%00", "/autoscale/a:b?min=x", "/autoscale/a:b?max=-1", "/autoscale/*:*?headroom=",
    "/autoscale/a:b?min=9&max=1", "/nodes/%00/safe-to-kill", "/nodes//safe-to-kill",
]  # fmt: skip


@pytest.mark.parametrize("path", ODD_PATHS, ids=[path[:40] for path in ODD_PATHS])
async def test_no_path_or_query_of_a_read_makes_the_hub_fail(api, redis, path):
    await publish(api, "n1", **{LABEL: ["s1"]})
    before = picture(redis, own=True)
    answer = await api.get(path)
    assert answer.status_code in (200, 400, 404), answer.text
    if answer.status_code != 200:
        assert answer.headers["content-type"] == "application/problem+json"
    assert picture(redis, own=True) == before


ODD_HEADERS = [
    ("x-run-id", b"\xff\xfe"), ("x-run-id", b"x" * 5000), ("correlation-id", "é€".encode()), ("x-run-id", b"a\tb"),
    ("idempotency-key", b"\xff"), ("content-length", b"abc"), ("content-type", b"\xff"), ("accept", b"\xff"),
    ("x-hub-secret", b"\xff\x80"), ("host", b"\xff"), ("content-encoding", b"gzip"), ("x-forwarded-for", b"\xff, , ,"),
    ("forwarded", b"for=;;;"), ("cookie", b"=;=;"), ("range", b"bytes=0-"), ("te", b"chunked"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), ODD_HEADERS, ids=str)
async def test_no_header_makes_a_borrow_fail(api, redis, name, value):
    await publish(api, "n1", **{LABEL: ["s1"]})
    answer = await api.post("/session/borrow", json={"labelKey": LABEL}, headers={name: value})
    assert answer.status_code in (200, 400), answer.text
    assert (answer.status_code == 200) == bool(redis.exists("session:s1"))


@pytest.mark.parametrize("run", ["été", "a b", "\U0001f600", "x" * 200, "a:b*?[]"])
async def test_a_run_id_is_kept_and_answered_as_it_was_sent(api, redis, run):
    await publish(api, "n1", **{LABEL: ["s1"]})
    answer = await api.post("/session/borrow", json={"labelKey": LABEL}, headers={"x-run-id": run.encode()})
    assert answer.status_code == 200, answer.text
    assert dict(answer.headers.raw)[b"correlation-id"] == run.encode()
    assert redis.get("browser_run:s1") == run
    assert (await api.get("/sessions", params={"run": run})).json()["total"] == 1
