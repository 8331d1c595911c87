"""Borrowers with tokens of their own: what such a token may do, and that no other caller ends what it holds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from hub.api.capacity import leases
from hub.observability import metrics
from tests.world import eventually

SECRETS = {f"{role}_secret": f"{role}-secret-of-the-test" for role in ("runner", "node", "admin")}
RUNNER, NODE, ADMIN = ({"x-hub-secret": secret} for secret in SECRETS.values())
LABEL = "gpu:a100"
WISHES: dict[str, dict[str, Any]] = {
    "ada": {"user": "ada", "scopes": ["borrow"], "team": "ml", "labels": ["gpu:*"], "maxPriority": 10},
    "ada again": {"user": "ada", "scopes": ["borrow"], "team": "ml"},
    "bob": {"user": "bob", "scopes": ["borrow"], "team": "web"},
    "reader": {"user": "eve", "scopes": ["read"]},
    "all": {"user": "eve"},
    "root": {"user": "root", "superuser": True},
}


class People:
    """A hub with two slots of one node, and callers with every credential."""

    def __init__(self, api: httpx.AsyncClient) -> None:
        self.api = api
        self.shown: dict[str, dict[str, str]] = {"runner": RUNNER, "node": NODE, "admin": ADMIN}

    async def begin(self) -> None:
        for name, wish in WISHES.items():
            made = await self.api.post("/admin/tokens", json=wish, headers=ADMIN)
            assert made.status_code == 201, made.text
            self.shown[name] = {"authorization": f"Bearer {made.json()['token']}"}
        slots = [{"labelKey": LABEL, "slotId": "s1"}, {"labelKey": "cpu:big", "slotId": "c1"}]
        body = {"nodeId": "n1", "policy": "reuse", "slots": slots}
        assert (await self.api.post("/node/register", json=body, headers=NODE)).status_code == 200

    async def post(self, who: str, path: str, body: dict[str, Any], **headers: str) -> httpx.Response:
        return await self.api.post(path, json=body, headers={**self.shown[who], **headers}, timeout=30)

    async def borrow(self, who: str, label: str = LABEL, key: str = "", **body: Any) -> httpx.Response:
        headers = {"idempotency-key": key} if key else {}
        return await self.post(who, "/session/borrow", {"labelKey": label, "maxWaitSeconds": 0, **body}, **headers)

    async def lease(self, who: str, **body: Any) -> dict[str, Any]:
        answer = await self.borrow(who, **body)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    async def give_back(self, who: str, lease: dict[str, Any], **body: Any) -> httpx.Response:
        asked = {"browserId": lease["browserId"], "labelKey": LABEL, "leaseToken": lease["leaseToken"], **body}
        return await self.post(who, "/session/return", asked)

    async def session(self, slot: str = "s1") -> dict[str, Any]:
        found: dict[str, Any] = (await self.api.get(f"/sessions/{slot}", headers=ADMIN)).json()
        return {name: value for name, value in found.items() if name != "secondsLeft"}


@pytest.fixture
async def people(make_api) -> AsyncIterator[People]:
    async with make_api(**SECRETS, borrow_queue_timeout_s=30) as api:
        found = People(api)
        await found.begin()
        yield found


def refused(answer: httpx.Response, code: str) -> dict[str, Any]:
    document: dict[str, Any] = answer.json()
    assert (answer.status_code, document.get("code")) == (403, code), answer.text
    return document


async def test_a_lease_names_its_holder_in_every_answer(people):
    lent = await people.lease("ada", name="ada@laptop:pytest", runName="nightly")
    holder = {"user": "ada", "team": "ml", "name": "ada@laptop:pytest", "client": "127.0.0.1"}
    assert (lent["holder"], lent["runName"]) == (holder, "nightly")
    shown = await people.session()
    assert (shown["holder"], shown["runName"]) == (holder, "nightly")
    listed = (await people.api.get("/sessions", headers=people.shown["ada"])).json()["sessions"]
    assert [each["holder"] for each in listed] == [holder]
    events = (await people.api.get("/history", params={"slot": "s1"}, headers=ADMIN)).json()["events"]
    lent_event = next(each for each in events if each["event"] == "grant.lent")
    assert {name: lent_event[name] for name in ("user", "team", "name")} == {
        "user": "ada", "team": "ml", "name": "ada@laptop:pytest",
    }  # fmt: skip
    assert (await people.give_back("ada", lent)).status_code == 200
    events = (await people.api.get("/history", params={"slot": "s1"}, headers=ADMIN)).json()["events"]
    over = next(each for each in events if each["event"] == "grant.returned")
    assert (over["user"], over["team"], over["name"]) == ("ada", "ml", "ada@laptop:pytest")


async def test_a_lease_of_a_shared_secret_has_a_name_and_no_user(people):
    lent = await people.lease("runner", runName="nightly")
    assert lent["holder"] == {"user": None, "team": None, "name": "nightly", "client": "127.0.0.1"}
    assert (await people.give_back("runner", lent)).status_code == 200
    nameless = await people.lease("admin")
    assert nameless["holder"]["name"] == "127.0.0.1"


@pytest.mark.parametrize("name", ["x" * 201, "a\nb", "\u0000"])
async def test_a_name_that_cannot_be_shown_is_refused(people, name):
    answer = await people.borrow("ada", name=name)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid-value"), answer.text


async def test_another_token_of_the_same_user_is_the_same_holder(people):
    lent = await people.lease("ada")
    renewed = await people.post("ada again", "/session/renew", _of(lent))
    assert renewed.status_code == 200, renewed.text
    assert (await people.give_back("ada again", lent)).json() == {"returned": "s1"}


@pytest.mark.parametrize("who", ["bob", "runner", "admin", "all", "root"])
async def test_no_other_caller_renews_or_returns_a_lease_of_a_user(people, who):
    lent, before = await people.lease("ada", name="ada-1"), await people.session()
    for token in (lent["leaseToken"], ""):
        for more in ({}, {"revoke": True}, {"force": True}, {"onlyRun": True, "runId": lent["runId"]}):
            told = refused(await people.give_back(who, {**lent, "leaseToken": token}, **more), "not-holder")
            assert told["holder"]["user"] == "ada"
            assert told["sinceUtc"] == before["borrowedAtUtc"]
            assert "ada-1" in told["detail"]
        refused(await people.post(who, "/session/renew", {**_of(lent), "leaseToken": token}), "not-holder")
    assert await people.session() == before
    assert (await people.post("ada", "/session/renew", _of(lent))).status_code == 200


async def test_a_user_does_not_end_what_a_shared_secret_holds(people):
    lent = await people.lease("runner")
    refused(await people.give_back("ada", lent), "not-holder")
    refused(await people.post("ada", "/session/renew", _of(lent)), "not-holder")
    assert (await people.give_back("admin", lent)).json() == {"returned": "s1"}


@pytest.mark.parametrize("who", ["admin", "root"])
async def test_an_operator_with_a_reason_ends_any_lease_and_the_holder_is_told_who_and_why(people, who):
    lent = await people.lease("ada")
    watching = asyncio.create_task(people.post("ada", "/leases/watch", {"leases": [_of(lent)], "waitSeconds": 20}))
    ended = await people.give_back(who, lent, revoke=True, reason="the rack is on fire")
    assert ended.json() == {"returned": "s1", "runId": lent["runId"]}
    (over,) = (await watching).json()["over"]
    by = "root" if who == "root" else "127.0.0.1"
    assert over["because"] == f"an operator ended it: the rack is on fire ({by})"
    lost = await people.post("ada", "/session/renew", _of(lent))
    assert lost.status_code == 409
    assert "the rack is on fire" in lost.text


async def test_others_do_not_cut_the_grace_of_a_holder_short(people):
    lent = await people.lease("ada")
    assert (await people.give_back("admin", lent, revoke=True, reason="fire")).status_code == 200
    await people.give_back("bob", lent)
    assert (await people.borrow("bob")).status_code == 503
    assert (await people.give_back("ada", lent)).status_code == 200  # it has stopped
    assert (await people.borrow("bob")).status_code == 200


async def test_the_reason_of_a_caller_that_is_no_operator_ends_no_lease(people):
    lent = await people.lease("ada")
    for who in ("runner", "bob", "all"):
        refused(await people.give_back(who, lent, force=True, reason="mine now"), "not-holder")


async def test_the_node_of_a_slot_ends_the_lease_of_a_user(people):
    lent = await people.lease("ada")
    assert (await people.give_back("node", lent)).json() == {"returned": "s1"}


async def test_the_key_of_a_user_is_of_no_use_to_others(people):
    lent = await people.lease("ada", key="k1")
    assert (await people.borrow("ada", key="k1")).json()["leaseToken"] == lent["leaseToken"]
    for who in ("bob", "runner", "admin"):
        answer = await people.borrow(who, key="k1", runId=lent["runId"])
        assert (answer.status_code, answer.json()["code"]) == (422, "key-reused"), answer.text
        refused(await people.api.get("/queue/k1", headers=people.shown[who]), "not-holder")
    found = await people.api.get("/queue/k1", headers=people.shown["ada again"])
    assert found.json()["leaseToken"] == lent["leaseToken"]


async def test_a_ticket_is_attended_and_given_up_by_its_holder_alone(people):
    lent = await people.lease("bob")
    waiting = asyncio.create_task(people.borrow("ada", key="k2", maxWaitSeconds=30, name="ada-2"))

    async def in_line() -> bool:
        return (await people.api.get("/queue/k2", headers=RUNNER)).json().get("state") == "waiting"

    await eventually(in_line)
    (queue,) = (await people.api.get("/queue", headers=people.shown["bob"])).json()["labels"]
    assert [ticket["holder"]["name"] for ticket in queue["tickets"]] == ["ada-2"]
    for who in ("bob", "runner", "admin", "root"):
        told = refused(await people.api.delete("/queue/k2", headers=people.shown[who]), "not-holder")
        assert told["holder"]["user"] == "ada"
        attended = await people.api.get("/queue/k2", headers={**people.shown[who], "prefer": "wait=1"})
        refused(attended, "not-holder")
    assert await in_line()
    assert (await people.api.delete("/queue/k2", headers=people.shown["ada again"])).json() == {"cancelled": True}
    assert (await waiting).json()["code"] == "withdrawn"
    assert (await people.give_back("bob", lent)).status_code == 200


async def test_an_operator_with_a_reason_gives_up_any_ticket(people):
    await people.lease("bob")
    waiting = asyncio.create_task(people.borrow("ada", key="k3", maxWaitSeconds=30))

    async def in_line() -> bool:
        return (await people.api.get("/queue/k3", headers=RUNNER)).json().get("state") == "waiting"

    await eventually(in_line)
    answer = await people.api.delete("/queue/k3", params={"reason": "stuck"}, headers=ADMIN)
    assert answer.json() == {"cancelled": True}
    assert (await waiting).json()["code"] == "withdrawn"
    audit = (await people.api.get("/audit", headers=ADMIN, params={"category": "session"})).json()
    assert [each["details"]["reason"] for each in audit if each["action"] == "ticket.cancel"] == ["stuck"], audit


@pytest.mark.parametrize("way", ["borrow", "borrow with a key", "attend"])
@pytest.mark.parametrize("revoked", [True, False])
async def test_a_wait_with_a_token_that_is_revoked_meanwhile_leaves_no_lease(people, monkeypatch, way, revoked):
    monkeypatch.setattr(leases, "RECHECK_S", 0)
    held = await people.lease("bob")
    made = (await people.api.post("/admin/tokens", json={"user": "ann", "scopes": ["borrow"]}, headers=ADMIN)).json()
    people.shown["ann"] = {"authorization": f"Bearer {made['token']}"}
    if way == "attend":
        assert (await people.borrow("ann", key="k4", maxWaitSeconds=0.1)).status_code == 503
        call = people.api.get("/queue/k4", headers={**people.shown["ann"], "prefer": "wait=30"}, timeout=30)
    else:
        call = people.borrow("ann", key="" if way == "borrow" else "k4", maxWaitSeconds=30)
    waiting = asyncio.create_task(call)

    async def in_line() -> bool:
        queue = (await people.api.get("/queue", headers=RUNNER)).json()
        return (queue["waiting"], queue["away"]) == (1, 0)

    await eventually(in_line)
    if revoked:
        gone = await people.api.delete(f"/admin/tokens/{made['id']}", headers=ADMIN)
        assert gone.status_code in (200, 204), gone.text
    assert (await people.give_back("bob", held)).status_code == 200
    answer = await waiting
    assert answer.status_code == (401 if revoked else 200), answer.text
    listed = (await people.api.get("/sessions", headers=RUNNER)).json()["sessions"]
    assert [each["holder"]["user"] for each in listed] == ([] if revoked else ["ann"])
    assert (await people.borrow("bob")).status_code == (200 if revoked else 503)


@pytest.mark.parametrize(
    ("label", "allowed"),
    [("gpu:a100", True), ("gpu:a100:80g", True), ("cpu:big", False), ("cpu:*", False), ("*:a100", False)],
)
async def test_a_label_that_no_pattern_covers_is_refused_before_the_queue_and_counts_nothing(people, label, allowed):
    before = _borrows()
    answer = await people.borrow("ada", label)
    if allowed:
        assert answer.status_code == 200, answer.text
    else:
        assert "gpu:*" in refused(answer, "label")["detail"]
        assert _borrows() == before
        assert (await people.api.get("/queue", headers=RUNNER)).json()["waiting"] == 0


async def test_a_priority_above_what_the_token_allows_is_refused_and_not_clipped(people):
    assert "at most 10" in refused(await people.borrow("ada", priority=11), "priority")["detail"]
    assert (await people.borrow("ada", priority=10)).status_code == 200
    assert (await people.borrow("bob", "cpu:big", priority=100)).status_code == 200
    counted = (await people.api.get("/usage?by=label&since=0d", headers=people.shown["runner"])).json()["usage"]
    assert {row["name"]: row["refusals"] for row in counted} == {LABEL: 1, "cpu:big": 0}


async def test_a_token_without_the_scope_borrows_nothing(people):
    told = await people.borrow("reader")
    assert told.status_code == 403
    assert "borrow" in told.json()["detail"]
    assert (await people.borrow("all")).status_code == 200


async def test_a_borrower_reads_pools_nodes_and_the_queue_and_commands_nothing(people):
    for path in ("/pools", f"/pools/{LABEL}", "/nodes?detail=1", "/nodes/n1", "/queue", "/sessions", "/why/slot/s1"):
        answer = await people.api.get(path, headers=people.shown["bob"])
        assert answer.status_code == 200, (path, answer.text)
    for path in ("/admin/tokens", "/audit", "/history", "/admin/caps", "/why/task/1"):
        assert (await people.api.get(path, headers=people.shown["bob"])).status_code in (401, 403), path
    drained = await people.post("bob", "/admin/nodes/n1/drain", {})
    assert drained.status_code in (401, 403)


async def test_an_expired_token_is_refused_like_a_revoked_one(people):
    made = await people.api.post("/admin/tokens", json={"user": "ann", "expiresInDays": 0.00001}, headers=ADMIN)
    document = made.json()
    assert document["validUntilUtc"] > document["createdAtUtc"]
    people.shown["ann"] = {"authorization": f"Bearer {document['token']}"}

    async def is_over() -> bool:
        return (await people.borrow("ann")).status_code == 401

    await eventually(is_over)
    shown = await people.api.get(f"/admin/tokens/{document['id']}", headers=ADMIN)
    assert shown.json()["validUntilUtc"] == document["validUntilUtc"]


@pytest.mark.parametrize(
    "body",
    [
        {"labels": []}, {"labels": ["gpu:"]}, {"labels": "gpu:*"}, {"labels": ["a b"]}, {"team": ""}, {"team": 1},
        {"maxPriority": 101}, {"maxPriority": "1"}, {"expiresInDays": -1}, {"expiresInDays": "soon"},
        {"scopes": ["lend"]},
    ],
)  # fmt: skip
async def test_terms_that_a_token_cannot_have_are_refused(people, body):
    answer = await people.api.post("/admin/tokens", json={"user": "ann", **body}, headers=ADMIN)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid-value"), answer.text


def _of(lease: dict[str, Any]) -> dict[str, Any]:
    return {"browserId": lease["browserId"], "leaseToken": lease["leaseToken"]}


def _borrows() -> dict[tuple[str, ...], float]:
    samples = [sample for family in metrics.borrow_outcomes.collect() for sample in family.samples]
    return {tuple(sorted(sample.labels.items())): sample.value for sample in samples if sample.value}
