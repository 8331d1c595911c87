"""Waiting in line at real hubs: the place outlives hubs, their policy and cut connections, and never its caller."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from hub.client import NoCapacity, Slot, transport
from hub.client import waiting as waiting_module
from hub.client.exchange import RetryPolicy
from hub.errors import DeadlineMissed, WaitedInVain, Withdrawn
from tests import world
from tests.client.live import LABEL, agent_of, client_of
from tests.world import PATIENCE_S, HubProcess

pytestmark = pytest.mark.story


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a slow machine time to give up a place; otherwise the place would lapse only after a minute."""
    monkeypatch.setattr(waiting_module, "GIVE_UP_POLICY", RetryPolicy(PATIENCE_S, PATIENCE_S))


class Balancer(httpx.AsyncHTTPTransport):
    """Passes every request to the first hub that takes connections."""

    def __init__(self, *hubs: HubProcess) -> None:
        super().__init__()
        self._ports = [hub.port for hub in hubs]
        self.borrows = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.borrows += request.url.path == "/session/borrow"
        for port in self._ports:
            try:
                request.url = request.url.copy_with(port=port)
                return await super().handle_async_request(request)
            except httpx.ConnectError:
                continue
        raise httpx.ConnectError("no hub takes connections")


async def queue(hub: HubProcess) -> list[dict[str, Any]]:
    """Return the tickets that wait, in their order, and then those that are away."""
    async with hub.client() as raw:
        try:
            answer = (await raw.get("/queue", params={"label": LABEL})).json()
        except httpx.TransportError:
            return []
    return [ticket for line in answer["labels"] for ticket in line["tickets"]] + [{}] * answer["away"]


async def until_in_line(hub: HubProcess, *runs: str) -> None:
    """Wait until exactly these runs are in the queue, in this order."""

    async def so() -> bool:
        return [ticket.get("runId") for ticket in await queue(hub)] == list(runs)

    await world.eventually(so)


async def wait_in_turn(
    hub: HubProcess, *waiters: tuple[str, Callable[..., Awaitable[Slot]]]
) -> list[asyncio.Task[Slot]]:
    """Let runs stand in the queue, one after the other."""
    tasks: list[asyncio.Task[Slot]] = []
    for place, (run, acquire) in enumerate(waiters, 1):
        tasks.append(asyncio.ensure_future(acquire(LABEL, run=run, wait=60)))
        await until_in_line(hub, *[run for run, _ in waiters[:place]])
    return tasks


async def serve_in_turn(held: Slot, client: Any, tasks: list[asyncio.Task[Slot]]) -> None:
    """Give the slot back and see that it goes from one to the next, in this order."""
    for position, task in enumerate(tasks):
        assert await client.give_back(held)
        held = await asyncio.wait_for(task, PATIENCE_S)
        assert not any(later.done() for later in tasks[position + 1 :])
    assert await client.give_back(held)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
async def test_a_waiter_keeps_its_place_when_its_hub_ends_and_another_takes_over(
    start_hub: Callable[..., HubProcess], how: signal.Signals
) -> None:
    ending, staying = start_hub(), start_hub()
    async with (
        agent_of(staying, policy="reuse"),
        client_of(staying) as other,
        client_of(ending, transport=Balancer(ending, staying)) as client,
    ):
        held = await other.acquire(LABEL)
        tasks = await wait_in_turn(staying, ("r1", client.acquire), ("r2", other.acquire), ("r3", client.acquire))
        ending.signal(how)
        ending.process.wait()
        await until_in_line(staying, "r1", "r2", "r3")
        await serve_in_turn(held, other, tasks)


async def test_a_waiter_keeps_its_place_when_the_only_hub_is_killed_and_restarted(
    start_hub: Callable[..., HubProcess],
) -> None:
    first = start_hub()
    async with agent_of(first, policy="reuse"), client_of(first) as client:
        held = await client.acquire(LABEL, ttl=60)
        tasks = await wait_in_turn(first, ("r1", client.acquire), ("r2", client.acquire))
        first.kill()
        second = start_hub(HUB_PORT=str(first.port))
        await until_in_line(second, "r1", "r2")
        await serve_in_turn(held, client, tasks)


async def test_a_waiter_keeps_its_place_when_it_waits_longer_than_the_hub_allows(
    start_hub: Callable[..., HubProcess],
) -> None:
    hub = start_hub(HUB_BORROW_QUEUE_TIMEOUT_SECONDS="1")
    way = Balancer(hub)
    async with agent_of(hub, policy="reuse"), client_of(hub, transport=way) as client:
        held = await client.acquire(LABEL)
        tasks = await wait_in_turn(hub, ("r1", client.acquire), ("r2", client.acquire))
        begun = way.borrows

        async def repeated() -> bool:
            return way.borrows >= begun + 4

        await world.eventually(repeated)
        await until_in_line(hub, "r1", "r2")
        await serve_in_turn(held, client, tasks)


async def test_a_wait_that_times_out_tells_the_last_place_and_leaves_no_ticket(
    start_hub: Callable[..., HubProcess],
) -> None:
    hub = start_hub(HUB_BORROW_QUEUE_TIMEOUT_SECONDS="1")
    async with agent_of(hub), client_of(hub) as client, client.borrow(LABEL):
        with pytest.raises(WaitedInVain) as vain:
            await client.acquire(LABEL, wait=1.5)
        assert vain.value.facts["position"] == 1
        assert vain.value.facts["ticket"].startswith("key-")
        await until_in_line(hub)
    assert not list(hub.redis.scan_iter("hub:ticket:*"))


async def test_a_borrow_that_does_not_wait_leaves_nothing_behind(live_hub: HubProcess) -> None:
    async with agent_of(live_hub), client_of(live_hub) as client, client.borrow(LABEL):
        with pytest.raises(NoCapacity):
            await client.acquire(LABEL, wait=0)
        assert await queue(live_hub) == []


async def test_a_borrow_is_refused_at_once_when_its_estimated_wait_is_too_long(live_hub: HubProcess) -> None:
    async with agent_of(live_hub), client_of(live_hub) as client, client.borrow(LABEL):
        now_s, _ = live_hub.redis.time()
        live_hub.redis.hset(f"hub:pace:{LABEL}", mapping={"mark_ms": now_s * 1000, "gap_ms": 90_000})
        with pytest.raises(DeadlineMissed) as missed:
            await client.acquire(LABEL, wait=80)
        assert (missed.value.facts["position"], missed.value.facts["estimatedWaitSeconds"] >= 90) == (1, True)
        assert await queue(live_hub) == []


async def test_a_higher_priority_is_served_before_an_earlier_waiter(live_hub: HubProcess) -> None:
    async with agent_of(live_hub, policy="reuse"), client_of(live_hub) as client:
        held = await client.acquire(LABEL)
        (late,) = await wait_in_turn(live_hub, ("r1", client.acquire))
        early = asyncio.ensure_future(client.acquire(LABEL, run="r2", wait=60, priority=50))
        await until_in_line(live_hub, "r2", "r1")
        await serve_in_turn(held, client, [early, late])


async def test_a_cancelled_borrow_leaves_no_ticket_and_later_waiters_move_up(live_hub: HubProcess) -> None:
    async with agent_of(live_hub, policy="reuse"), client_of(live_hub) as client:
        held = await client.acquire(LABEL)
        first, second = await wait_in_turn(live_hub, ("r1", client.acquire), ("r2", client.acquire))
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        assert [ticket["runId"] for ticket in await queue(live_hub)] == ["r2"]
        assert len(list(live_hub.redis.scan_iter("hub:ticket:*"))) == 1
        await serve_in_turn(held, client, [second])


async def test_a_borrow_cancelled_as_it_is_granted_never_keeps_the_slot(live_hub: HubProcess) -> None:
    async with agent_of(live_hub, policy="reuse"), client_of(live_hub) as client:
        for turn in range(15):
            held = await client.acquire(LABEL, wait=60)
            (waiting,) = await wait_in_turn(live_hub, ("r1", client.acquire))
            giving = asyncio.ensure_future(client.give_back(held))
            await asyncio.sleep(turn * 0.001)
            waiting.cancel()
            await giving
            for slot in await asyncio.gather(waiting, return_exceptions=True):
                if isinstance(slot, Slot):
                    assert await client.give_back(slot)

            async def nothing_is_held() -> bool:
                return live_hub.redis.llen(f"available:{LABEL}") == 1 and await queue(live_hub) == []

            await world.eventually(nothing_is_held)


async def test_a_ticket_cancelled_by_another_caller_ends_the_wait(live_hub: HubProcess) -> None:
    async with agent_of(live_hub), client_of(live_hub) as client, client.borrow(LABEL), live_hub.client() as raw:
        (waiting,) = await wait_in_turn(live_hub, ("r1", client.acquire))
        (place,) = await queue(live_hub)
        (await raw.delete(f"/queue/{place['ticket']}")).raise_for_status()
        with pytest.raises(Withdrawn):
            await waiting


async def test_a_slot_that_was_waited_for_has_its_full_lease(live_hub: HubProcess) -> None:
    async with agent_of(live_hub, policy="reuse"), client_of(live_hub) as client:
        held = await client.acquire(LABEL)
        waiting = asyncio.ensure_future(client.acquire(LABEL, run="r1", ttl=6, wait=60))
        await until_in_line(live_hub, "r1")
        await asyncio.sleep(6.1)  # longer than its lease will be
        assert await client.give_back(held)
        slot = await waiting
        assert slot.seconds_left() > 2
        slot.check()


async def test_waiting_borrows_do_not_use_up_the_connections_of_other_calls(
    live_hub: HubProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "_LIMITS", httpx.Limits(max_connections=1))
    async with agent_of(live_hub, policy="reuse"), client_of(live_hub, timeout=10, attempt_timeout=10) as client:
        held = await client.acquire(LABEL)
        tasks = await wait_in_turn(live_hub, ("r1", client.acquire))
        await client.renew(held)
        await serve_in_turn(held, client, tasks)


INTERRUPTED = """
from hub.client import SyncHubClient, waiting
from hub.client.exchange import RetryPolicy
waiting.GIVE_UP_POLICY = RetryPolicy(30, 30)
with SyncHubClient({url!r}, {secret!r}) as client:
    with client.borrow({label!r}, run="r1", wait=None):
        raise SystemExit("granted")
"""


async def test_ctrl_c_in_a_program_with_threads_leaves_no_ticket(live_hub: HubProcess) -> None:
    async with agent_of(live_hub), client_of(live_hub) as client, client.borrow(LABEL):
        program = INTERRUPTED.format(url=live_hub.url, secret=live_hub.runner_secret, label=LABEL)
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stderr=subprocess.PIPE)
        await until_in_line(live_hub, "r1")
        process.send_signal(signal.SIGINT)
        _, said = await process.communicate()
        assert said.rstrip().endswith(b"KeyboardInterrupt")
        assert await queue(live_hub) == []


async def test_a_wait_over_many_calls_that_was_in_vain_is_told_as_a_whole(
    start_hub: Callable[..., HubProcess],
) -> None:
    hub = start_hub(HUB_BORROW_QUEUE_TIMEOUT_SECONDS="0.5")
    async with agent_of(hub, policy="reuse"), client_of(hub) as client:
        held = await client.acquire(LABEL)
        with pytest.raises(WaitedInVain) as vain:
            await client.acquire(LABEL, wait=1.7)
        assert str(vain.value) == vain.value.detail == f"Borrow timed out after 1.7s for {LABEL}"
        assert vain.value.facts["position"] == 1
        assert await client.give_back(held)
