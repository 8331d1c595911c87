"""`hub why` of tickets that say what they need, and of slots that do not suit them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from hub.capacity.attributes import PoolClass
from hub.capacity.where import parse
from hub.history.wants import SHOWN, _by_class
from tests.world import borrow, eventually

T4, A100 = {"vram": 24, "model": "T4"}, {"vram": 40, "model": "A100"}


@pytest.fixture
async def patient(make_api) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a hub where a borrow waits in the queue for up to 30 s."""
    async with make_api(borrow_queue_timeout_s=30) as api:
        yield api


async def offer(api: httpx.AsyncClient, node: str, label: str, *attributes: dict[str, Any] | None, **more: Any) -> None:
    """Publish a slot for each of these attributes: NODE-0, NODE-1, ..."""
    slots = [{"label": label, "slotId": f"{node}-{n}", "attributes": each, **more} for n, each in enumerate(attributes)]
    slots = [{name: value for name, value in slot.items() if value is not None} for slot in slots]
    answer = await api.post("/node/register", json={"nodeId": node, "slots": slots})
    assert answer.status_code == 200, answer.text


async def why(api: httpx.AsyncClient, kind: str, name: str) -> dict[str, Any]:
    answer = await api.get(f"/why/{kind}/{name}")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


@asynccontextmanager
async def waiting(api: httpx.AsyncClient, key: str, **wish: Any) -> AsyncIterator[str]:
    """A borrow that waits under a key."""
    call = asyncio.create_task(api.post("/session/borrow", json=wish, headers={"idempotency-key": key}))

    async def stands() -> bool:
        return call.done() or (await api.get(f"/why/ticket/{key}")).status_code == 200

    await eventually(stands)
    assert not call.done(), call.result().text
    yield key
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)


async def test_why_names_the_clause_that_no_slot_satisfies(patient):
    await offer(patient, "n1", "gpu:lab", T4, T4, A100)
    async with waiting(patient, "big", label="gpu:lab", where='model == "A100" && vram >= 80') as key:
        found = await why(patient, "ticket", key)
    assert "; vram >= 80: the 3 slots of gpu:lab with attributes have 24 or 40." in found["because"]
    assert found["facts"]["wants"] == ['gpu:lab where model == "A100" && vram >= 80']
    assert found["facts"]["verdicts"] == [
        'model == "A100": 2 slots of gpu:lab have "T4"',
        "vram >= 80: 1 slot of gpu:lab has 40",
    ]


async def test_why_names_the_attribute_that_no_slot_has(patient):
    await offer(patient, "n1", "gpu:lab", T4)
    async with waiting(patient, "zone", label="gpu:lab", where='zone == "eu"') as key:
        found = await why(patient, "ticket", key)
    assert "no slot of gpu:lab has `zone`" in found["because"]
    assert found["facts"]["verdicts"] == ['zone == "eu": 1 slot of gpu:lab has no zone']


async def test_why_says_how_many_slots_suit_when_all_of_them_are_lent(patient):
    await offer(patient, "n1", "gpu:lab", A100, T4)
    await borrow(patient, "gpu:lab", where="vram >= 40")
    async with waiting(patient, "next", label="gpu:lab", where="vram >= 40") as key:
        found = await why(patient, "ticket", key)
    assert "1 of 2 slots suit gpu:lab where vram >= 40, none of them free." in found["because"]
    assert sorted(found["facts"]["verdicts"]) == [
        "vram >= 40: 1 slot of gpu:lab has 24",
        "vram >= 40: 1 slot of gpu:lab suits",
    ]
    assert found["next"][0]["rule"].startswith("When a slot that suits it becomes free: labels take turns")


async def test_why_counts_the_position_among_those_that_want_the_same(patient):
    await offer(patient, "n1", "gpu:lab", T4)
    wish = {"label": "gpu:lab", "where": "vram >= 40"}
    async with (
        waiting(patient, "other", label="gpu:lab", where="vram >= 80"),
        waiting(patient, "first", **wish),
        waiting(patient, "second", **wish),
    ):
        first, second = await why(patient, "ticket", "first"), await why(patient, "ticket", "second")
    assert (first["facts"]["position"], second["facts"]["position"]) == (1, 2)
    assert second["facts"]["waitingUnderLabel"] == 3
    assert "It is the first in the queue of those that want the same, of 3 that wait under gpu:lab" in first["because"]
    assert "1 wait before it of those that want the same" in second["because"]


async def test_why_has_a_verdict_on_each_alternative_of_a_ticket(patient):
    await offer(patient, "n1", "gpu:lab", T4)
    await offer(patient, "n2", "cpu:lab", None)
    await borrow(patient, "cpu:lab")
    wish = {"anyOf": [{"label": "gpu:lab", "where": "vram >= 80"}, {"label": "cpu:lab"}, {"label": "tpu:lab"}]}
    async with waiting(patient, "any", **wish) as key:
        found = await why(patient, "ticket", key)
    assert found["facts"]["wants"] == ["gpu:lab where vram >= 80", "cpu:lab", "tpu:lab"]
    assert found["because"].partition("; ")[2] == (
        "vram >= 80: the slot of gpu:lab with attributes has 24; no slot that cpu:lab may use is free; "
        "no pool serves tpu:lab; did you mean gpu:lab?."
    )


async def test_why_names_the_cap_that_keeps_a_ticket_with_a_want_waiting(patient):
    await offer(patient, "n1", "gpu:lab", A100, A100)
    await patient.put("/admin/caps/gpu:lab", json={"cap": 1})
    await borrow(patient, "gpu:lab", where="vram >= 40")
    async with waiting(patient, "capped", label="gpu:lab", where="vram >= 40") as key:
        found = await why(patient, "ticket", key)
    assert "1 of 1 leases that the cap of gpu:lab allows are live." in found["because"]


async def test_why_of_a_free_slot_says_which_tickets_it_does_not_suit(patient):
    await offer(patient, "n1", "gpu:lab", T4, warm=["repo-42"])
    await offer(patient, "n2", "gpu:lab", None)
    async with (
        waiting(patient, "a", label="gpu:lab", where="vram >= 80"),
        waiting(patient, "b", label="gpu", where="vram >= 80"),
        waiting(patient, "c", label="gpu", where="vram >= 80"),
        waiting(patient, "d", label="cpu", where="vram >= 80"),
    ):
        found, plain = await why(patient, "slot", "n1-0"), await why(patient, "slot", "n2-0")
    assert (found["state"], found["facts"]["attributes"], found["facts"]["warm"]) == ("free", T4, ["repo-42"])
    assert found["facts"]["doesNotSuit"] == [
        "2 wait for gpu where vram >= 80: vram >= 80 fails",
        "1 waits for gpu:lab where vram >= 80: vram >= 80 fails",
    ]
    assert "does not suit tickets that wait: 2 wait for gpu where vram >= 80" in found["because"]
    assert plain["facts"]["doesNotSuit"][0] == "2 wait for gpu where vram >= 80: it has no attributes"
    assert "attributes" not in plain["facts"]


async def test_why_of_a_free_slot_beside_nobody_is_as_before(patient):
    await offer(patient, "n1", "gpu:lab", T4)
    found = await why(patient, "slot", "n1-0")
    assert "no ticket waits for it" in found["because"]
    assert "doesNotSuit" not in found["facts"]


def test_verdicts_of_very_many_classes_are_cut_and_the_rest_is_counted():
    found = [PoolClass("gpu:lab", {"vram": n}, n + 1, 0) for n in range(SHOWN + 3)]
    lines = _by_class(parse("vram >= 80"), found)
    assert lines[0] == f"vram >= 80: {SHOWN + 3} slots of gpu:lab have {SHOWN + 2}"
    assert (len(lines), lines[-1]) == (SHOWN + 1, "and 3 more")


def test_classes_that_differ_in_other_attributes_are_one_verdict():
    found = [PoolClass("gpu:lab", {"vram": 24, "rack": n}, 2, 1) for n in range(3)]
    assert _by_class(parse("vram >= 80"), found) == ["vram >= 80: 6 slots of gpu:lab have 24"]
    assert _by_class(parse("vram >= 80 || zone == 'eu'"), found[:1]) == [
        "vram >= 80 || zone == 'eu': 2 slots of gpu:lab have vram 24 and no zone"
    ]
