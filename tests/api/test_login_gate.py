"""The login check of the console: a long answer ends with its own login, and not because of another one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from hub.api.callers import logins as door_module
from hub.api.callers.logins import LoginGate, Visit
from hub.tokens.logins import Login
from tests.world import eventually

TROUBLE, REVOKED, GOOD = "trouble", "revoked", "good"


class Logins:
    """Knows one good login, and breaks over another one."""

    def __init__(self) -> None:
        self.cancels = 0  # how many of the next look-ups are cancelled
        self.looks = 0

    async def find(self, key: str) -> Login | None:
        self.looks += 1
        if self.cancels:
            self.cancels -= 1
            raise asyncio.CancelledError
        if key == TROUBLE:
            raise TypeError("nobody can read this")
        return Login("admin secret", "admin", token="t") if key == GOOD else None


@pytest.fixture
def door(monkeypatch: pytest.MonkeyPatch) -> LoginGate:
    async def resolve(handle: str) -> Any:
        return SimpleNamespace(active=True)

    holders = SimpleNamespace(handle=lambda token: token, resolve=resolve)
    hub = SimpleNamespace(settings=SimpleNamespace(console="on"), store=None)
    monkeypatch.setattr(door_module, "_STILL_S", 0.01)
    found = LoginGate(SimpleNamespace(hub=hub, holders=holders))  # type: ignore[arg-type]
    found.logins = Logins()  # type: ignore[assignment]
    return found


def follow(door: LoginGate, key: str) -> asyncio.Task[None]:
    """Return an answer without an end."""
    return asyncio.create_task(door.while_good(Visit(key), asyncio.Event().wait()))  # type: ignore[arg-type]


async def until(condition: Callable[[], bool]) -> None:
    await eventually(condition, pause_s=0)


async def end(*streams: asyncio.Task[None]) -> None:
    for stream in streams:
        stream.cancel()
    await asyncio.wait(streams)


async def test_a_login_that_cannot_be_looked_up_ends_only_its_own_stream(door) -> None:
    streams = {key: follow(door, key) for key in (TROUBLE, REVOKED, GOOD)}
    await until(lambda: streams[TROUBLE].done() and streams[REVOKED].done())
    looks = door.logins.looks
    await until(lambda: door.logins.looks > looks + 2)
    assert not streams[GOOD].done()
    await end(streams[GOOD])


async def test_logins_are_checked_again_after_a_check_was_cancelled(door) -> None:
    door.logins.cancels = 1
    good = follow(door, GOOD)
    await until(lambda: not door.logins.cancels)
    revoked = follow(door, REVOKED)
    await until(revoked.done)
    await end(good)
