"""Large bodies under way: bounded for each caller and for all of them together."""

from __future__ import annotations

import asyncio
import uuid

import pytest

from hub.api.handling import large_bodies
from hub.api.handling.large_bodies import LargeBodies
from hub.errors import Unavailable
from hub.settings import Settings
from tests.api.wires import Wire
from tests.world import eventually

MIB = 1 << 20


def made(most=64):
    return LargeBodies(Settings(max_bytes_under_way=most * MIB))


async def started(large_bodies, caller, size):
    task = asyncio.create_task(large_bodies.load(caller, size * MIB))
    for _ in range(5):
        await asyncio.sleep(0)
    return task


async def test_a_caller_may_fill_half_of_the_body_memory_without_delaying_others():
    all_of_it = made()
    for _ in range(2):
        await all_of_it.load("eve", 16 * MIB)
    more = await started(all_of_it, "eve", 16)
    other = await started(all_of_it, "bob", 16)
    assert (more.done(), other.done()) == (False, True)
    all_of_it.unload("eve", 16 * MIB)
    await more


async def test_the_body_that_waits_longest_is_let_in_first_even_if_a_later_one_would_fit():
    all_of_it = made()
    for caller in "abcd":
        await all_of_it.load(caller, 16 * MIB)
    large, small = await started(all_of_it, "e", 20), await started(all_of_it, "f", 1)
    all_of_it.unload("a", 16 * MIB)
    await asyncio.sleep(0)
    assert (large.done(), small.done()) == (False, False)
    all_of_it.unload("b", 16 * MIB)
    await asyncio.gather(large, small)


async def test_a_caller_who_gives_up_leaves_no_body_memory_taken(monkeypatch):
    all_of_it = made()
    for caller in "abcd":
        await all_of_it.load(caller, 16 * MIB)
    gone = await started(all_of_it, "e", 1)
    gone.cancel()
    await asyncio.gather(gone, return_exceptions=True)
    monkeypatch.setattr(large_bodies, "WAIT_S", 0.01)
    with pytest.raises(Unavailable):
        await all_of_it.load("f", 1 * MIB)
    for caller in "abcd":
        all_of_it.unload(caller, 16 * MIB)
    monkeypatch.undo()
    for caller in "abcd":
        await all_of_it.load(caller, 16 * MIB)


async def test_a_body_of_the_largest_allowed_size_is_accepted_even_with_no_body_memory_configured():
    all_of_it = made(0)
    await all_of_it.load("eve", 16 * MIB)


async def test_bodies_that_never_arrive_delay_only_their_own_caller(start_hub):
    hub = start_hub(HUB_REQUEST_TIMEOUT_SECONDS="600")
    async with hub.client("admin") as admin:
        made = await admin.post("/admin/tokens", json={"user": "eve"})
        tokens = [made.json()["token"], (await admin.post("/admin/tokens", json={"user": "bob"})).json()["token"]]
        path, report = "/v1/joblib/rooms/lab/tasks/lab:analysis:X", f"/v1/joblib/tasks/{uuid.uuid4()}"
        slow = [Wire(hub.port) for _ in range(4)]
        for wire in slow:
            head = (
                f"PATCH {report} HTTP/1.1\r\nhost: h\r\nauthorization: Bearer {tokens[0]}\r\n"
                "content-length: 16000000\r\n"
            )
            wire.send(f"{head}\r\n".encode() + b" " * 200_000)
        body = b'{"payloads":[{"a":"' + b"x" * 900_000 + b'"}]}'
        answer = await admin.post(path, content=body, headers={"authorization": f"Bearer {tokens[1]}"})
        assert answer.json()["type"].endswith("job-not-found")

        async def given_back():
            again = await admin.post(path, content=body, headers={"authorization": f"Bearer {tokens[0]}"})
            return again.status_code == 404

        for wire in slow:
            wire.socket.close()
        await eventually(given_back)
