"""Spill-over: a ticket that waits for longer than its realm allows is served by another realm, once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from hub.api.dispatch.realms import Realms
from hub.capacity.models import BorrowRequest, Elsewhere
from hub.capacity.spilling import FIRST_MS
from hub.core import Hub
from hub.errors import LeaseOver
from tests.realms.world import EU, offer, write_realms
from tests.world import RedisServer, age_lease, eventually

IN_EU, IN_US = {"x-hub-realm": "eu"}, {"x-hub-realm": "us"}
Act = Callable[[], Awaitable[None]]
LABEL = "gpu:a100:eu"  # of eu, by its rule


@pytest.fixture
def realms_file(tmp_path: Path, second: RedisServer) -> Path:
    """`eu` spills over to `us` at once, and `us` nowhere."""
    spilling = {**EU, "spill_to": ["us"], "spill_after_s": 0}
    return write_realms(tmp_path / "realms.toml", eu=(second.url, spilling), us=(second.url, {}))


@pytest.fixture
async def api(make_realms: Callable[..., Any]) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a hub that serves the default realm, `eu` and `us`."""
    async with make_realms(borrow_queue_timeout_s=20) as client:
        yield client


def hub_of(api: httpx.AsyncClient, realm: str) -> Hub:
    """Return the hub object of a realm."""
    realms: Realms = api.realms  # type: ignore[attr-defined]
    serving = realms.parts[realm].serving
    assert serving
    return serving.hub


async def ask(api: httpx.AsyncClient, key: str = "", **more: Any) -> httpx.Response:
    """Return a borrow that waits in eu, by the rule of its label."""
    body = {"labelKey": LABEL, "ttlSeconds": 60, "runId": "r1", "maxWaitSeconds": 20, **more}
    return await api.post("/session/borrow", json=body, headers={"idempotency-key": key} if key else {})


async def lent(api: httpx.AsyncClient, realm: str) -> list[str]:
    """Return the lent slots of a realm."""
    answer = await api.get("/sessions", headers={"x-hub-realm": realm})
    return sorted(each["browserId"] for each in answer.json()["sessions"])


async def is_lent(api: httpx.AsyncClient, realm: str, *slots: str) -> bool:
    await hub_of(api, realm).store.pay_debts()  # as with every tick of the hub clock, which stands still here
    return await lent(api, realm) == list(slots)


async def is_waiting(api: httpx.AsyncClient, number: int) -> bool:
    return bool((await api.get("/queue", headers=IN_EU)).json()["waiting"] == number)


async def events(api: httpx.AsyncClient, realm: str, what: str) -> list[dict[str, Any]]:
    answer = await api.get("/history", headers={"x-hub-realm": realm})
    return [each for each in answer.json()["events"] if each["event"] == what]


async def test_a_ticket_that_waits_too_long_is_served_by_the_other_realm(api):
    await offer(api, "n1", LABEL, "s1", headers=IN_US)
    answer = await ask(api)
    assert answer.status_code == 200, answer.text
    said = answer.json()
    assert (said["browserId"], said["realm"], said["labelKey"], said["runId"]) == ("s1", "us", LABEL, "r1")
    assert 50 < said["ttlSeconds"] <= 60
    assert (await lent(api, "us"), await lent(api, "eu")) == (["s1"], [])
    (session,) = (await api.get("/sessions", headers=IN_US)).json()["sessions"]
    assert session["secondsLeft"] > 50  # a lease as was asked for, and not that of the first seconds
    assert await is_waiting(api, 0)


async def test_the_other_realm_serves_a_ticket_as_it_wants_and_under_the_label_that_it_can(api):
    slots = [
        {"labelKey": LABEL, "slotId": name, "attributes": {"vram": vram}} for name, vram in (("s1", 24), ("s2", 80))
    ]
    made = await api.post("/node/register", json={"nodeId": "n1", "slots": slots}, headers=IN_US)
    assert made.status_code == 200, made.text
    wish = {
        "labelKey": None,
        "anyOf": [{"label": LABEL, "where": "vram == 7"}, {"label": "gpu", "where": "vram >= 40"}],
    }
    said = (await ask(api, "k", **wish)).json()
    assert (said["browserId"], said["realm"], said["labelKey"]) == ("s2", "us", "gpu")
    again = (await ask(api, "k", **wish)).json()
    assert (again["browserId"], again["labelKey"]) == ("s2", "gpu")


async def test_a_slot_that_is_free_at_home_is_lent_at_home(api):
    await offer(api, "n1", LABEL, "s1", headers=IN_US)
    await offer(api, "n2", LABEL, "s2", headers=IN_EU)
    said = (await ask(api)).json()
    assert (said["browserId"], "realm" in said) == ("s2", False)
    assert await lent(api, "us") == []


async def test_a_realm_without_the_rule_spills_over_only_for_callers_who_ask(api):
    await offer(api, "n1", "gpu:a", "s1", headers=IN_EU)
    body = {"labelKey": "gpu:a", "maxWaitSeconds": 1}
    assert (await api.post("/session/borrow", json=body, headers=IN_US)).json()["code"] == "timeout"
    assert (await api.post("/session/borrow", json={**body, "realms": ["us"]})).json()["code"] == "timeout"
    said = (await api.post("/session/borrow", json={**body, "realms": ["us", "eu"], "maxWaitSeconds": 20})).json()
    assert (said["browserId"], said["realm"]) == ("s1", "eu")
    assert [each["label"] for each in await events(api, "us", "ticket.elsewhere")] == ["gpu:a"]


async def test_the_default_realm_can_spill_over_by_the_file_as_well(make_realms, tmp_path, second):
    spilling = '\n[[realms]]\nname = "default"\nspill_to = ["us"]\nspill_after_s = 0\n'
    file = write_realms(tmp_path / "both.toml", us=(second.url, {}))
    file.write_text(file.read_text() + spilling)
    async with make_realms(realms_file=file, borrow_queue_timeout_s=20) as api:
        await offer(api, "n1", "gpu:a", "s1", headers=IN_US)
        said = (await api.post("/session/borrow", json={"labelKey": "gpu:a", "maxWaitSeconds": 20})).json()
        assert (said["browserId"], said["realm"]) == ("s1", "us")
        default, us = (await api.get("/realms")).json()["realms"]
        assert (default["name"], default["spillTo"], default["spillAfterSeconds"]) == ("default", ["us"], 0)
        assert (us["spillTo"], us["spillAfterSeconds"]) == ([], None)


async def test_the_first_realm_that_a_borrow_names_is_its_home(api):
    await offer(api, "n1", LABEL, "s1", headers=IN_US)
    await offer(api, "n2", LABEL, "s2", headers=IN_EU)
    said = (await ask(api, realms=["us", "eu"])).json()
    assert (said["browserId"], "realm" in said) == ("s1", False)
    answer = await api.post(
        "/realms/us/session/borrow", json={"labelKey": LABEL, "realms": ["eu"], "maxWaitSeconds": 20}
    )
    assert (answer.json()["browserId"], answer.json()["realm"]) == ("s2", "eu")


@pytest.mark.parametrize(
    ("realms", "status", "code"),
    [
        (["eu", "mars"], 404, "unknown-realm"),
        (["mars"], 404, "unknown-realm"),
        ("eu", 400, "invalid-value"),
        (["eu", 7], 400, "invalid-value"),
        (["eu", "EU"], 400, "invalid-value"),
        (["eu"] * 9, 400, "invalid-value"),
        ([{}], 400, "invalid-value"),
    ],
)
async def test_impossible_lists_of_realms_are_refused(api, realms, status, code):
    answer = await ask(api, realms=realms)
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text


async def test_a_hub_without_realms_accepts_its_own_realm_alone(make_api):
    async with make_api() as api:
        answer = await api.post("/session/borrow", json={"labelKey": LABEL, "realms": ["default"], "maxWaitSeconds": 0})
        assert answer.status_code == 503, answer.text
        answer = await api.post("/session/borrow", json={"labelKey": LABEL, "realms": ["eu"]})
        assert (answer.status_code, answer.json()["code"]) == (404, "unknown-realm")


async def test_a_key_gets_the_same_lease_in_every_realm_it_is_asked_in(api, make_realms):
    await offer(api, "n1", LABEL, "s1", "s2", headers=IN_US)
    first = (await ask(api, "k1")).json()
    async with make_realms(borrow_queue_timeout_s=20) as another:
        again = [each.json() for each in (await ask(api, "k1"), await ask(another, "k1"))]
    assert {(each["browserId"], each["leaseToken"], each["realm"]) for each in (first, *again)} == {
        (first["browserId"], first["leaseToken"], "us")
    }
    assert len(await lent(api, "us")) == 1
    assert (await ask(api, "k1", ttlSeconds=90)).json()["code"] == "key-reused"


async def test_concurrent_calls_with_one_key_get_one_lease(api, make_realms):
    await offer(api, "n1", LABEL, *(f"s{number}" for number in range(8)), headers=IN_US)
    async with make_realms(borrow_queue_timeout_s=20) as another:
        answers = await asyncio.gather(*(ask(each, "k1") for each in [api, another] * 4))
        assert {answer.status_code for answer in answers} == {200}
        assert len({answer.json()["leaseToken"] for answer in answers}) == 1
        slot = answers[0].json()["browserId"]

        async def is_one() -> bool:
            return any([await is_lent(each, "us", slot) for each in (api, another)])

        await eventually(is_one)


async def test_a_client_without_knowledge_of_realms_can_return_renew_and_verify_the_lease_of_another_realm(api):
    await offer(api, "n1", LABEL, "s1", headers=IN_US)
    for path in ("", "/realms/eu"):
        said = (await ask(api)).json()
        slot, token = said["browserId"], said["leaseToken"]
        renewed = await api.post(
            f"{path}/session/renew", json={"browserId": slot, "leaseToken": token, "ttlSeconds": 90}
        )
        assert (renewed.status_code, 80 < renewed.json()["ttlSeconds"] <= 90) == (200, True), renewed.text
        verified = (await api.get(f"{path}/leases/{slot}/verify", params={"token": token})).json()
        assert verified["valid"], verified
        back = {"labelKey": LABEL, "browserId": slot, "leaseToken": token}
        assert (await api.post(f"{path}/session/return", json=back)).json() == {"returned": slot}
        assert await lent(api, "us") == []
        assert (await api.post(f"{path}/session/return", json=back)).json()["note"] == "already returned"
        gone = await api.post(f"{path}/session/renew", json={"browserId": slot, "leaseToken": token})
        assert (gone.status_code, gone.json()["code"]) == (409, "grant-over")
    without_token = {"labelKey": LABEL, "browserId": (await ask(api)).json()["browserId"]}
    assert "note" not in (await api.post("/session/return", json=without_token)).json()


@pytest.mark.parametrize("path", ["", "/realms/eu"])
async def test_a_client_can_watch_its_leases_of_two_realms_in_one_call(api, path, second):
    await offer(api, "n1", LABEL, "s1", headers=IN_US)
    await offer(api, "n2", LABEL, "s2", headers=IN_EU)
    here, there = (await ask(api)).json(), (await ask(api)).json()
    held = [{"browserId": each["browserId"], "leaseToken": each["leaseToken"]} for each in (there, here)]
    nothing = await api.post(f"{path}/leases/watch", json={"leases": held, "waitSeconds": 0})
    assert nothing.json() == {"over": []}
    waiting = asyncio.ensure_future(api.post(f"{path}/leases/watch", json={"leases": held, "waitSeconds": 20}))
    notice = hub_of(api, "us").store.keys.revoked_notice("s1")

    async def listens() -> bool:
        return bool(second.client().pubsub_numsub(notice)[0][1])

    await eventually(listens)  # one that comes after the end cannot know in which realm it was lent
    revoked = {"labelKey": LABEL, "browserId": "s1", "revoke": True}
    assert (await api.post("/session/return", json=revoked, headers=IN_US)).status_code == 200
    assert [each["browserId"] for each in (await waiting).json()["over"]] == ["s1"]


async def test_a_ticket_served_by_another_realm_names_it(api):
    await offer(api, "n1", LABEL, "s1", headers=IN_US)
    said = (await ask(api, "k1")).json()
    look = (await api.get("/queue/k1", headers=IN_EU)).json()
    assert (look["state"], look["browserId"], look["realm"], look["leaseToken"]) == (
        "granted", "s1", "us", said["leaseToken"],
    )  # fmt: skip
    waited = (await api.get("/queue/k1", headers={**IN_EU, "prefer": "wait=1"})).json()
    assert (waited["browserId"], waited["labelKey"]) == ("s1", LABEL)
    cancelled = await api.delete("/queue/k1", headers=IN_EU)
    assert (cancelled.json()["code"], cancelled.json()["browserId"]) == ("ticket-granted", "s1")
    (event,) = await events(api, "eu", "ticket.elsewhere")
    assert (event["slot"], event["realm"], "spill_after_s" in event["rule"]) == ("s1", "us", True)
    why = (await api.get("/why/ticket/k1", headers=IN_EU)).json()
    assert (why["state"], "realm us" in why["because"]) == ("elsewhere", True), why
    assert 'hub_tickets_served_elsewhere_total{realm="eu",to="us"}' in (await api.get("/metrics")).text.replace(
        'to="us",realm="eu"', 'realm="eu",to="us"'
    )
    back = {"labelKey": LABEL, "browserId": "s1", "leaseToken": said["leaseToken"]}
    assert (await api.post("/session/return", json=back)).json() == {"returned": "s1"}
    over = (await api.get("/queue/k1", headers=IN_EU)).json()
    assert over.get("code") == "grant-over", over
    assert (await ask(api, "k1")).json()["code"] == "grant-over"


class Interrupted:
    """A script of home that something happens before or after, once."""

    def __init__(
        self, api: httpx.AsyncClient, name: str, *, before: Act | None = None, after: Act | None = None
    ) -> None:
        self._spilling = hub_of(api, "eu").leases.spilling
        self._script = getattr(self._spilling, name)
        self._before, self._after = before, after
        self.calls = 0
        setattr(self._spilling, name, self)

    async def __call__(self, **named: Any) -> Any:
        self.calls += 1
        if self.calls == 1 and self._before:
            await self._before()
        answer = await self._script(**named)
        if self.calls == 1 and self._after:
            await self._after()
        return answer


async def test_a_lease_granted_at_home_meanwhile_wins_and_the_other_is_undone(api):
    await offer(api, "n1", LABEL, "s1", headers=IN_US)

    async def home_has_one() -> None:
        assert await lent(api, "us") == ["s1"]
        await offer(api, "n2", LABEL, "s2", headers=IN_EU)

    noted = Interrupted(api, "_serve_elsewhere", before=home_has_one)
    said = (await ask(api, "k1")).json()
    assert (said["browserId"], "realm" in said, noted.calls) == ("s2", False, 1)
    await eventually(lambda: is_lent(api, "us"))
    assert await lent(api, "eu") == ["s2"]


async def test_a_ticket_given_up_meanwhile_is_not_served_by_another_realm(api):
    await offer(api, "n1", LABEL, "s1", headers=IN_US)

    async def give_up() -> None:
        assert (await api.delete("/queue/k1", headers=IN_EU)).status_code == 200

    Interrupted(api, "_serve_elsewhere", before=give_up)
    assert (await ask(api, "k1")).json()["code"] == "withdrawn"
    await eventually(lambda: is_lent(api, "us"))


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_call_interrupted_while_the_ticket_is_marked_leaves_one_lease_for_its_key(api, make_realms, when):
    """The call is cancelled, as by a hang-up; its key keeps its place in the queue."""
    await offer(api, "n1", LABEL, "s1", headers=IN_US)
    calling: list[asyncio.Future[httpx.Response]] = []

    async def hang_up() -> None:
        calling[0].cancel()
        await asyncio.wait(calling)

    Interrupted(api, "_serve_elsewhere", **{when: hang_up})
    calling.append(asyncio.ensure_future(ask(api, "k1")))
    await asyncio.wait(calling)
    assert calling[0].cancelled()
    async with make_realms(borrow_queue_timeout_s=20) as another:
        said = (await ask(another, "k1")).json()
        assert (said.get("browserId"), said.get("realm")) == ("s1", "us"), said
        await eventually(lambda: is_lent(api, "us", "s1"))
        valid = await another.get("/leases/s1/verify", params={"token": said["leaseToken"]})
        assert valid.json()["valid"]


async def test_a_hub_that_dies_after_marking_the_ticket_leaves_the_lease_to_the_next_call(api, make_realms):
    await offer(api, "n1", LABEL, "s1", headers=IN_US)
    spilling = hub_of(api, "eu").leases.spilling
    noted = asyncio.Event()

    async def never(*_: Any) -> None:
        noted.set()
        await asyncio.Event().wait()

    spilling.fetch = never  # type: ignore[assignment]
    calling = asyncio.ensure_future(ask(api, "k1"))
    await asyncio.wait_for(noted.wait(), 20)
    (session,) = (await api.get("/sessions", headers=IN_US)).json()["sessions"]
    assert session["secondsLeft"] < 15  # not confirmed yet
    async with make_realms(borrow_queue_timeout_s=20) as another:
        said = (await ask(another, "k1")).json()
        assert (said["browserId"], said["realm"], said["ttlSeconds"] > 50) == ("s1", "us", True)
        spilling.take_back_soon = lambda *_: None  # type: ignore[method-assign]  # it is dead
        calling.cancel()
        await asyncio.wait([calling])
    assert await lent(api, "us") == ["s1"]


async def test_when_the_caller_hangs_up_the_other_realms_lease_is_undone_and_its_key_keeps_its_place(api):
    await offer(api, "n1", LABEL, "s1", headers=IN_US)
    leases = hub_of(api, "eu").leases
    first = BorrowRequest(LABEL, 60_000, "r1", "key-1", "a1", "f", 600, True, wait_ms=20_000, elsewhere=("us",))
    lease = await leases.borrow(first)
    assert (lease.slot, lease.realm) == ("s1", "us")
    second = first._replace(attempt="a2")
    assert (await leases.borrow(second)).token == lease.token
    await leases.undo(first, lease)
    assert (await leases.borrow(first._replace(attempt="a3"))).token == lease.token  # the second has it still
    for each in (second, first._replace(attempt="a3")):
        await leases.undo(each, lease)
    await eventually(lambda: is_lent(api, "us"))
    again = await leases.borrow(first._replace(attempt="a4"))
    assert (again.slot, int(again.token) > int(lease.token)) == ("s1", True)


async def test_a_lease_of_another_realm_that_was_never_confirmed_lapses(api, make_realms):
    await offer(api, "n1", LABEL, "s1", headers=IN_US)
    us = hub_of(api, "us")
    trial = BorrowRequest(LABEL, FIRST_MS, "r1", "key-1@eu.1", "key-1@eu.1", "f", 60)
    lease = await us.leases.borrow(trial)
    assert lease.left_ms == FIRST_MS
    await age_lease(us, "s1")
    assert await us.leases.lapse(["s1"]) == ["lapsed"]
    gone = BorrowRequest(LABEL, 60_000, "r1", "key-1", "a1", "f", 600)
    with pytest.raises(LeaseOver):
        await us.leases.confirm(gone, Elsewhere("us", trial.request, "s1", lease.token))
