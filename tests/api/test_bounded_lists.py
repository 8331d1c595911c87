"""Every list that is bounded: a weak credential fills it, and a strong one still gets through and loses nothing."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, ExitStack, suppress
from typing import Any

import pytest

from hub.api.handling import shares, socket_places
from hub.api.handling.shares import LongPolls
from hub.api.handling.socket_places import Places
from hub.api.handling.wrong_secrets import FREE, WAIT_MAX_S, WrongSecrets
from hub.core import Hub
from hub.errors import NodeTaken, Unavailable
from hub.history import live
from hub.history.events import wanted
from hub.tokens import logins, tokens
from hub.tokens.logins import Login, Logins, new_key
from hub.tokens.models import JOIN, Holder, Token, digest_of, new_secret, user_of


async def of_logins(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logins, "LOGINS_EACH", 5)
    kept, strong = Logins(hub.store), new_key()
    await kept.create(strong, Login("admin secret", "admin", bound="x"))
    for _ in range(12):
        await kept.create(new_key(), Login("token of bob", "viewer", token="d0"))
    assert await kept.find(strong) is not None
    again = new_key()
    await kept.create(again, Login("admin secret", "admin", bound="x"))
    assert await kept.find(again) is not None


async def of_login_links(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logins, "LINKS_EACH", 5)
    monkeypatch.setattr(logins, "LINKS_MAX", 8)
    kept, strong = Logins(hub.store), new_key()
    await kept.make_link(Login("admin secret", "admin", bound="x"), strong)
    for token in range(3):
        for _ in range(6):
            await kept.make_link(Login("token of bob", "viewer", token=f"d{token}"), new_key())
    assert await hub.store.read("HLEN", hub.store.keys.login_links) == 8
    again = new_key()
    await kept.make_link(Login("admin secret", "admin", bound="x"), again)
    assert [bool(await kept.open_link(key)) for key in (strong, again, again)] == [True, True, False]


async def of_sockets(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket_places, "SESSIONS_MAX", 8)
    places = Places()

    def come(number: int, credential: str) -> None:
        places.let_in(places.take(f"10.0.0.{number}"), credential)

    for number in range(6):
        come(number, "weak")
    with pytest.raises(Unavailable, match="This credential"):
        come(6, "weak")
    come(7, "strong")


async def of_long_polls(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shares, "POLLS_MAX", 8)
    polls = LongPolls()
    with ExitStack() as waiting:
        for _ in range(6):
            waiting.enter_context(polls.place("weak"))
        with pytest.raises(Unavailable, match="This credential"):
            waiting.enter_context(polls.place("weak"))
        for _ in range(2):
            waiting.enter_context(polls.place("strong"))
        with pytest.raises(Unavailable, match="The hub"):
            waiting.enter_context(polls.place("other"))
    with polls.place("weak"):
        pass


async def of_the_audit_log(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.audit.max_entries = 100
    await hub.audit.write("admin", "first", by="admin secret")
    for _ in range(250):
        await hub.audit.write("console", "console.login", by="token of bob")
    await hub.audit.write("admin", "last", by="admin secret")
    found = [each["action"] for each in await hub.audit.read(0, 500, None, None, None) if each["by"] == "admin secret"]
    assert found == ["last", "first"]


async def of_refusals(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(700):
        await hub.audit.refused("node", "register.denied", "10.0.0.1", f"reason {number}")
    await hub.audit.refused("node", "register.denied", "10.0.0.2", "unauthorized")
    texts = await hub.store.read("LRANGE", hub.store.keys.refusals, 0, -1)
    assert json.loads(texts[0])["RemoteIp"] == "10.0.0.2"
    assert len(texts) <= 11


async def of_event_streams(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "LISTENERS_MAX", 4)
    lives, everything = live.Live(hub.store), wanted("", {})
    async with AsyncExitStack() as weak, lives.listen(everything, "strong") as before:
        with suppress(Unavailable):
            for _ in range(9):
                await weak.enter_async_context(lives.listen(everything, "weak"))
        async with lives.listen(everything, "strong") as after:
            assert not before.over
            assert not after.over
    await lives.close()


async def of_nodes_that_join(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "JOINING_MAX", 3)
    weak, strong = [await join_token(hub, name) for name in ("weak", "strong")]
    await hub.tokens.join("kept", digest_of(new_secret()) or "", strong.id, kept=True)
    for number in range(3):
        await hub.tokens.join(f"n{number}", digest_of(new_secret()) or "", weak.id, kept=True)
    with pytest.raises(NodeTaken, match="nodes joined"):
        await hub.tokens.join("n3", digest_of(new_secret()) or "", weak.id, kept=True)
    await hub.tokens.join("more", digest_of(new_secret()) or "", strong.id, kept=True)


async def join_token(hub: Hub, name: str) -> Token:
    return await hub.tokens.create(Holder(name, user_of(name), kind=JOIN), digest_of(new_secret()) or "")


async def of_guesses(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    guesses = WrongSecrets()
    assert guesses.early_s("10.0.0.2", 0.0) == 0
    for _ in range(int(FREE) * 10):
        slowest = guesses.early_s("10.0.0.1", 0.0)
    assert slowest == WAIT_MAX_S
    assert guesses.early_s("10.0.0.2", 0.0) == 0


LISTS: list[Callable[..., Awaitable[Any]]] = [
    of_logins, of_login_links, of_sockets, of_long_polls, of_the_audit_log, of_refusals, of_event_streams,
    of_nodes_that_join, of_guesses,
]  # fmt: skip


@pytest.mark.parametrize("fill", LISTS, ids=lambda each: each.__name__)
async def test_a_full_list_of_a_weak_credential_does_not_keep_a_strong_credential_out(hub, monkeypatch, fill):
    await fill(hub, monkeypatch)
