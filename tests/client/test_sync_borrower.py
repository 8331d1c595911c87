"""Borrowing with threads, where that differs from asyncio: `on_lost`, interruptions and time limits."""

from __future__ import annotations

import socket
import threading
import time

import httpx
import pytest

from hub.client import LeaseLost, NoCapacity, Slot, SyncHubClient, transport
from hub.client import slot as slot_module
from hub.errors import HubUnavailable
from hub.retries import now_s
from tests.client.fake_hub import FakeHub, Reset, Seen
from tests.world import PATIENCE_S, SLACK_S, wait_until

BORROW, RENEW, RETURN = "POST /session/borrow", "POST /session/renew", "POST /session/return"


def client_of(hub: FakeHub) -> SyncHubClient:
    return SyncHubClient("http://hub", "secret", transport=hub.transport())


def hold_until_lost(client: SyncHubClient, told: list[Slot] | None = None) -> None:
    on_lost = None if told is None else told.append
    with client, client.borrow("gpu:a100", on_lost=on_lost) as slot:
        slot.lost.wait(PATIENCE_S)
        slot.check()


def test_a_lack_of_slots_is_raised_on_entering_after_the_wait(hub: FakeHub) -> None:
    hub.free = []
    with client_of(hub) as client, pytest.raises(NoCapacity):
        client.acquire("gpu:a100", wait=3)
    assert len(hub.seen) >= 2
    assert len({seen.headers["idempotency-key"] for seen in hub.seen}) == 1


def test_an_interrupted_borrow_gives_up_its_place_and_returns_its_slot(hub: FakeHub) -> None:
    def grant_and_be_interrupted(seen: Seen) -> None:
        hub.play(seen)
        raise KeyboardInterrupt

    hub.say(BORROW, grant_and_be_interrupted)
    with client_of(hub) as client, pytest.raises(KeyboardInterrupt):
        client.acquire("gpu:a100", wait=None)
    assert [seen.method for seen in hub.seen] == ["POST", "DELETE", "GET", "POST"]
    assert hub.lent == {}


def test_a_borrow_interrupted_between_two_attempts_gives_up_its_place(
    hub: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    def be_interrupted(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(transport.time, "sleep", be_interrupted)
    hub.say(BORROW, (503, "timeout"))
    with client_of(hub) as client, pytest.raises(KeyboardInterrupt):
        client.acquire("gpu:a100", wait=60)
    assert [seen.method for seen in hub.seen] == ["POST", "DELETE"]


def test_the_read_timeout_grows_by_the_wait_and_the_connect_timeout_does_not(hub: FakeHub) -> None:
    bounds: list[tuple[float, float]] = []

    def note(request: httpx.Request) -> httpx.Response:
        timeout = request.extensions["timeout"]
        bounds.append((round(timeout["connect"], 1), round(timeout.get("read"), 1)))
        return hub.answer(request)

    with SyncHubClient("http://hub", transport=httpx.MockTransport(note)) as client:
        client.acquire("gpu:a100", wait=None)
        client.acquire("gpu:a100")
    expected = [pytest.approx((15, 45), abs=SLACK_S), pytest.approx((15, 15), abs=SLACK_S)]
    assert bounds == expected  # of which making the request takes a moment


def test_a_lease_that_cannot_be_renewed_is_reported_before_it_ends(
    hub: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slot_module, "MARGIN_SHARE", 0.5)
    monkeypatch.setattr(slot_module, "MARGIN_MAX_S", 60)
    hub.ttl_s = 8
    hub.say(RENEW, *[Reset() for _ in range(1000)])
    told: list[Slot] = []
    begun_s = now_s()
    with pytest.raises(LeaseLost, match="not renewed in time"):
        hold_until_lost(client_of(hub), told)
    # On the clock of leases, which goes on while the machine is suspended. The wait has another clock, a moment off.
    assert 3.99 < now_s() - begun_s < 8
    assert [slot.id for slot in told] == ["s1"]
    wait_until(lambda: len(hub.said(RETURN)) == 1)  # one of the renewals may have been carried out all the same


def test_a_hub_that_hangs_makes_the_lease_lost_in_time_too(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/session/renew":
            time.sleep(request.extensions["timeout"]["read"])
            raise httpx.ReadTimeout("read timed out")
        return hub.answer(request)

    monkeypatch.setattr(slot_module, "MARGIN_SHARE", 0.5)
    monkeypatch.setattr(slot_module, "MARGIN_MAX_S", 60)
    hub.ttl_s = 8
    begun = time.monotonic()
    with pytest.raises(LeaseLost, match="read timed out"):
        hold_until_lost(SyncHubClient("http://hub", transport=httpx.MockTransport(hang)))
    assert time.monotonic() - begun < 8


def test_the_timeout_of_an_attempt_holds_for_the_whole_attempt() -> None:
    def answer_slowly_and_never_to_the_end() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            over.wait(4)
            connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 10\r\n\r\n")
            over.wait(60)

    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=answer_slowly_and_never_to_the_end)
        server.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        begun = time.monotonic()
        with SyncHubClient(url, timeout=0, attempt_timeout=6) as client, pytest.raises(HubUnavailable):
            client.pools()
        took_s = time.monotonic() - begun
        over.set()
        server.join()
    assert 5.5 < took_s < 9.9  # each step for itself would have had six seconds


def test_a_renewal_thread_that_breaks_makes_the_lease_lost_with_an_error(
    hub: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(client: SyncHubClient, slot: Slot, stop: threading.Event) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(SyncHubClient, "keep", broken)
    told: list[Slot] = []
    with pytest.raises(LeaseLost, match="renewing broke off with RuntimeError"):
        hold_until_lost(client_of(hub), told)
    assert len(told) == 1


def test_a_slot_returned_inside_the_block_is_not_reported_as_lost(hub: FakeHub) -> None:
    told: list[Slot] = []
    with client_of(hub) as client, client.borrow("gpu:a100", on_lost=told.append) as slot:
        assert client.give_back(slot)
    assert told == []
    assert len(hub.said(RETURN)) == 1


def test_an_interrupted_return_is_tried_once_more(hub: FakeHub) -> None:
    def be_interrupted(seen: Seen) -> None:
        raise KeyboardInterrupt

    hub.say(RETURN, be_interrupted)
    with client_of(hub) as client, pytest.raises(KeyboardInterrupt), client.borrow("gpu:a100"):
        pass
    assert hub.lent == {}
    assert len(hub.said(RETURN)) == 2


def test_many_threads_can_share_one_client(hub: FakeHub) -> None:
    hub.free = [f"s{number}" for number in range(20)]
    held: list[str] = []

    def work(client: SyncHubClient) -> None:
        with client.borrow("gpu:a100") as slot:
            held.append(slot.id)

    with client_of(hub) as client:
        threads = [threading.Thread(target=work, args=(client,)) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(set(held)) == 20
    assert hub.lent == {}
