"""Messages that could not be sent during an outage are sent after it, by a process that lives on or exits."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from hub.client import HubClient, HubUnavailable, SyncHubClient, SyncNodeAgent, backlog, calls, node_calls
from hub.client.exchange import Pause, RetryPolicy, Steps
from hub.client.transport import Secret, SyncTransport
from hub.errors import HubError
from tests.client.fake_hub import FakeHub, Reset
from tests.client.live import LABEL
from tests.world import PATIENCE_S, HubProcess, RedisServer, clean_environment, wait_until

StartHub = Callable[..., HubProcess]
CALM = {"HUB_NODE_TIMEOUT": "600"}  # longer than a test: no slot comes free by itself
RETURN = "POST /session/return"
SLOTS = 2


class Outage:
    """A hub on a Redis of its own that goes away and comes back."""

    def __init__(self, hub: HubProcess, redis: RedisServer) -> None:
        self.hub = hub
        self.redis = redis

    def lent(self) -> int:
        """How many slots are lent."""
        return len(self.redis.client().keys("browser:session:*")) + len(self.redis.client().keys("session:*"))

    def until_free(self) -> None:
        """Return when no slot is lent, long before a lease ends by itself."""
        wait_until(lambda: self.lent() == 0, PATIENCE_S, lambda: f"{self.lent()} slots are lent")

    def script(self, text: str) -> subprocess.Popen[str]:
        """A process that borrows, says `held`, and goes on when its standard input ends."""
        environment = {**clean_environment(), "HUB_URL": self.hub.url, "HUB_RUNNER_SECRET": self.hub.runner_secret}
        return subprocess.Popen(
            [sys.executable, "-c", text], env=environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip


@pytest.fixture
def outage(start_hub: StartHub, tmp_path: Path) -> Iterator[Outage]:
    server = RedisServer(tmp_path, append_fsync="always")
    server.start()
    try:
        hub = start_hub(HUB_REDIS_URL=server.url, **CALM)
        with SyncNodeAgent("n1", pools={LABEL: SLOTS}, url=hub.url, secret=hub.node_secret):
            yield Outage(hub, server)
    finally:
        server.stop()


def agent_of(outage: Outage, node_id: str) -> SyncNodeAgent:
    return SyncNodeAgent(node_id, pools={"cpu:x86": 1}, url=outage.hub.url, secret=outage.hub.node_secret)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes that do not hold up their program when they leave."""
    monkeypatch.setattr(node_calls, "LEAVE_POLICY", RetryPolicy(trouble_s=0.0, attempt_s=1.0))


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks that give up at once what they would try for seconds."""
    monkeypatch.setattr(calls, "RETURN_POLICY", RetryPolicy(trouble_s=0.0, attempt_s=1.0))


def test_a_block_that_ends_while_redis_is_away_returns_its_slot_when_redis_is_back(
    outage: Outage, impatient: None, caplog: pytest.LogCaptureFixture
) -> None:
    with SyncHubClient(outage.hub.url, outage.hub.runner_secret) as client, client.borrow(LABEL), client.borrow(LABEL):
        assert outage.lent() == SLOTS
        outage.redis.kill()
    # The client is closed, and the process lives on.
    assert "it is tried again, else it stays lent until" in caplog.text
    outage.redis.start()
    outage.until_free()


async def test_an_asyncio_block_that_ends_while_redis_is_away_returns_its_slot_later(
    outage: Outage, impatient: None
) -> None:
    async with (
        HubClient(outage.hub.url, outage.hub.runner_secret) as client,
        client.borrow(LABEL),
        client.borrow(LABEL),
    ):
        assert outage.lent() == SLOTS
        outage.redis.kill()
    outage.redis.start()
    await asyncio.to_thread(outage.until_free)


def test_a_hub_that_stood_still_gets_the_slot_back_when_it_goes_on(outage: Outage, impatient: None) -> None:
    with SyncHubClient(outage.hub.url, outage.hub.runner_secret) as client, client.borrow(LABEL):
        outage.hub.signal(signal.SIGSTOP)
    outage.hub.signal(signal.SIGCONT)
    outage.until_free()


def test_a_hub_that_was_killed_gets_the_slot_back_after_its_restart(
    outage: Outage, impatient: None, start_hub: StartHub
) -> None:
    with SyncHubClient(outage.hub.url, outage.hub.runner_secret) as client:
        slot = client.acquire(LABEL)
        outage.hub.kill()
        with pytest.raises(HubUnavailable):
            SyncHubClient(outage.hub.url, outage.hub.runner_secret, timeout=0.1).give_back(slot)
    assert slot.owed
    start_hub(HUB_REDIS_URL=outage.redis.url, HUB_PORT=str(outage.hub.port), **CALM)
    outage.until_free()
    wait_until(lambda: not slot.owed)


BORROWS = f"""
import sys
from hub.client import SyncHubClient
with SyncHubClient() as client, client.borrow("{LABEL}"):
    print("held", flush=True)
    sys.stdin.read()
print("left", flush=True)
"""
BORROWS_ASYNC = f"""
import asyncio, sys
from hub.client import HubClient
async def main():
    async with HubClient() as client, client.borrow("{LABEL}"):
        print("held", flush=True)
        await asyncio.to_thread(sys.stdin.read)
    print("left", flush=True)
asyncio.run(main())
"""

BORROWS_IN_CHILD = f"""
import multiprocessing, sys
from hub.client import SyncHubClient
def work(go):
    with SyncHubClient() as client, client.borrow("{LABEL}"):
        print("held", flush=True)
        go.wait()
    print("left", flush=True)
context = multiprocessing.get_context("fork")
go = context.Event()
child = context.Process(target=work, args=(go,))
child.start()
sys.stdin.read()
go.set()
child.join()
sys.exit(child.exitcode)
"""


@pytest.mark.parametrize("script", [BORROWS, BORROWS_ASYNC, BORROWS_IN_CHILD])
def test_a_process_that_exits_during_an_outage_takes_some_seconds_to_return_its_slot(
    outage: Outage, script: str
) -> None:
    with outage.script(script) as process:
        assert process.stdin
        assert process.stdout
        assert process.stdout.readline() == "held\n"
        outage.redis.kill()
        process.stdin.close()
        assert process.stdout.readline() == "left\n"  # it has tried for seconds, and the program has ended
        outage.redis.start()
        outage.until_free()
        assert process.wait(PATIENCE_S) == 0


def test_a_process_that_exits_while_no_hub_is_there_says_until_when_the_slot_is_lent(outage: Outage) -> None:
    with outage.script(BORROWS) as process:
        assert process.stdout
        assert process.stdout.readline() == "held\n"
        outage.hub.kill()
        _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    lines = said.splitlines()
    assert "it is tried again, else it stays lent until" in lines[0]
    assert "could not return slot" in lines[-1]
    assert "; it stays lent until " in lines[-1]


def test_a_forked_child_sends_no_pending_message_of_its_parent(outage: Outage, impatient: None) -> None:
    with SyncHubClient(outage.hub.url, outage.hub.runner_secret) as client, client.borrow(LABEL):
        outage.redis.kill()
    assert not backlog.all_delivered()
    child = os.fork()
    if child == 0:
        os._exit(0 if backlog.all_delivered() and threading.active_count() == 1 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    outage.redis.start()
    outage.until_free()


async def test_a_borrow_that_was_granted_and_given_up_during_an_outage_leaves_no_lease(outage: Outage) -> None:
    """Its answer is lost, and so is the call that gives the place up."""

    class LosesAnswers(httpx.AsyncHTTPTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            response = await super().handle_async_request(request)
            if request.url.path == "/session/borrow":
                await response.aread()
                outage.redis.kill()
                raise httpx.ReadError("the connection broke")
            return response

    client = HubClient(outage.hub.url, outage.hub.runner_secret, transport=LosesAnswers(), timeout=0.1)
    with pytest.raises(HubError):
        await client.acquire(LABEL)
    outage.redis.start()
    assert outage.lent() == 1
    await asyncio.to_thread(outage.until_free)
    await client.close()


def test_a_node_that_leaves_during_an_outage_is_gone_after_it(outage: Outage, hasty: None) -> None:
    with agent_of(outage, "n2"):
        outage.redis.kill()
    outage.redis.start()
    wait_until(lambda: not outage.redis.client().sismember("nodes", "n2"))


def test_a_late_leave_does_not_remove_the_next_process_of_the_node(outage: Outage, hasty: None) -> None:
    with agent_of(outage, "n2"):
        outage.redis.kill()
    outage.redis.start()
    with agent_of(outage, "n2"):
        wait_until(backlog.all_delivered)
        assert outage.redis.client().sismember("nodes", "n2")


def test_a_slot_that_is_withdrawn_during_an_outage_is_withdrawn_after_it(
    outage: Outage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_calls, "ASKED_POLICY", RetryPolicy(trouble_s=0.0, attempt_s=1.0))
    with agent_of(outage, "n2") as agent:
        outage.redis.kill()
        with pytest.raises(HubError):
            agent.withdraw("n2-cpu.x86-1")
        outage.redis.start()
        with SyncHubClient(outage.hub.url, outage.hub.runner_secret) as client:
            wait_until(lambda: client.node("n2")["slotList"] == [])


# -- without a network ------------------------------------------------------------------------------------------------


def client_of(hub: FakeHub) -> SyncHubClient:
    return SyncHubClient("http://hub", "secret", transport=hub.transport())


def test_the_first_message_that_gets_through_makes_the_others_go_at_once(
    impatient: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    hub = FakeHub()
    hub.free = [f"s{number}" for number in range(20)]
    caplog.set_level(logging.INFO)
    client = client_of(hub)
    slots = [client.acquire("gpu") for _ in range(20)]
    hub.say(RETURN, *[Reset()] * 22)
    for slot in slots:
        client.leave(slot)
    wait_until(lambda: hub.lent == {})
    wait_until(backlog.all_delivered)
    assert len(hub.said(RETURN)) <= 20 + 22
    wait_until(lambda: "the hub was told at last: return slot s19" in caplog.text)


def test_a_message_is_dropped_once_its_lease_has_ended(impatient: None, caplog: pytest.LogCaptureFixture) -> None:
    hub = FakeHub(ttl_s=1.0)
    client = client_of(hub)
    slot = client.acquire("gpu")
    hub.say(RETURN, *[Reset()] * 1000)
    client.leave(slot)
    wait_until(backlog.all_delivered)
    assert (
        f"could not return slot {slot.id} (no answer from http://hub: connection reset); it stays lent" in caplog.text
    )
    assert slot.owed


def test_a_refused_message_is_logged_and_delays_no_other(impatient: None, caplog: pytest.LogCaptureFixture) -> None:
    hub = FakeHub()
    client = client_of(hub)
    first, second = client.acquire("gpu"), client.acquire("gpu")
    hub.say(RETURN, Reset(), Reset(), (403, "forbidden"))
    client.leave(first)
    client.leave(second)
    wait_until(lambda: first.id in hub.lent and len(hub.lent) == 1)
    wait_until(backlog.all_delivered)
    assert f"could not return slot {first.id} (told forbidden); it stays lent until" in caplog.text


def test_a_client_with_its_own_transport_ends_within_seconds_and_logs_what_is_left(
    impatient: None, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hub.client.sync_borrower.CLOSE_S", 0.2)
    hub = FakeHub()
    hub.say(RETURN, *[Reset()] * 1000)
    with client_of(hub) as client, client.borrow("gpu"):
        pass
    assert "could not return slot s1 (" in caplog.text
    assert backlog.all_delivered()


def test_a_message_that_raises_is_logged_as_a_bug_and_stops_no_other(
    impatient: None, caplog: pytest.LogCaptureFixture
) -> None:
    hub = FakeHub()
    client = client_of(hub)
    first, second = client.acquire("gpu"), client.acquire("gpu")

    def broken(*_: object) -> None:
        raise RuntimeError("a bug")

    hub.say(RETURN, Reset(), Reset(), broken)
    client.leave(first)
    client.leave(second)
    wait_until(backlog.all_delivered)
    assert "it broke off with RuntimeError('a bug')" in caplog.text
    assert second.id not in hub.lent


def test_a_sender_thread_that_cannot_reach_the_hub_logs_it_and_the_next_tries_again(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ValueError("no such proxy")

    hub = FakeHub()
    client = client_of(hub)
    first, second = client.acquire("gpu"), client.acquire("gpu")
    with monkeypatch.context() as patched:
        patched.setattr(backlog.Backlog, "_connected", broken)
        client.leave_late(first)
        wait_until(lambda: "there is no way to the hub: ValueError('no such proxy')" in caplog.text)
        wait_until(backlog.all_delivered)
    client.leave_late(second)
    wait_until(lambda: list(hub.lent) == [first.id])


async def test_a_message_whose_event_loop_has_ended_is_logged_as_not_sent(
    impatient: None, caplog: pytest.LogCaptureFixture
) -> None:
    hub = FakeHub(ttl_s=2.0)
    hub.say(RETURN, Reset())

    def elsewhere() -> None:
        async def leave() -> None:
            client = HubClient("http://hub", "secret", transport=hub.transport())
            async with client.borrow("gpu"):
                pass

        with suppress(HubError):
            asyncio.run(leave())

    await asyncio.to_thread(elsewhere)
    await asyncio.to_thread(wait_until, backlog.all_delivered)
    assert "could not return slot s1" in caplog.text


def test_a_dropped_message_reports_that_it_was_given_up_before_the_backlog_is_empty(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ended: list[tuple[bool, int]] = []
    error = HubUnavailable("no answer")

    def refused() -> Steps[None]:
        yield Pause(0.0)
        raise error

    owed = backlog.Backlog(SyncTransport("http://hub", Secret("s3cret")))
    note = lambda delivered: ended.append((delivered, owed.waiting()))  # noqa: E731
    owed.add(backlog.Message("tell it", refused, math.inf, "nobody hears of it", note), error)
    owed.close(0.0)
    assert owed.waiting() == 0
    assert ended == [(False, 1)]
    assert "could not tell it (no time is left); nobody hears of it" in caplog.text
