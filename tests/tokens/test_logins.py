"""Logins of the console: those of all open pages are looked up together, and a guess causes no look-up of others."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from hub.errors import StoreUnavailable
from hub.tokens import logins as logins_module
from hub.tokens.logins import LATELY_S, LOGINS_EACH, LOGINS_MAX, REMEMBERED_S, Login, Logins, digest, new_key, too_many

ANN = Login("admin secret", "admin", bound="b0")
PAGES = 40


class Clock:
    """A clock that measures durations and is moved by hand."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(logins_module, "time", found)
    return found


@pytest.fixture
def logins(hub, clock) -> Logins:
    return Logins(hub.store)


@pytest.fixture
def asked(hub, monkeypatch) -> list[tuple[Any, ...]]:
    """The commands that look for logins, as they go to Redis."""
    found: list[tuple[Any, ...]] = []
    send = hub.store.read_all

    async def read_all(commands: Any) -> list[Any]:
        commands = list(commands)
        found.extend(each for each in commands if each[1] == hub.store.keys.logins)
        return list(await send(commands))

    monkeypatch.setattr(hub.store, "read_all", read_all)
    return found


async def opened(logins: Logins, pages: int) -> list[str]:
    """Return the keys of so many pages, each shown once."""
    keys = [new_key() for _ in range(pages)]
    for key in keys:
        await logins.create(key, ANN)
        assert await logins.find(key) is not None
    return keys


async def test_the_logins_of_all_open_pages_are_looked_up_with_one_command_a_second(logins, clock, asked):
    keys = await opened(logins, PAGES)
    for _ in range(3):
        clock.now += REMEMBERED_S
        asked.clear()
        for key in keys:
            assert (await logins.find(key)).name == "admin secret"
            clock.now += 0.9 * REMEMBERED_S / PAGES
        assert [len(command) - 2 for command in asked] == [PAGES]


async def test_the_login_of_a_closed_page_is_not_looked_up_any_more(logins, clock, asked):
    mine, *_ = await opened(logins, 3)
    clock.now += LATELY_S
    asked.clear()
    await logins.find(mine)
    assert [len(command) - 2 for command in asked] == [1]


async def test_a_login_ended_at_another_hub_is_valid_here_for_at_most_a_second(hub, logins, clock):
    mine, theirs = await opened(logins, 2)
    clock.now += REMEMBERED_S
    await logins.find(mine)
    assert await Logins(hub.store).end((await logins.find(theirs)).id)
    clock.now += 0.9 * REMEMBERED_S
    await logins.find(mine)
    clock.now += 0.1 * REMEMBERED_S
    assert await logins.find(theirs) is None
    assert await logins.find(mine) is not None


async def test_a_login_ended_at_this_hub_is_invalid_at_once(hub, logins, clock):
    mine, theirs = await opened(logins, 2)
    theirs_id = (await logins.find(theirs)).id
    clock.now += REMEMBERED_S
    send = hub.store.read_all

    async def ended_meanwhile(commands: Any) -> list[Any]:
        answers = await send(commands)
        await logins.end(theirs_id)
        return list(answers)

    hub.store.read_all = ended_meanwhile
    assert await logins.find(mine) is not None
    hub.store.read_all = send
    assert await logins.find(theirs) is None


async def test_a_guessed_login_causes_no_look_up_of_others_and_is_forgotten(logins, clock, asked):
    await opened(logins, PAGES)
    clock.now += REMEMBERED_S
    asked.clear()
    for _ in range(LOGINS_MAX + PAGES):
        assert await logins.find(new_key()) is None
    assert {len(command) - 2 for command in asked} == {1}
    assert len(logins._found) <= LOGINS_MAX


async def test_guessed_logins_do_not_delay_open_pages(hub, logins, clock, monkeypatch):
    mine, *_ = await opened(logins, 2)
    clock.now += REMEMBERED_S
    answered, send = asyncio.Event(), hub.store.read_all

    async def slow_for_one(commands: Any) -> list[Any]:
        commands = list(commands)
        if len(commands[0]) == 3:  # of one key alone
            await answered.wait()
        return list(await send(commands))

    monkeypatch.setattr(hub.store, "read_all", slow_for_one)
    guessing = [asyncio.ensure_future(logins.find(new_key())) for _ in range(20)]
    await asyncio.sleep(0)
    assert await logins.find(mine) is not None
    answered.set()
    assert await asyncio.gather(*guessing) == [None] * 20


async def test_concurrent_look_ups_share_a_failure_and_the_next_one_succeeds(hub, logins, clock, monkeypatch):
    keys = await opened(logins, PAGES)
    clock.now += LATELY_S + REMEMBERED_S  # an outage has been that long
    looks, send = [], hub.store.read_all

    async def away(commands: Any) -> list[Any]:
        looks.append(commands)
        await asyncio.sleep(0)
        raise StoreUnavailable("Redis does not answer")

    monkeypatch.setattr(hub.store, "read_all", away)
    failures = await asyncio.gather(*map(logins.find, keys), return_exceptions=True)
    assert [type(each) for each in failures] == [StoreUnavailable] * PAGES
    assert len(looks) == 1
    monkeypatch.setattr(hub.store, "read_all", send)
    assert all(await asyncio.gather(*map(logins.find, keys)))


async def test_a_slow_store_is_asked_for_a_login_at_most_twice(hub, logins, clock, monkeypatch):
    (mine,) = await opened(logins, 1)
    clock.now += REMEMBERED_S
    looks, send = [], hub.store.read_all

    async def slow(commands: Any) -> list[Any]:
        commands = list(commands)
        looks.append(commands)
        clock.now += 2 * REMEMBERED_S
        return list(await send(commands))

    monkeypatch.setattr(hub.store, "read_all", slow)
    assert await logins.find(mine) is not None
    assert len(looks) == 2


KEPT = {"digest": "f" * 64, "name": "n", "role": "viewer", "bound": "b", "at_s": 1}


@pytest.mark.parametrize(
    "text",
    [
        "", "no JSON", "[]", "{}", json.dumps({**KEPT, "later": 1}), json.dumps({**KEPT, "at_s": "2026-11-24"}),
        json.dumps({**KEPT, "at_s": None}), json.dumps({**KEPT, "role": "king"}), json.dumps({**KEPT, "token": 7}),
        json.dumps({**KEPT, "bound": "\u00e9"}), json.dumps({**KEPT, "digest": None}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("seen", [None, 5.0])
async def test_an_unreadable_login_is_invalid_and_affects_no_other(hub, logins, clock, redis, text, seen):
    redis.hset(hub.store.keys.logins, "f" * 16, text)
    if seen is not None:
        redis.zadd(hub.store.keys.logins_seen, {"f" * 16: seen})
    mine, theirs = await opened(logins, 2)
    ids = [(await logins.find(key)).id for key in (mine, theirs)]
    assert sorted(each.id for each in await logins.good()) == sorted(ids)
    redis.hset(hub.store.keys.logins, ids[1], text)  # one of an open page is written over
    clock.now += REMEMBERED_S
    assert await logins.find(theirs) is None
    assert await logins.find(mine) is not None


LINK = {"name": "n", "role": "viewer", "at_s": 4e9}


@pytest.mark.parametrize(
    "text",
    [
        "", "no JSON", "[]", "{}", json.dumps({**LINK, "later": 1}), json.dumps({**LINK, "at_s": "2026-11-24"}),
        json.dumps({**LINK, "at_s": None}), json.dumps({**LINK, "role": "king"}), json.dumps({**LINK, "token": 7}),
    ],
)  # fmt: skip
async def test_an_unreadable_link_gives_no_login_and_affects_no_other(hub, logins, redis, text):
    links, key = hub.store.keys.login_links, new_key()
    redis.hset(links, digest(key), text)
    assert await logins.open_link(key) is None
    redis.hset(links, digest(key), text)
    mine = new_key()
    await logins.make_link(ANN, mine)
    assert redis.hkeys(links) == [digest(mine)]
    assert (await logins.open_link(mine)).name == ANN.name


def many(name: str, count: int, token: str = "") -> list[Login]:
    return [Login(name, "viewer", token=token, id=f"{name}-{n}") for n in range(count)]


def test_many_logins_of_one_credential_end_no_login_of_another():
    strong, weak = many("admin secret", 3), many("token of bob", LOGINS_EACH, "d0")
    (gone,) = too_many([*weak, *strong], weak[0], LOGINS_EACH, LOGINS_MAX)
    assert gone.id == f"token of bob-{LOGINS_EACH - 1}"
    assert too_many([*weak, *strong], ANN, LOGINS_EACH, LOGINS_MAX) == []


def test_beyond_the_limit_the_credential_with_the_most_logins_loses_some():
    crowd = [each for n in range(LOGINS_MAX // 50) for each in many(f"token of {n}", 50, f"d{n}")]
    more = many("token of bob", 60, "bob")
    going = too_many([*crowd, *more], ANN, LOGINS_EACH, LOGINS_MAX)
    assert len(going) == 61
    assert {each.token for each in going[:10]} == {"bob"}


async def test_a_weak_credential_that_logs_in_repeatedly_ends_no_other_login(logins):
    operator = new_key()
    await logins.create(operator, ANN)
    for _ in range(LOGINS_EACH + 5):
        await logins.create(new_key(), Login("token of bob", "viewer", token="d0"))
    assert await logins.find(operator) is not None
    assert len(await logins.good()) == LOGINS_EACH + 1
