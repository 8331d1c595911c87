"""A call comes to the realm that it names, or that a rule names, and to no other."""

from __future__ import annotations

from uuid import UUID

import orjson
import pytest
from pydantic import SecretStr

from tests.realms.world import nodes_of, offer, write_realms
from tests.world import borrow


async def test_realms_share_no_keys_and_do_not_see_each_other(api, redis, second):
    await offer(api, "n1", "gpu:a", "s1")
    await offer(api, "n1", "gpu:a", "s2", headers={"x-hub-realm": "eu"})
    assert await nodes_of(api, "eu") == await nodes_of(api, "default") == {"n1"}
    assert (await borrow(api, "gpu:a")).json()["browserId"] == "s1"
    answer = await api.post("/realms/eu/session/borrow", json={"labelKey": "gpu:a"})
    assert answer.json()["browserId"] == "s2"
    with second.client() as other:
        assert {key.partition("}:")[0] for key in other.keys("*")} == {"{eu", "{us"}
    assert [key for key in redis.keys("*") if key.startswith("{")] == []


async def test_a_call_names_its_realm_by_path_or_header(api):
    await offer(api, "n1", "gpu:a", "s1", headers={"x-hub-realm": "us"})
    assert (await api.get("/realms/us/nodes/n1")).status_code == 200
    assert (await api.get("/realms/us/api/v1/nodes/n1")).status_code == 200
    assert (await api.get("/nodes/n1", headers={"x-hub-realm": "us"})).status_code == 200
    assert (await api.get("/realms/us/nodes/n1", headers={"x-hub-realm": "eu"})).status_code == 200  # the path first
    assert (await api.get("/realms/eu/nodes/n1")).status_code == 404
    assert (await api.get("/nodes/n1")).status_code == 404
    assert (await api.get("/realms/default/nodes/n1")).status_code == 404


@pytest.mark.parametrize("name", ["eu2", "EU", "", "a" * 4000, "%00", "%2e%2e"])
async def test_an_unserved_realm_is_refused_with_the_names_of_the_served_ones(api, name):
    answer = await api.get(f"/realms/{name}/nodes")
    assert (answer.status_code, answer.json()["code"]) == (404, "unknown-realm")
    assert answer.json()["detail"].endswith("it serves default, eu, us.")
    assert len(answer.content) < 500


async def test_a_rule_decides_the_realm_of_a_call_that_names_none(api):
    await offer(api, "eu-1", "gpu:a:eu", "s1")
    await offer(api, "n1", "gpu:a:us", "s2")
    assert (await nodes_of(api, "eu"), await nodes_of(api, "default")) == ({"eu-1"}, {"n1"})
    assert (await api.get("/nodes/eu-1")).status_code == 200
    assert (await api.get("/pools/gpu:a:eu")).json()["label"] == "gpu:a:eu"
    assert (await borrow(api, " gpu : a:eu ")).json()["browserId"] == "s1"
    assert (await borrow(api, "gpu:a:us")).json()["browserId"] == "s2"


async def test_the_jobs_of_a_room_are_in_the_realm_of_the_room(api):
    room = "/v1/joblib/rooms/lab-eu-1"
    job = {"category": "modifiers", "name": "Rotate", "schema": {}}
    worker = (await api.put(f"{room}/jobs", json=job)).json()["worker_id"]
    task = (await api.post(f"{room}/tasks/lab-eu-1:modifiers:Rotate", json={"payload": {}})).json()["id"]
    seen = await api.get(f"/realms/eu/v1/joblib/tasks/{task}")
    assert seen.status_code == 200, seen.text
    assert (await api.get(f"/realms/us/v1/joblib/tasks/{task}")).status_code == 404
    claimed = await api.post("/v1/joblib/tasks/claim", json={"worker_id": worker, "limit": 1})
    assert claimed.json()["task"]["id"] == task


async def test_ids_made_by_a_hub_lead_back_to_their_realm(api):
    job = {"category": "modifiers", "name": "Rotate", "schema": {}}
    us = {"x-hub-realm": "us"}
    worker = (await api.put("/v1/joblib/rooms/lab/jobs", json=job, headers=us)).json()["worker_id"]
    at = "/v1/joblib/rooms/lab/tasks/lab:modifiers:Rotate"
    ids = [(await api.post(at, json={"payload": {}}, headers=us)).json()["id"] for _ in range(2)]
    keyed = {**us, "idempotency-key": "k1"}
    ids.append((await api.post(at, json={"payload": {}}, headers=keyed)).json()["id"])
    assert {UUID(each).version for each in [worker, *ids]} == {8}
    # From here on no call names a realm.
    assert (await api.patch(f"/v1/joblib/workers/{worker}")).status_code == 200
    body = {"workerId": worker, "limit": 3, "start": True}
    assert {each["id"] for each in (await api.post("/v1/joblib/tasks/claim", json=body)).json()["tasks"]} == set(ids)
    progress = {"worker_id": worker, "tasks": [{"id": ids[0], "progress": 0.5}]}
    assert (await api.post("/v1/joblib/tasks/progress", json=progress)).status_code == 200
    assert (await api.patch(f"/v1/joblib/tasks/{ids[0]}", json={"status": "completed"})).status_code == 200
    assert (await api.get(f"/v1/joblib/tasks/{ids[0].replace('-', '')}")).json()["status"] == "completed"
    large = {"worker_id": worker, "limit": 0, "results": [{"id": ids[1], "status": "failed", "error": "e" * 200_000}]}
    reported = await api.post("/v1/joblib/tasks/claim", content=orjson.dumps(dict(reversed(large.items()))))
    assert reported.json()["results"] == [{"id": ids[1], "outcome": "ok"}]
    assert (await api.get(f"/why/task/{ids[2]}")).status_code == 200
    second = {**job, "name": "Other", "worker_id": worker}
    assert (await api.put("/v1/joblib/rooms/lab/jobs", json=second)).status_code == 201
    assert (await api.delete(f"/v1/joblib/workers/{worker}")).is_success


JOB = {"category": "modifiers", "name": "Rotate", "schema": {}}
ROOMS = "/v1/joblib/rooms"


async def new_worker(api, **headers: str) -> str:
    answer = await api.post("/v1/joblib/workers", headers=headers)
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


async def test_a_worker_made_in_another_realm_is_replaced_by_one_in_the_realm_of_the_room(api):
    for kind in ("jobs", "providers"):
        made = await new_worker(api)
        answer = await api.put(f"{ROOMS}/lab-eu-1/{kind}", json={**JOB, "worker_id": made})
        assert answer.status_code == 201, answer.text
        worker = answer.json()["worker_id"]
        assert (UUID(made).version, UUID(worker).version) == (4, 8)
        assert (await api.patch(f"/realms/eu/v1/joblib/workers/{worker}")).status_code == 200
        again = await api.put(f"{ROOMS}/lab-eu-1/{kind}", json={**JOB, "name": "Scale", "worker_id": worker})
        assert (again.status_code, again.json()["worker_id"]) == (201, worker)


async def test_a_worker_that_serves_a_job_is_not_replaced_by_one_in_another_realm(api):
    made = await new_worker(api)
    assert (await api.put(f"{ROOMS}/lab/providers", json={**JOB, "worker_id": made})).status_code == 201
    refused = await api.put(f"{ROOMS}/lab-eu-1/jobs", json={**JOB, "worker_id": made})
    assert (refused.status_code, refused.json()["title"]) == (404, "Not Found")
    assert f"Worker {made} serves what is in realm default, and this is of realm eu" in refused.json()["detail"]
    there = (await api.put(f"{ROOMS}/lab-eu-1/jobs", json=JOB)).json()["worker_id"]
    body = {**JOB, "worker_id": there}
    named = await api.put(f"{ROOMS}/lab/jobs", json=body, headers={"x-hub-realm": "us"})
    assert (named.status_code, f"Worker {there} is not known" in named.json()["detail"]) == (404, True)


async def test_a_worker_registers_nothing_in_a_room_that_no_rule_leads_to_its_realm(make_realms, tmp_path, second):
    """Its job would be in the realm of the worker, and tasks for the room in that of the room."""
    rules = {"eu": (second.url, {"rooms": ["lab-eu*"]}), "us": (second.url, {"rooms": ["lab-us*"]})}
    async with make_realms(realms_file=write_realms(tmp_path / "rules.toml", **rules), realms=("eu", "us")) as api:
        made = await new_worker(api)  # where there is no default realm in the first that is there
        worker = (await api.put(f"{ROOMS}/lab-us-1/jobs", json={**JOB, "worker_id": made})).json()["worker_id"]
        task = await api.post(f"{ROOMS}/lab-us-1/tasks/lab-us-1:modifiers:Rotate", json={"payload": {}})
        claimed = await api.post("/v1/joblib/tasks/claim", json={"worker_id": worker, "limit": 1})
        assert claimed.json()["task"]["id"] == task.json()["id"]
        refused = await api.put(f"{ROOMS}/lab-eu-1/jobs", json={**JOB, "worker_id": worker})
        assert (refused.status_code, "serves what is in realm us" in refused.json()["detail"]) == (404, True)
        everywhere = await api.put(f"{ROOMS}/@global/jobs", json={**JOB, "worker_id": worker})
        assert everywhere.json()["worker_id"] == worker


async def test_no_worker_is_made_in_place_of_the_worker_of_another_user(make_realms, tmp_path):
    lines = (f'[[tokens]]\ntoken = "token-of-{user}-here"\nuser = "{user}"\n' for user in ("ann", "bob"))
    (tmp_path / "tokens.toml").write_text("\n".join(lines))
    async with make_realms(tokens_file=tmp_path / "tokens.toml", admin_secret=SecretStr("a" * 16)) as api:
        ann, bob = ({"authorization": f"Bearer token-of-{user}-here"} for user in ("ann", "bob"))
        body = {**JOB, "worker_id": await new_worker(api, **ann)}
        refused = await api.put(f"{ROOMS}/lab-eu-1/jobs", json=body, headers=bob)
        assert (refused.status_code, "is not known" in refused.json()["detail"]) == (404, True)
        assert (await api.put(f"{ROOMS}/lab-eu-1/jobs", json=body, headers=ann)).status_code == 201


async def test_ids_of_the_default_realm_have_no_mark_of_a_realm(api):
    job = {"category": "modifiers", "name": "Rotate", "schema": {}}
    worker = (await api.put("/v1/joblib/rooms/lab/jobs", json=job)).json()["worker_id"]
    task = (await api.post("/v1/joblib/rooms/lab/tasks/lab:modifiers:Rotate", json={"payload": {}})).json()["id"]
    assert {UUID(worker).version, UUID(task).version} == {4}


async def test_a_holder_can_renew_and_return_a_slot_without_naming_its_realm(api):
    await offer(api, "eu-1", "gpu:a:eu", "s1")
    await offer(api, "n1", "gpu:a:us", "s2")
    lease = (await borrow(api, "gpu:a:eu")).json()
    held = {"browserId": "s1", "leaseToken": lease["leaseToken"]}
    assert (await api.post("/session/renew", json=held)).status_code == 200
    assert (await api.post("/session/renew", json={"browserId": "s1"})).status_code == 200
    assert (await api.get("/leases/s1/verify", params={"token": lease["leaseToken"]})).json()["valid"]
    watched = await api.post("/leases/watch", json={"leases": [held], "waitSeconds": 0})
    assert watched.json() == {"over": []}
    assert (await api.get("/sessions/s1")).json()["nodeId"] == "eu-1"
    assert (await api.post("/results/browser/s1/test", json={"testId": "t1"})).status_code == 200
    back = await api.post("/session/return", json={"labelKey": "gpu:a:eu", **held})
    assert back.json() == {"returned": "s1"}
    over = await api.post("/session/renew", json=held)
    assert over.json()["code"] in ("grant-over", "unavailable")  # a store that is new cannot tell what it has lost


async def test_a_bundle_leads_to_its_realm(api):
    await offer(api, "eu-1", "gpu:a:eu", "s1", "s2")
    lent = await api.post("/bundles", json={"parts": [{"label": "gpu:a:eu", "count": 2}]})
    assert len(lent.json()["slots"]) == 2, lent.text
    path = f"/bundles/{lent.json()['bundle']}"
    assert [row["slotId"] for row in (await api.post(f"{path}/renew")).json()["slots"]] == ["s1", "s2"]
    unknown = ("grant-over", "settling", "unavailable")  # a store that is new cannot tell what it has lost
    assert (await api.post("/bundles/b1/renew")).json()["code"] in unknown
    for text in ("b", "b-1", "bé%00", "1875000000000000001"):
        assert (await api.post(f"/bundles/{text}/renew")).json()["code"] == "not-found"
    assert (await api.post(f"{path}/return")).json()["returned"] == ["s1", "s2"]
    assert (await api.post(f"{path}/renew")).json()["code"] in unknown


async def test_a_body_in_neutral_names_leads_to_its_realm(api):
    await offer(api, "eu-1", "gpu:a:eu", "s1")
    lent = (await api.post("/session/borrow", json={"label": "gpu:a:eu"})).json()
    held = {"slotId": "s1", "lease": {"token": lent["leaseToken"]}}
    assert (await api.post("/session/renew", json=held)).json()["leaseToken"] == lent["leaseToken"]
    assert (await api.post("/leases/watch", json={"leases": [held], "waitSeconds": 0})).json() == {"over": []}
    differs = await api.post("/session/borrow", json={"label": "gpu:a:eu", "labelKey": "gpu:a"})
    assert (differs.status_code, differs.json()["code"]) == (422, "names-differ")
    assert (await api.post("/session/return", json={"label": "gpu:a:eu", **held})).json() == {"returned": "s1"}


async def test_of_two_slots_with_one_id_the_token_decides_which_is_meant(api):
    for realm in ("eu", "us"):
        await offer(api, "n1", "gpu:a", "s1", headers={"x-hub-realm": realm})
    for realm in ("us", "eu"):
        lease = (await api.post(f"/realms/{realm}/session/borrow", json={"labelKey": "gpu:a"})).json()
        held = {"browserId": "s1", "leaseToken": lease["leaseToken"]}
        assert (await api.post("/session/renew", json=held)).json()["leaseToken"] == lease["leaseToken"]
        assert (await api.get("/leases/s1/verify", params={"token": lease["leaseToken"]})).json()["valid"]
    refused = await api.post("/session/renew", json={"browserId": "s1"})
    assert refused.status_code == 400
    assert "s1 is lent in the realms eu, us" in refused.json()["detail"]


async def test_a_ticket_leads_to_its_realm(make_realms):
    async with make_realms(borrow_queue_timeout_s=1.0) as api:
        await offer(api, "eu-1", "gpu:a:eu", "s1")
        keyed = {"idempotency-key": "mine"}
        await api.post("/session/borrow", json={"labelKey": "gpu:a:eu"}, headers=keyed)
        assert (await api.get("/queue/mine")).json()["state"] == "granted"
        refused = (await borrow(api, "gpu:a:eu")).json()
        assert refused["ticket"].startswith("try-eu.")
        assert (await api.get("/queue/try-eu.nobody")).json()["code"] == "unknown-ticket"
        assert (await api.get("/queue/nobody")).json()["code"] == "unknown-ticket"


async def test_a_token_made_in_a_realm_leads_to_it(make_realms):
    async with make_realms(
        admin_secret=SecretStr("a" * 16), runner_secret=SecretStr("r" * 16), node_secret=SecretStr("n" * 16)
    ) as api:
        admin = {"x-hub-secret": "a" * 16}
        made = await api.post("/realms/us/admin/tokens", json={"user": "ann", "superuser": True}, headers=admin)
        token = made.json()["token"]
        assert token.startswith("hub_us.")
        mine = {"authorization": f"Bearer {token}"}
        worker = (await api.post("/v1/joblib/workers", headers=mine)).json()["id"]
        listed = await api.get("/realms/us/v1/joblib/workers", headers=mine)
        assert [each["id"] for each in listed.json()["items"]] == [worker]
        assert (await api.post("/realms/eu/v1/joblib/workers", headers=mine)).status_code == 401


async def test_a_stranger_makes_no_hub_look_into_its_realms(make_realms):
    secrets = {f"{role}_secret": SecretStr(role * 5) for role in ("admin", "runner", "node")}
    async with make_realms(**secrets) as api:
        node, runner = {"x-hub-secret": "node" * 5}, {"x-hub-secret": "runner" * 5}
        for realm in ("eu", "us"):
            await offer(api, "n1", "gpu:a", "s1", headers={**node, "x-hub-realm": realm})
            borrowed = await api.post(f"/realms/{realm}/session/borrow", json={"labelKey": "gpu:a"}, headers=runner)
            assert borrowed.status_code == 200
        body = {"browserId": "s1"}
        assert (await api.post("/session/renew", json=body, headers=runner)).status_code == 400
        for shown in ({}, {"x-hub-secret": "wrong"}):
            refused = await api.post("/session/renew", json=body, headers=shown)
            assert (refused.status_code, refused.json()["code"]) == (401, "unauthorized")


async def test_heartbeats_of_one_call_must_belong_to_one_realm(api):
    await offer(api, "eu-1", "gpu:a:eu", "s1")
    both = await api.post("/node/heartbeats", json={"beats": [{"nodeId": "eu-1"}, {"nodeId": "n1"}]})
    assert (both.status_code, both.json()["code"]) == (400, "bad-request")
    one = await api.post("/node/heartbeats", json={"beats": [{"nodeId": "eu-1", "version": 0}]})
    assert one.json()["beats"][0]["known"], one.text


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"null", b'{"labelKey": {}}', b'{"labelKey": 1}', b"\xff"])
async def test_an_empty_body_is_refused_as_it_is_without_realms(api, body):
    answer = await api.post("/session/borrow", content=body)
    assert answer.status_code == 400
    watch = await api.post("/leases/watch", content=body)
    assert watch.status_code == 400


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([("x-hub-realm", "eu"), ("x-hub-realm", "us")], (404, "unknown-realm")),
        ([("x-hub-realm", "eu"), ("x-hub-realm", "eu")], (200, None)),
        ([("x-hub-realm", "../us")], (404, "unknown-realm")),
        ([("x-hub-realm", "eu,us")], (404, "unknown-realm")),
        ([("x-hub-realm", "\xff\xfe" * 400)], (404, "unknown-realm")),
        ([("x-hub-realm", "default")], (200, None)),
        ([("x-hub-realm", "")], (200, None)),
    ],
)
async def test_a_header_with_several_or_unknown_realms_is_refused(api, headers, status):
    sent = [(name.encode(), value.encode("latin-1")) for name, value in headers]
    answer = await api.get("/nodes", headers=sent)
    assert (answer.status_code, answer.json()["code"] if answer.status_code != 200 else None) == status
    assert len(answer.content) < 1000


async def test_a_token_of_one_realm_is_refused_in_every_other(make_realms):
    secrets = {f"{role}_secret": SecretStr(role * 5) for role in ("admin", "runner", "node")}
    async with make_realms(**secrets) as api:
        admin = {"x-hub-secret": "admin" * 5}
        made = await api.post("/realms/us/admin/tokens", json={"user": "ann", "superuser": True}, headers=admin)
        mine = {"authorization": f"Bearer {made.json()['token']}"}
        assert (await api.post("/v1/joblib/workers", headers=mine)).status_code == 201
        for path, more in (("/realms/eu", {}), ("", {"x-hub-realm": "eu"}), ("/realms/default", {})):
            refused = await api.post(f"{path}/v1/joblib/workers", headers={**mine, **more})
            assert refused.status_code == 401, (path, more)
        renamed = {"authorization": mine["authorization"].replace("hub_us.", "hub_eu.")}
        assert (await api.post("/v1/joblib/workers", headers=renamed)).status_code == 401


async def test_an_id_of_a_realm_that_was_removed_is_unknown_and_the_refusal_says_so(make_realms, tmp_path, second):
    async with make_realms() as api:
        worker = (await api.post("/realms/us/v1/joblib/workers")).json()["id"]
    left = write_realms(tmp_path / "left.toml", eu=(second.url, {}))
    async with make_realms(realms_file=left) as api:
        gone = await api.patch(f"/v1/joblib/workers/{worker}")
        assert (gone.status_code, "is not known" in gone.json()["detail"]) == (404, True)
        registered = await api.put(f"{ROOMS}/lab/jobs", json={**JOB, "worker_id": worker})
        assert (registered.status_code, "is not known" in registered.json()["detail"]) == (404, True)
        ticket = await api.get("/queue/try-us.1234")
        assert (ticket.status_code, ticket.json()["detail"]) == (
            404, "This hub serves no realm 'us'; it serves default, eu.",
        )  # fmt: skip
        assert (await api.get("/leases/s1/verify", params={"token": "7"})).json()["valid"] is False


@pytest.mark.parametrize("said", [{"NodeId": "eu-9"}, {"nodeId": " eu-9 "}], ids=str)
async def test_a_node_reaches_its_realm_in_every_spelling_of_its_id(api, said):
    (await api.post("/node/register", json=said)).raise_for_status()
    assert (await nodes_of(api, "eu"), await nodes_of(api, "default")) == ({"eu-9"}, set())
    (await api.post("/node/heartbeat", json=said)).raise_for_status()
    (answer,) = (await api.post("/node/heartbeats", json={"beats": [said]})).json()["beats"]
    assert "error" not in answer, answer


@pytest.mark.parametrize("query", ["token=%ff", "token=%C3%A9", "runId=%ff", "token=\u00e9"])
async def test_a_query_beyond_ascii_causes_no_error(api, query):
    for path in ("/leases/x/verify", "/sessions/x", "/why/slot/x"):
        answer = await api.get(f"{path}?{query}")
        assert answer.status_code < 500, (path, answer.text)
    assert (await api.post(f"/results/browser/x/test?{query}", json={})).status_code < 500


@pytest.mark.parametrize("node", [[], {}, None, [["eu-1"]]], ids=str)
async def test_an_invalid_heartbeat_is_refused_and_the_one_beside_it_is_accepted(api, node):
    (await api.post("/node/register", json={"nodeId": "eu-1"})).raise_for_status()
    answer = await api.post("/node/heartbeats", json={"beats": [{"nodeId": node}, {"nodeId": "eu-1"}]})
    assert answer.status_code == 200, answer.text
    assert ["error" in each for each in answer.json()["beats"]] == [True, False]


async def test_an_error_before_the_realm_is_found_is_a_problem_document_too(api, monkeypatch):
    def broken(*_):
        raise RuntimeError("broken")

    monkeypatch.setattr("hub.api.dispatch.realms.name_in", broken)
    answer = await api.get("/nodes")
    assert (answer.status_code, answer.headers["content-type"]) == (500, "application/problem+json")


async def test_a_rule_for_every_label_leads_no_call_about_the_hub_itself_into_its_realm(make_realms, tmp_path, second):
    rules = write_realms(tmp_path / "rules.toml", eu=(second.url, {"labels": ["*"]}))
    async with make_realms(realms_file=rules, realms=("default",)) as api:
        for path in ("/health/live", "/health/ready", "/metrics", "/realms", "/openapi.json"):
            assert (path, (await api.get(path)).status_code) == (path, 200)
        assert (await borrow(api, "gpu:a")).json()["code"] == "unknown-realm"
        assert (await new_worker(api))[:8]
