"""How long a connection may say nothing, and whose time that is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from hub.api.serving import protocol
from tests.api.roads import Transport

HEAD_TIMEOUT_S = protocol.HubProtocol.head_timeout_s
TURN_S = 1 / 64


class Loop:
    """Its clock is stepped; like that of libuv it is read once a turn, and timers come before what is to be read."""

    def __init__(self) -> None:
        self._now = 100.0
        self._timers: list[tuple[float, Callable[[], None]]] = []

    def time(self) -> float:
        return self._now

    def call_later(self, seconds: float, act: Callable[..., None], *args: Any) -> asyncio.Handle:
        timer = (self._now + seconds, lambda: handle.cancelled() or act(*args))
        handle = asyncio.Handle(lambda: None, (), self)  # type: ignore[arg-type]
        self._timers.append(timer)
        return handle

    def get_debug(self) -> bool:
        return False

    def go_on(self, seconds: float) -> None:
        """Let so many seconds pass in turns as short as those of a healthy hub."""
        for _ in range(int(seconds / TURN_S)):
            self.stand_still(TURN_S)

    def stand_still(self, seconds: float) -> None:
        """The next turn, so much later: each timer that is due rings once."""
        self._now += seconds
        due = [timer for timer in self._timers if timer[0] <= self._now]
        self._timers = [timer for timer in self._timers if timer not in due]
        for _, act in sorted(due, key=lambda timer: timer[0]):
            act()


async def nothing(scope: Any, receive: Any, send: Any) -> None:
    """An application that is never called."""


@pytest.fixture
def loop() -> Loop:
    return Loop()


@pytest.fixture
def transport(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> Transport:
    """The transport of a new connection on which nothing was sent yet."""
    monkeypatch.setattr(protocol.HubProtocol, "all_open", protocol.Connections())
    config = uvicorn.Config(nothing, log_config=None, ws="none", proxy_headers=False, lifespan="off")  # type: ignore[arg-type]
    config.load()
    made = protocol.HubProtocol(config=config, server_state=ServerState(), app_state={}, _loop=loop)  # type: ignore[arg-type]
    transport = Transport()
    made.connection_made(transport)
    return transport


def test_a_silent_client_is_cut_off_after_the_timeout(loop: Loop, transport: Transport) -> None:
    loop.go_on(HEAD_TIMEOUT_S - 1)
    assert not transport.closed
    loop.go_on(4)
    assert transport.closed


def test_time_in_which_the_hub_stood_still_does_not_count_against_a_client(loop: Loop, transport: Transport) -> None:
    loop.stand_still(10 * HEAD_TIMEOUT_S)
    assert not transport.closed, "what he has said meanwhile is read after the timers"
    loop.go_on(HEAD_TIMEOUT_S + 4)
    assert transport.closed
