"""The tables of the page on matching are as the hub has it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any

import httpx
import orjson
import pytest

from hub.capacity import attributes, where
from tests.manual.pages import MANUAL
from tests.world import eventually

PAGE = (MANUAL / "matching.md").read_text()
SLOT = {"vram": 40, "model": "A100", "mig": False, "features": ["nvlink"]}
WORDS = {"true": True, "false": False, "unknown": None}
MEANT = [
    (text.replace("\\|", "|"), word) for text, word in re.findall(r"(?m)^\| `(.+)` \| (true|false|unknown) \|$", PAGE)
]
SERVED = re.findall(r"(?m)^\| (a: .+) \| `vram` (\d+) \| (.+) \|$", PAGE)


def test_the_page_has_both_tables():
    assert len(MEANT) >= 12
    assert {word for _, word in MEANT} == set(WORDS)
    assert len(SERVED) == 3


@pytest.mark.parametrize(("text", "word"), MEANT)
def test_an_expression_means_what_the_page_says(text, word):
    assert where.suits(orjson.loads(where.parse(text).tree), SLOT) is WORDS[word]


def test_the_page_names_the_limits_of_the_language():
    for limit in (where.LENGTH_MAX, where.COMPARISONS_MAX, where.MEMBERS_MAX, where.DEPTH_MAX):
        assert re.search(rf"\b{limit:,}\b", PAGE)
    for limit in (attributes.NAMES_MAX, attributes.NAME_MAX, attributes.WARM_MAX):
        assert re.search(rf"\b{limit}\b", PAGE)
    assert f"{attributes.BYTES_MAX // 1024} kB" in PAGE


@pytest.fixture
async def patient(make_api) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a hub where a borrow waits in the queue for up to 30 s."""
    async with make_api(borrow_queue_timeout_s=30) as api:
        yield api


@pytest.mark.parametrize(("waiters", "vram", "to"), SERVED)
async def test_a_slot_goes_to_the_waiter_that_the_page_names(patient, waiters, vram, to):
    async def waits(many: int) -> bool:
        return bool((await patient.get("/queue")).json()["waiting"] == many)

    calls: dict[str, asyncio.Task[httpx.Response]] = {}
    for name, label, text in re.findall(r"(\w): `([\w:]+)(?: where (.+?))?`", waiters):
        wish: dict[str, Any] = {"label": label, "runId": name, **({"where": text} if text else {})}
        calls[name] = asyncio.create_task(patient.post("/session/borrow", json=wish))
        await eventually(lambda: waits(len(calls)))
    slot = {"label": "gpu:lab", "slotId": "s1", "attributes": {"vram": int(vram)}}
    (await patient.post("/node/register", json={"nodeId": "n1", "slots": [slot]})).raise_for_status()
    if to.startswith("no one"):
        assert (await patient.get("/pools/gpu:lab")).json()["available"] == 1
    else:
        assert (await calls[to]).json()["browserId"] == "s1"
    assert [name for name, call in calls.items() if call.done()] == [to] * (to in calls)
    for call in calls.values():
        call.cancel()
    await asyncio.gather(*calls.values(), return_exceptions=True)
