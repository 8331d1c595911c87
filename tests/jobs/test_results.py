"""What providers answer is kept within a quota of each room, the oldest goes, and nothing of it stays behind."""

from __future__ import annotations

import pytest

from hub.core import Hub
from hub.errors import ProviderTimeout, ResultNotAsked, TooLarge
from hub.jobs import providers
from hub.jobs.models import ProviderRecord, ProviderRequest
from hub.jobs.names import params_hash
from hub.store.connection import open_store
from tests.world import settings_for

ANN = "a" * 32
QUOTA = 10_000


@pytest.fixture
async def hub(redis_server):
    settings = settings_for(redis_server.url, provider_room_max_bytes=QUOTA)
    async with open_store(settings) as store:
        yield Hub(store, settings)


async def provider(hub: Hub, room: str = "lab") -> ProviderRecord:
    return (await hub.providers.register(ProviderRequest(room, "frames", "x", "{}", None), ANN, False))[0]


async def ask(hub: Hub, made: ProviderRecord, number: int) -> dict[str, str]:
    params = {"n": str(number)}
    with pytest.raises(ProviderTimeout):
        await hub.providers.read(made, params, 0)
    return params


async def answer(hub: Hub, made: ProviderRecord, number: int, size: int) -> None:
    params = await ask(hub, made, number)
    await hub.providers.upload(made.id, params_hash(params), b"x" * size, ANN, False)


async def kept(hub: Hub, made: ProviderRecord, *numbers: int) -> list[int]:
    return [number for number in numbers if await hub.providers.cached(made, {"n": str(number)}) is not None]


async def test_a_room_over_its_quota_loses_its_oldest_results_and_other_rooms_none(hub, redis):
    lab, other = await provider(hub), await provider(hub, "other")
    for number in range(4):
        await answer(hub, lab, number, 3000)
        await answer(hub, other, number, 2000)
    assert await kept(hub, lab, *range(4)) == [1, 2, 3]
    assert await kept(hub, other, *range(4)) == [0, 1, 2, 3]
    await answer(hub, lab, 4, QUOTA)
    assert await kept(hub, lab, *range(5)) == [4]
    assert redis.hgetall("hub:room_sizes:lab")["total"] == str(QUOTA)


async def test_a_result_larger_than_the_quota_of_a_room_is_refused_and_removes_nothing(hub):
    made = await provider(hub)
    await answer(hub, made, 1, 3000)
    with pytest.raises(TooLarge, match=str(QUOTA)):
        await answer(hub, made, 2, QUOTA + 1)
    assert await kept(hub, made, 1, 2) == [1]


async def test_an_answer_that_replaces_another_counts_once_against_the_quota(hub, redis):
    made = await provider(hub)
    params = await ask(hub, made, 1)
    for size in (6000, 5000, 7000):
        await hub.providers.upload(made.id, params_hash(params), b"x" * size, ANN, False)
    await answer(hub, made, 2, 3000)
    assert await kept(hub, made, 1, 2) == [1, 2]
    assert redis.hgetall("hub:room_sizes:lab")["total"] == str(QUOTA)


async def test_expired_results_do_not_count_against_the_quota(hub, redis):
    made = await provider(hub)
    for number in (1, 2):
        await answer(hub, made, number, 4000)
    for member, lapses in redis.zrange("hub:room_results:lab", 0, -1, withscores=True):
        redis.zadd("hub:room_results:lab", {member: lapses - 3_600_000})
        redis.delete(f"hub:result:{member}")
    await answer(hub, made, 3, 2000)
    assert (redis.hgetall("hub:room_sizes:lab")["total"], redis.zcard("hub:room_results:lab")) == ("2000", 1)
    lives_ms = redis.pttl(f"hub:result:{made.id}:{params_hash({'n': '3'})}")
    assert all(redis.pttl(key) > lives_ms for key in ("hub:room_results:lab", "hub:room_sizes:lab"))


async def test_with_many_small_results_the_oldest_are_removed_too(hub, redis, monkeypatch):
    monkeypatch.setattr(providers, "RESULTS_MAX", 3)
    made = await provider(hub)
    for number in range(5):
        await hub.providers.upload(made.id, params_hash({"n": str(number)}), b"", ANN, False)
    left = await kept(hub, made, *range(5))
    assert (len(left), left[-1], redis.zcard("hub:room_results:lab")) == (3, 4, 3)


async def test_a_superuser_may_upload_an_answer_and_repeat_it(hub, redis):
    made = await provider(hub)
    with pytest.raises(ResultNotAsked):
        await hub.providers.upload(made.id, params_hash({"n": "1"}), b"x", "ab" * 16, True)
    params = await ask(hub, made, 1)
    for _ in range(2):
        await hub.providers.upload(made.id, params_hash(params), b"x", ANN, False)
    assert 0 < redis.pttl(f"hub:wanted:{made.id}:{params_hash(params)}") <= 3_600_000
