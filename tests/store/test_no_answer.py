"""The answer to a call that Redis did not answer: a change may have been made, a look says nothing of changes."""

from __future__ import annotations

import pytest

from hub.errors import StoreUnavailable
from hub.store.connection import open_store
from tests.world import settings_for


@pytest.fixture
async def store(wire, redis):
    async with open_store(settings_for(await wire.start())) as found:
        await wire.stop()
        yield found


async def sentence(call) -> str:
    with pytest.raises(StoreUnavailable) as refused:
        await call
    return str(refused.value.detail)


async def test_the_error_of_an_unanswered_read_does_not_say_that_something_may_have_changed(store):
    assert await sentence(store.read("GET", "a")) == "Redis does not answer."
    assert await sentence(store.script("queue/describe")(count=1, rest=["a:b"])) == "Redis does not answer."


async def test_the_error_of_an_unanswered_change_says_that_it_may_have_been_made(store):
    said = await sentence(store.script("queue/set_cap")(label="a:b", cap=1, served=0))
    assert said == "Redis does not answer; whether the change was made is not known, and repeating it is safe."
