"""Tokens of nodes: each speaks for one node and opens nothing else."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from hub.tokens.models import new_secret
from tests.world import PATIENCE_S, HubProcess, beat, eventually, listed, publish

SECRETS = {"runner_secret": "runner-x", "node_secret": "node-x", "admin_secret": "admin-x"}
ADMIN, SHARED = {"x-hub-secret": "admin-x"}, {"x-hub-secret": "node-x"}
LABEL = "gpu:a100"


@pytest.fixture
async def shut(make_api) -> AsyncIterator[httpx.AsyncClient]:
    async with make_api(**SECRETS) as api:
        yield api


async def make(api: httpx.AsyncClient, headers: dict[str, str] = ADMIN, **wanted: Any) -> dict[str, Any]:
    answer = await api.post("/admin/tokens", json=wanted, headers=headers)
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def as_node(api: httpx.AsyncClient, node: str = "rack-7") -> dict[str, str]:
    return {"x-hub-secret": (await make(api, node=node))["token"]}


async def on_offer(api: httpx.AsyncClient, node: str, slot: str, headers: dict[str, str]) -> httpx.Response:
    body = {"nodeId": node, "slots": [{"labelKey": LABEL, "slotId": slot}]}
    return await api.post("/node/register", json=body, headers=headers)


def of(node: str, slot: str) -> list[tuple[str, str, Any]]:
    """Return every call about a node that a node may make of itself."""
    return [
        ("POST", "/node/register", {"nodeId": node}),
        ("POST", f"/node/{node}/slots", {"slots": [{"labelKey": LABEL, "slotId": f"{slot}b"}]}),
        ("POST", "/node/heartbeat", {"nodeId": node}),
        ("GET", f"/nodes/{node}", None),
        ("POST", f"/admin/nodes/{node}/drain", {}),
        ("GET", f"/nodes/{node}/safe-to-kill", None),
        ("POST", f"/admin/nodes/{node}/undrain", {}),
        ("GET", f"/leases/{slot}/verify?token=7", None),
        ("POST", "/session/return", {"labelKey": LABEL, "browserId": slot}),
        ("DELETE", f"/node/{node}/slots/{slot}", None),
        ("DELETE", f"/node/{node}", None),
    ]


@pytest.mark.parametrize("header", ["x-hub-secret", "authorization"])
async def test_a_node_token_may_do_everything_to_its_node_and_nothing_to_another(shut, header):
    mine = (await as_node(shut))["x-hub-secret"]
    shown = {header: mine if header == "x-hub-secret" else f"Bearer {mine}"}
    for node, slot in (("rack-7", "s7"), ("rack-8", "s8")):
        assert (await on_offer(shut, node, slot, SHARED)).status_code == 200
    before = (await shut.get("/nodes/rack-8", headers=ADMIN)).json()
    for (method, path, body), (_, own, own_body) in zip(of("rack-8", "s8"), of("rack-7", "s7"), strict=True):
        refused = await shut.request(method, path, json=body, headers=shown)
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden"), path
        assert "rack-7" in refused.json()["detail"]
        done = await shut.request(method, own, json=own_body, headers=shown)
        assert done.status_code == 200, (own, done.text)
    after = (await shut.get("/nodes/rack-8", headers=ADMIN)).json()
    assert (after["slotList"], after["draining"]) == (before["slotList"], False)


async def test_heartbeats_for_other_nodes_in_one_call_are_refused_one_by_one(shut):
    mine = await as_node(shut)
    for node in ("rack-7", "rack-8"):
        await on_offer(shut, node, f"s-{node}", SHARED)
    beats = {"beats": [{"nodeId": "rack-8"}, {"nodeId": "rack-7"}]}
    other, own = (await shut.post("/node/heartbeats", json=beats, headers=mine)).json()["beats"]
    assert (other["error"]["code"], own["known"]) == ("forbidden", True)


EXTERNAL = [
    ("POST", "/session/borrow"), ("POST", "/session/renew"), ("POST", "/results/browser/s/test"),
    ("GET", "/nodes?detail=1"), ("GET", "/pools"), ("GET", "/pools/a:b"), ("GET", "/sessions"), ("GET", "/history"),
    ("GET", "/events"), ("GET", "/why/node/rack-7"), ("GET", "/queue"), ("GET", "/autoscale/a:b"), ("GET", "/audit"),
    ("DELETE", "/admin/nodes/rack-7"), ("POST", "/admin/nodes/rack-7/sidecar/upgrade"), ("PUT", "/admin/sweeper"),
    ("POST", "/admin/sweep"), ("POST", "/admin/tokens"), ("GET", "/admin/tokens"), ("GET", "/diagnostics"),
    ("POST", "/node/join"), ("POST", "/v1/joblib/workers"), ("PUT", "/v1/joblib/rooms/lab/jobs"),
    ("POST", "/v1/joblib/tasks/claim"), ("GET", "/v1/joblib/dead"),
]  # fmt: skip


@pytest.mark.parametrize("kind", ["node", "join"])
async def test_node_tokens_and_join_tokens_open_no_other_operation(shut, kind):
    secret = (await make(shut, **{kind: "rack-7"}))["token"]
    calls = EXTERNAL if kind == "node" else [*(each for each in EXTERNAL if "join" not in each[1]),
                                              *((m, p) for m, p, _ in of("rack-7", "s7"))]  # fmt: skip
    for headers in ({"x-hub-secret": secret}, {"authorization": f"Bearer {secret}"}):
        for method, path in calls:
            answer = await shut.request(method, path, json={"nodeId": "rack-7"}, headers=headers)
            assert answer.status_code == 401, path


async def test_the_shared_node_secret_speaks_for_any_node_but_may_not_drain(shut):
    await as_node(shut)
    for node in ("rack-7", "rack-8"):
        assert (await on_offer(shut, node, f"s-{node}", SHARED)).status_code == 200
        assert (await shut.post(f"/admin/nodes/{node}/drain", headers=SHARED)).status_code == 401


async def test_a_node_with_a_revoked_token_is_refused_as_a_stranger(shut):
    made = await make(shut, node="rack-7")
    mine = {"x-hub-secret": made["token"]}
    await on_offer(shut, "rack-7", "s7", mine)
    assert (await shut.delete(f"/admin/tokens/{made['id']}", headers=ADMIN)).status_code == 200
    for path, body in (("/node/heartbeat", {"nodeId": "rack-7"}), ("/node/register", {"nodeId": "rack-7"})):
        assert (await shut.post(path, json=body, headers=mine)).status_code == 401


async def test_a_node_that_waits_for_its_orders_is_refused_once_its_token_is_revoked(shut, redis):
    made = await make(shut, node="rack-7")
    mine = {"x-hub-secret": made["token"]}
    await on_offer(shut, "rack-7", "s7", mine)
    since = (await shut.get("/nodes/rack-7/orders", headers=mine)).json()["version"]
    call = shut.get(f"/nodes/rack-7/orders?since={since}", headers={**mine, "prefer": "wait=20"}, timeout=PATIENCE_S)
    waiting = asyncio.create_task(call)
    await eventually(lambda: any("orders" in channel for channel in redis.pubsub_channels()))
    assert (await shut.delete(f"/admin/tokens/{made['id']}", headers=ADMIN)).status_code == 200
    assert (await shut.post("/admin/nodes/rack-7/drain", headers=ADMIN)).status_code == 200
    assert (await waiting).status_code == 401


@pytest.mark.slow
async def test_heartbeats_with_a_node_token_take_the_fast_path(live_hub: HubProcess, redis):
    async with live_hub.client() as admin:
        made = await make(admin, {}, node="rack-7")
        async with live_hub.client("node") as shared:
            await publish(shared, "rack-8", **{LABEL: ["s8"]})
        shown = {"x-hub-secret": made["token"]}
        async with httpx.AsyncClient(base_url=live_hub.url, headers=shown, timeout=PATIENCE_S) as mine:
            await publish(mine, "rack-7", **{LABEL: ["s7"]})
            assert (await beat(mine, "rack-7"))["known"]
            for _ in range(20):
                assert (await beat(mine, "rack-7"))["known"]
            assert (await mine.post("/node/heartbeat", json={"nodeId": "rack-8"})).status_code == 403
            await admin.delete(f"/admin/tokens/{made['id']}")

            async def refused() -> bool:
                return (await mine.post("/node/heartbeat", json={"nodeId": "rack-7"})).status_code == 401

            await eventually(refused)
    assert listed(redis, f"available:{LABEL}") == ["s8", "s7"]


async def join(
    api: httpx.AsyncClient, token: str, node: str = "rack-7", secret: str | None = None, **said: Any
) -> httpx.Response:
    body = {"nodeId": node, "sha256": hashlib.sha256((secret or new_secret()).encode()).hexdigest(), **said}
    return await api.post("/node/join", json=body, headers={"x-hub-secret": token})


async def test_a_node_joins_once_and_its_token_speaks_for_that_node_alone(shut):
    token, secret = (await make(shut, join="fleet"))["token"], new_secret()
    first = await join(shut, token, secret=secret)
    assert (first.status_code, first.json()["nodeId"]) == (201, "rack-7")
    assert (await join(shut, token, secret=secret)).json() == first.json()
    assert (await on_offer(shut, "rack-7", "s7", {"x-hub-secret": secret})).status_code == 200
    assert (await on_offer(shut, "rack-8", "s8", {"x-hub-secret": secret})).status_code == 403
    listed = (await shut.get("/admin/tokens", headers=ADMIN)).json()["tokens"]
    assert [(each["kind"], each["user"]) for each in listed] == [("node", "rack-7"), ("join", "fleet")]
    entry = (await shut.get("/audit?action=join", headers=ADMIN)).json()[0]
    assert (entry["actor"], entry["details"]) == ("rack-7", {"id": first.json()["id"]})


async def test_a_node_id_that_belongs_to_another_token_cannot_be_joined(shut):
    token, other = (await make(shut, join="fleet"))["token"], new_secret()
    await on_offer(shut, "shared", "s1", SHARED)
    await as_node(shut, "given")
    await join(shut, token, "joined", other)
    taken = [("shared", new_secret()), ("given", new_secret()), ("joined", new_secret()), ("new", other)]
    for node, secret in taken:
        refused = await join(shut, token, node, secret)
        assert (refused.status_code, refused.json()["code"]) == (409, "node-taken"), node
        assert node in refused.json()["detail"]


async def test_a_node_with_a_revoked_token_joins_again_only_after_an_operator_allows_it(shut):
    token, secret = (await make(shut, join="fleet"))["token"], new_secret()
    made = (await join(shut, token, secret=secret)).json()
    await shut.delete(f"/admin/tokens/{made['id']}", headers=ADMIN)
    for again in (secret, new_secret()):
        assert (await join(shut, token, secret=again)).status_code == 409
    await as_node(shut)
    assert "token of its own already" in (await join(shut, token)).json()["detail"]


async def test_a_joined_node_that_leaves_keeps_its_token_and_its_id(shut):
    token, secret = (await make(shut, join="fleet"))["token"], new_secret()
    assert (await join(shut, token, secret=secret)).status_code == 201
    mine = {"x-hub-secret": secret}
    for _ in range(2):
        assert (await on_offer(shut, "rack-7", "s7", mine)).status_code == 200
        assert (await shut.delete("/node/rack-7", headers=mine)).status_code == 200
        assert (await join(shut, token)).json()["code"] == "node-taken"


async def test_a_token_that_its_node_does_not_keep_ends_when_the_node_leaves(shut, redis):
    token, secret = (await make(shut, join="fleet"))["token"], new_secret()
    for _ in range(2):
        assert (await join(shut, token, secret=secret, kept=False)).status_code == 201
        mine = {"x-hub-secret": secret}
        await on_offer(shut, "rack-7", "s7", mine)
        assert (await shut.delete("/node/rack-7", headers=mine)).status_code == 200
        assert (await shut.post("/node/heartbeat", json={"nodeId": "rack-7"}, headers=mine)).status_code == 401
        assert not [key for key in redis.keys("hub:*") if "join" in key or "node_tokens" in key]


async def test_a_token_made_by_an_operator_outlives_the_leaving_of_its_node(shut):
    mine = await as_node(shut)
    for _ in range(2):
        assert (await on_offer(shut, "rack-7", "s7", mine)).status_code == 200
        assert (await shut.delete("/node/rack-7", headers=mine)).status_code == 200


async def test_tokens_that_nodes_made_with_a_join_token_are_forgotten_when_unused_for_long(make_api, redis):
    async with make_api(**SECRETS, node_token_s=30 * 86_400.0) as api:
        token = (await make(api, join="fleet"))["token"]
        secrets = {node: new_secret() for node in ("gone", "here")}
        for node, secret in secrets.items():
            await join(api, token, node, secret)
            assert (await on_offer(api, node, f"of-{node}", {"x-hub-secret": secret})).status_code == 200
            assert (await api.delete(f"/node/{node}", headers={"x-hub-secret": secret})).status_code == 200
        redis.hincrby("hub:store", "clock_ms", 29 * 86_400_000)
        await join(api, token, "new")
        assert (await on_offer(api, "here", "s1", {"x-hub-secret": secrets["here"]})).status_code == 200
        redis.hincrby("hub:store", "clock_ms", 2 * 86_400_000)
        await join(api, token, "newer")
        assert (await on_offer(api, "gone", "s2", {"x-hub-secret": secrets["gone"]})).status_code == 401
        assert (await on_offer(api, "here", "s1", {"x-hub-secret": secrets["here"]})).status_code == 200


async def test_each_join_token_may_make_a_bounded_number_of_tokens_that_never_register(shut, redis):
    made = [await make(shut, join=name) for name in ("weak", "strong")]
    weak, strong = (each["token"] for each in made)
    secret = new_secret()
    assert (await join(shut, weak, "ghost", secret)).status_code == 201
    joining = f"hub:joining:{made[0]['id']}"
    redis.zadd(joining, {f"token-{n}": redis.zscore(joining, redis.zrange(joining, 0, 0)[0]) for n in range(999)})
    refused = await join(shut, weak, "one-more")
    assert (refused.status_code, refused.json()["code"]) == (409, "node-taken")
    assert "1000" in refused.json()["detail"]
    assert "fleet" not in refused.json()["detail"]
    assert (await join(shut, strong, "rack-8")).status_code == 201
    assert (await on_offer(shut, "ghost", "s1", {"x-hub-secret": secret})).status_code == 200  # which makes room
    assert (await join(shut, weak, "one-more")).status_code == 201
    redis.hincrby("hub:store", "clock_ms", 3_600_001)
    assert (await join(shut, weak, "later")).status_code == 201
    assert redis.zcard(joining) == 1
    tokens = (await shut.get("/admin/tokens", headers=ADMIN)).json()["tokens"]
    assert {each["user"] for each in tokens} == {"weak", "strong", "ghost", "later"}


@pytest.mark.parametrize("scopes", [None, ["admin"]])
async def test_a_superuser_may_not_make_or_revoke_tokens_of_nodes(shut, scopes):
    root = await make(shut, user="root", superuser=True, scopes=scopes)
    shown = {"authorization": f"Bearer {root['token']}"}
    for wanted in ({"node": "rack-7"}, {"join": "fleet"}):
        refused = await shut.post("/admin/tokens", json=wanted, headers=shown)
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
        made = await make(shut, **wanted)
        assert (await shut.delete(f"/admin/tokens/{made['id']}", headers=shown)).status_code == 403
        assert (await shut.get(f"/admin/tokens/{made['id']}", headers=ADMIN)).status_code == 200
    mine = await make(shut, shown, user="ann")
    assert (await shut.delete(f"/admin/tokens/{mine['id']}", headers=shown)).status_code == 200


WISHES = [
    ({"node": "a", "user": "b"}, "node"), ({"node": "a", "join": "b"}, "join"),
    ({"node": "a", "scopes": ["read"]}, "scopes"),
    ({"join": "a", "superuser": True}, "superuser"), ({"node": "a", "rooms": ["lab"]}, "rooms"), ({"node": ""}, "node"),
    ({"node": " a"}, "node"), ({"node": "x" * 513}, "node"), ({"node": 7}, "node"), ({"join": ""}, "join"),
    ({"user": "a", "rooms": []}, "rooms"), ({"user": "a", "rooms": "lab"}, "rooms"),
    ({"user": "a", "rooms": [""]}, "rooms"),
    ({"user": "a", "rooms": ["a:b"]}, "rooms"), ({"user": "a", "rooms": ["@other"]}, "rooms"),
    ({"user": "a", "rooms": ["r"] * 101}, "rooms"), ({"user": "a", "rooms": [7]}, "rooms"),
]  # fmt: skip


@pytest.mark.parametrize(("wanted", "member"), WISHES, ids=lambda value: str(value)[:40])
async def test_an_impossible_node_token_is_refused_by_the_name_of_the_member(shut, wanted, member):
    answer = await shut.post("/admin/tokens", json=wanted, headers=ADMIN)
    assert (answer.status_code, answer.json()["member"]) == (400, member)


@pytest.mark.parametrize(
    ("body", "member"), [({}, "nodeId"), ({"nodeId": "a"}, "sha256"), ({"nodeId": "a", "sha256": "x"}, "sha256"),
                         ({"nodeId": " ", "sha256": "0" * 64}, "nodeId")],
)  # fmt: skip
async def test_a_refused_join_of_a_node_names_the_member_that_is_missing_or_wrong(shut, body, member):
    token = (await make(shut, join="fleet"))["token"]
    answer = await shut.post("/node/join", json=body, headers={"x-hub-secret": token})
    assert (answer.status_code, answer.json()["member"]) == (400, member)
