"""Socket.IO sessions are bounded: of each address, of each credential and in all; what has ended leaves nothing."""

from __future__ import annotations

import gc
from typing import Any

import aiohttp
import httpx
import pytest
from engineio.async_socket import AsyncSocket
from socketio.exceptions import ConnectionError as Refused

from hub.api.handling import socket_places
from hub.api.handling.socket_places import Place, Places
from hub.api.sockets import sockets
from hub.api.sockets.sockets import Sockets
from hub.errors import Unavailable
from tests.world import eventually

PATH = "/socket.io/?EIO=4&transport="


@pytest.fixture
def impatient(monkeypatch) -> None:
    """Look at the sessions of the hub often: python-engineio keeps one that has ended until its next ping is due."""
    for name, seconds in (("ROUND_S", 0.02), ("PING_S", 1), ("PONG_S", 1)):
        monkeypatch.setattr(sockets, name, seconds)


@pytest.fixture
async def closed(serve, tokens, monkeypatch) -> tuple[Any, Places]:
    """Serve a hub that strangers may not read, with three places for them at each address, and four in all."""
    places = Places()
    monkeypatch.setattr(Sockets, "places", places)
    places.strangers.each, places.strangers.most = 3, 4
    process, _ = await serve(tokens_file=tokens, anonymous_reads=False)
    return process, places


async def begin(url: str, transport: str, address: str = "192.0.2.1") -> tuple[int, dict[str, str], Any]:
    """Ask for a session over a proxy that names the address of its caller."""
    told = {"x-forwarded-for": address}
    if transport == "websocket":
        told |= {
            "connection": "upgrade", "upgrade": "websocket", "sec-websocket-version": "13",
            "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
        }  # fmt: skip
    async with httpx.AsyncClient(timeout=30) as client:
        answer = await client.get(url + PATH + transport, headers=told)
    return answer.status_code, dict(answer.headers), answer.json() if answer.status_code == 503 else None


@pytest.mark.parametrize("transport", ["polling", "websocket"])
async def test_sessions_of_strangers_are_limited_per_address(closed, transport):
    process, places = closed
    for _ in range(3):
        assert (await begin(process.url, "polling"))[0] == 200
    status, headers, problem = await begin(process.url, transport)
    assert status == 503
    assert headers["content-type"] == "application/problem+json"
    assert headers["retry-after"] == "5"
    assert problem["detail"] == "This address has too many Socket.IO sessions; try again in 5 s."
    assert (await begin(process.url, "polling", "198.51.100.7"))[0] == 200
    status, _, problem = await begin(process.url, transport, "198.51.100.8")
    assert (status, problem["detail"]) == (503, "The hub has too many Socket.IO sessions; try again in 5 s.")
    assert places.all.count == places.strangers.count == 4


async def test_a_network_of_ipv6_has_the_limit_of_one_address(closed):
    process, _ = closed
    statuses = [(await begin(process.url, "polling", f"2001:db8::{number}"))[0] for number in range(1, 5)]
    assert statuses == [200, 200, 200, 503]


@pytest.mark.parametrize("transports", [["polling"], ["websocket"]])
async def test_clients_with_a_token_are_not_counted_as_strangers(closed, listen, transports):
    process, places = closed
    for number in range(1, 7):
        await listen(process, "ann", transports=transports)
        assert (places.all.count, places.strangers.count) == (number, 0)


@pytest.mark.parametrize("transports", [["polling"], ["websocket"]])
async def test_each_credential_has_its_own_limit_of_sessions(closed, listen, monkeypatch, transports):
    process, places = closed
    for shares in (places.all, places.known):
        shares.most, shares.each = 8, 2
    told = {"headers": {"x-forwarded-for": "192.0.2.1"}, "transports": transports}
    elsewhere = {"headers": {"x-forwarded-for": "192.0.2.2"}, "transports": transports}
    await listen(process, "ann", **told)
    await listen(process, "ann", **told)
    with pytest.raises(Refused):
        await listen(process, "ann", **elsewhere)
    assert list(places.known.held.values()) == [2]
    await listen(process, "bob", **{**elsewhere, "headers": {"x-forwarded-for": "192.0.2.3"}})


@pytest.mark.parametrize("transports", [["polling"], ["websocket"]])
async def test_sessions_that_hung_up_do_not_count_against_the_limit(closed, listen, transports):
    process, places = closed
    for _ in range(5):
        listener = await listen(process, "ann", transports=transports)
        await listener.hang_up()
    await eventually(lambda: places.all.count == 0)
    assert not places.all.held
    assert not places.known.held


@pytest.mark.parametrize("shows", ["nothing", "wrong"])
@pytest.mark.parametrize("transport", ["polling", "websocket"])
async def test_the_session_of_a_stranger_ends_soon_and_leaves_nothing(
    impatient, closed, listen, monkeypatch, transport, shows
):
    process, places = closed
    gc.collect()
    before = _kept()
    if shows == "wrong":
        with pytest.raises(Refused):
            await listen(process, "nobody", transports=[transport])
    elif transport == "polling":
        with monkeypatch.context() as patient:  # so that none ends before all have begun
            patient.setattr(sockets, "SILENT_ROUNDS", 1_000_000)
            assert [(await begin(process.url, "polling"))[0] for _ in range(5)] == [200, 200, 200, 503, 503]
    else:
        async with aiohttp.ClientSession() as client, client.ws_connect(process.url + PATH + "websocket") as wire:
            assert places.all.count == 1
            assert (await wire.receive()).data.startswith("0{")
            while not wire.closed:
                await wire.receive()
    await eventually(lambda: places.all.count == 0)
    assert not places.all.held
    assert not places.strangers.held
    most = before + 1  # python-engineio keeps the last session that it looked at
    await eventually(lambda: gc.collect() >= 0 and _kept() <= most)


def test_a_stranger_can_do_its_work_within_the_seconds_it_has():
    assert sockets.ROUND_S * (sockets.SILENT_ROUNDS + 1) <= 10


def test_a_socket_session_beyond_the_reserved_places_is_refused():
    found = socket_places.Sessions(Places())
    with pytest.raises(Unavailable):
        found["made"] = object()
    place = found.reserve("192.0.2.1")
    found["made"] = object()
    with pytest.raises(Unavailable):
        found["another"] = object()
    found.release(place)
    assert list(found) == ["made"]
    del found["made"]
    found.let_in("made", "late")
    assert not found


def test_a_place_that_was_released_twice_is_counted_once_and_admits_no_session():
    places = Places()
    place = places.take("192.0.2.1")
    places.let_in(place, "ann")
    places.let_in(place, "ann")
    places.give_back(place)
    places.give_back(place)
    places.let_in(place, "ann")
    assert (places.all.count, places.strangers.count, dict(places.known.held)) == (0, 0, {})


def _kept() -> int:
    return sum(isinstance(each, AsyncSocket | Place) for each in gc.get_objects())
