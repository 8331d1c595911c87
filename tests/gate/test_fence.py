"""No byte passes the gate once the lease may have ended: after a stop, in a late process, behind a slow slot."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket as sockets
import time

import pytest
from websockets.exceptions import ConnectionClosed

from hub.client import HubClient
from hub.errors import LeaseLost
from hub.gate.leasing import GateLease, LeasedSocket, Pulse
from tests.client.live import client_of
from tests.gate.gates import LABEL, EchoSlot, GateProcess, node_of, said
from tests.world import HubProcess, eventually

GRACE_S = 1.0


class Lent:
    """A slot that is lent for `left_s` more seconds, and the client that renews it."""

    id, token = "s1", "7"

    def __init__(self, left_s: float = 60.0, error: Exception | None = None) -> None:
        self.left_s, self.error, self.renewals = left_s, error, 0

    def seconds_left(self) -> float:
        return self.left_s

    def check(self) -> None:
        if self.left_s <= 0:
            raise LeaseLost("lost")

    async def renew(self, _: object) -> None:
        self.renewals += 1
        if self.error:
            self.left_s = 0
            raise self.error


def lease_of(lent: Lent, now: list[float], monkeypatch: pytest.MonkeyPatch) -> GateLease:
    monkeypatch.setattr("hub.gate.leasing.now_s", lambda: now[0])
    return GateLease(lent, lent, Pulse(1.5), now[0])  # type: ignore[arg-type]


async def test_after_a_gap_a_lease_holds_only_once_the_hub_has_confirmed_it(monkeypatch):
    now, lent = [100.0], Lent()
    lease = lease_of(lent, now, monkeypatch)
    now[0] += 0.5
    assert lease.holds()
    now[0] += 0.65
    assert not lease.holds()
    assert not lease.holds(), "a second look, right after the gap, changes nothing"
    await lease.confirm()
    assert lease.holds()
    assert lent.renewals == 1


async def test_a_lease_counts_only_for_so_long_since_the_hub_was_heard(monkeypatch):
    now, lent = [100.0], Lent()
    lease = lease_of(lent, now, monkeypatch)
    for _ in range(5):
        now[0] += 0.2
        assert lease.holds()
    now[0] += 0.2  # 1.2 s of the 1.5 that the hub would wait
    assert not lease.holds()
    await lease.confirm()
    assert lease.holds()


async def test_a_lease_that_was_revoked_during_the_gap_is_lost(monkeypatch):
    now, lent = [100.0], Lent(error=LeaseLost("the hub ended it"))
    lease = lease_of(lent, now, monkeypatch)
    now[0] += 3
    with pytest.raises(LeaseLost):
        await lease.confirm()
    assert not lease.holds()


def test_a_lease_does_not_hold_past_its_deadline_without_any_gap(monkeypatch):
    now, lent = [100.0], Lent()
    lease = lease_of(lent, now, monkeypatch)
    lent.left_s = 0
    assert not lease.holds()


@pytest.mark.parametrize("call", ["send", "sendmsg"])
def test_a_socket_sends_nothing_once_its_lease_does_not_hold(monkeypatch, call):
    near, far = sockets.socketpair()
    mine = LeasedSocket(near.family, near.type, near.proto, near.detach())
    lent = Lent()
    mine.lease = lease_of(lent, [100.0], monkeypatch)
    given = b"abc" if call == "send" else [b"abc"]
    assert getattr(mine, call)(given) == 3
    lent.left_s = 0
    with pytest.raises(ConnectionAbortedError):
        getattr(mine, call)(given)
    mine.close()
    assert far.recv(100) == b"abc"
    far.close()


@pytest.fixture
def hub(start_hub) -> HubProcess:
    return start_hub(HUB_REVOKE_GRACE_SECONDS=str(GRACE_S))


@pytest.fixture
def gate(hub):
    with GateProcess(hub, HUB_REVOKE_GRACE_SECONDS=str(GRACE_S)) as found:
        yield found


async def borrowed_next(hub: HubProcess, wait: float = 30) -> HubClient:
    """Return the client that holds the slot next, once it has it."""
    client = client_of(hub)
    await client.acquire(LABEL, wait=wait, ttl=30)
    return client


@pytest.mark.slow
@pytest.mark.parametrize("how", ["lapsed", "revoked"])
async def test_what_a_stopped_gate_had_received_never_reaches_a_slot_that_was_lent_on_meanwhile(hub, gate, how):
    async with EchoSlot() as slot, node_of(hub, {"s1": slot.address}):
        socket = await gate.open(query="?ttl=4" if how == "lapsed" else "?ttl=60")
        assert await said(socket, "before") == "before"
        gate.stop_for_now()
        before = len(slot.pieces)
        await socket.send("while it stands still")
        if how == "revoked":
            async with hub.client("runner") as operator:
                answer = await operator.post(
                    "/session/return", json={"labelKey": LABEL, "browserId": "s1", "revoke": True}
                )
                assert answer.status_code == 200, answer.text
        client = await borrowed_next(hub)
        gate.signal(signal.SIGCONT)
        with pytest.raises(ConnectionClosed) as closed:
            await socket.recv()
        assert slot.pieces[before:] == []
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1011
        await client.close()


@pytest.mark.slow
async def test_a_stopped_gate_goes_on_where_it_stood_when_the_lease_goes_on(hub, gate):
    async with EchoSlot() as slot, node_of(hub, {"s1": slot.address}), gate.open() as socket:
        assert await said(socket, "before") == "before"
        gate.stop_for_now()
        await socket.send("meanwhile")
        began = time.monotonic()
        await eventually(lambda: time.monotonic() > began + GRACE_S)  # longer than the gate may stand still unnoticed
        gate.signal(signal.SIGCONT)
        assert await socket.recv() == "meanwhile"
        assert await said(socket, "after") == "after"


@pytest.mark.slow
async def test_bytes_that_wait_for_a_slow_slot_are_dropped_with_the_lease(hub, gate):
    """More than all buffers hold is on its way to a slot that does not read when the lease is taken away."""
    read = asyncio.Event()

    async def lazy(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
        with contextlib.suppress(asyncio.CancelledError):
            await read.wait()
        while piece := await reader.read(2**20):
            found.append(piece)
        writer.close()

    found: list[bytes] = []
    server = await asyncio.start_server(lazy, "127.0.0.1", 0)
    address = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    async with node_of(hub, {"s1": address}) as agent:
        reader, writer = await asyncio.open_connection("127.0.0.1", gate.port)
        writer.write(
            f"GET /connect/{LABEL} HTTP/1.1\r\nHost: {gate.host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            f"x-hub-secret: {gate.secret}\r\n\r\n".encode()
        )
        assert b" 101 " in await reader.readuntil(b"\r\n\r\n")
        writer.write(bytes(64 * 2**20))
        sending = asyncio.ensure_future(writer.drain())
        await agent.withdraw("s1", reason="ill")
        said_last = await reader.read()
        assert said_last[:1] == b"\x88"
        assert b"ill" in said_last
        read.set()
        await asyncio.wait([sending])
        sending.exception()  # that of a caller which sends to a closed connection
        writer.close()
    server.close()
    assert sum(map(len, found)) < 16 * 2**20, "the rest of 64 MiB was dropped"


@pytest.mark.slow
async def test_no_byte_passes_a_gate_whose_hub_is_silent_once_another_hub_may_have_lent_the_slot_on(start_hub):
    grace = {"HUB_REVOKE_GRACE_SECONDS": "2"}
    silent, other = start_hub(**grace), start_hub(**grace)
    async with EchoSlot() as slot, node_of(other, {"s1": slot.address}):
        with GateProcess(silent, **grace) as gate:
            socket = await gate.open(query="?ttl=60")
            assert await said(socket, "before") == "before"
            silent.signal(signal.SIGSTOP)
            async with other.client("runner") as operator:
                body = {"labelKey": LABEL, "browserId": "s1", "revoke": True}
                assert (await operator.post("/session/return", json=body)).status_code == 200
            client = await borrowed_next(other)
            before = len(slot.pieces)
            await socket.send("too late")
            await asyncio.wait([asyncio.ensure_future(socket.wait_closed())], timeout=0.5)
            silent.signal(signal.SIGCONT)
            with pytest.raises(ConnectionClosed):
                await socket.recv()
            assert slot.pieces[before:] == []
            await client.close()


@pytest.mark.slow
async def test_a_connection_waits_for_a_hub_that_is_away_and_goes_on_with_it(start_hub):
    grace = {"HUB_REVOKE_GRACE_SECONDS": "2"}
    hub = start_hub(**grace)
    async with EchoSlot() as slot, node_of(hub, {"s1": slot.address}):
        with GateProcess(hub, **grace) as gate:
            async with gate.open(query="?ttl=60") as socket:
                assert await said(socket, "before") == "before"
                hub.signal(signal.SIGSTOP)
                began = time.monotonic()
                await eventually(lambda: time.monotonic() > began + 2)
                answered = asyncio.ensure_future(said(socket, "meanwhile"))
                await asyncio.wait([answered], timeout=0.5)
                assert not answered.done()
                hub.signal(signal.SIGCONT)
                assert await answered == "meanwhile"
