"""Logins of the console: those of all open pages are looked up at once, and nobody's for one who guesses."""

from __future__ import annotations

from typing import Any

import pytest

from hub.tokens import logins as logins_module
from hub.tokens.logins import LATELY_S, LOGINS_MAX, REMEMBERED_S, Login, Logins, new_key

ANN = Login("admin secret", "admin", bound="b0")
PAGES = 40


class Clock:
    """What measures durations, moved by hand."""

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
    """The keys of so many pages, each shown once."""
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


async def test_a_page_that_is_closed_is_looked_up_no_more(logins, clock, asked):
    mine, *_ = await opened(logins, 3)
    clock.now += LATELY_S
    asked.clear()
    await logins.find(mine)
    assert [len(command) - 2 for command in asked] == [1]


async def test_a_login_that_is_ended_at_another_hub_is_good_here_for_a_second_whoever_was_looked_up_last(
    hub, logins, clock
):
    mine, theirs = await opened(logins, 2)
    clock.now += REMEMBERED_S
    await logins.find(mine)
    assert await Logins(hub.store).end((await logins.find(theirs)).id)
    clock.now += 0.9 * REMEMBERED_S
    await logins.find(mine)
    clock.now += 0.1 * REMEMBERED_S
    assert await logins.find(theirs) is None
    assert await logins.find(mine) is not None


async def test_a_login_that_is_ended_here_is_good_no_more_also_while_others_are_looked_up(hub, logins, clock):
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


async def test_who_guesses_has_nobody_else_looked_up_and_is_not_remembered_for_ever(logins, clock, asked):
    await opened(logins, PAGES)
    clock.now += REMEMBERED_S
    asked.clear()
    for _ in range(LOGINS_MAX + PAGES):
        assert await logins.find(new_key()) is None
    assert {len(command) - 2 for command in asked} == {1}
    assert len(logins._found) <= LOGINS_MAX


@pytest.mark.parametrize("text", ["", "no JSON", "[]", "{}", '{"digest": "x", "name": "n", "at_s": 1, "later": 1}'])
async def test_a_login_that_nobody_can_read_is_none_and_keeps_nobody_from_logging_in(hub, logins, redis, text):
    redis.hset(hub.store.keys.logins, "f" * 16, text)
    (key,) = await opened(logins, 1)
    assert [each.id for each in await logins.good()] == [(await logins.find(key)).id]
