"""A provider or job that another user takes over stays one for the room, so a full room does not refuse it."""

from __future__ import annotations

import pytest

from hub.core import Hub
from hub.errors import QuotaExceeded
from hub.jobs.models import JobRequest, ProviderRequest
from hub.store.connection import open_store
from tests.world import settings_for

ROOT = "f" * 32
MOST = 2  # providers of a user; a room may hold four times as many
MOST_BYTES = 65_536  # of the schemas of a user


@pytest.fixture
async def hub(redis_server):
    settings = settings_for(redis_server.url, user_providers_max=MOST, user_schemas_max_bytes=MOST_BYTES)
    async with open_store(settings) as store:
        hub = Hub(store, settings)
        await hub.clock.tick()
        yield hub


def schema(size: int) -> str:
    return '{"title":"' + "x" * (size - 12) + '"}'


async def provider(hub: Hub, name: str, user: str, text: str = "{}") -> None:
    await hub.providers.register(ProviderRequest("lab", "frames", name, text), user, user == ROOT)


async def test_a_superuser_takes_over_a_provider_in_a_room_at_its_limit_of_providers(hub, redis):
    for number in range(4 * MOST):
        await provider(hub, f"p{number}", str(number // MOST) * 32)
    before = {kind: redis.zscore(f"hub:used:{kind}", "room:lab") for kind in ("providers", "schemas")}
    with pytest.raises(QuotaExceeded, match="Room lab holds 8 of 8 providers"):
        await provider(hub, "one-more", ROOT)
    await provider(hub, "p0", ROOT)
    assert {kind: redis.zscore(f"hub:used:{kind}", "room:lab") for kind in before} == before
    assert [redis.zscore("hub:used:providers", f"user:{user}") for user in ("0" * 32, ROOT)] == [1, 1]
    assert redis.hget("hub:room_openers", "lab") == "0" * 32


async def test_a_refused_takeover_of_a_provider_changes_no_count(hub, redis):
    await provider(hub, "p0", "0" * 32)
    before = {kind: redis.zrange(f"hub:used:{kind}", 0, -1, withscores=True) for kind in ("providers", "schemas")}
    with pytest.raises(QuotaExceeded, match="bytes of schemas"):
        await provider(hub, "p0", ROOT, schema(MOST_BYTES))
    assert {kind: redis.zrange(f"hub:used:{kind}", 0, -1, withscores=True) for kind in before} == before


async def test_a_job_is_taken_over_in_a_room_at_its_limit_of_schemas(hub, redis):
    large = schema(MOST_BYTES - 512)
    for user in "0123":
        await hub.jobs.register(JobRequest("lab", "modifiers", f"j{user}", large), {}, user * 32, superuser=False)
    other = schema(MOST_BYTES - 513)
    await hub.jobs.register(JobRequest("lab", "modifiers", "j0", other), {}, ROOT, superuser=True)
    assert redis.zscore("hub:used:schemas", "room:lab") == 4 * MOST_BYTES - 1
    assert redis.zscore("hub:used:schemas", f"user:{ROOT}") == MOST_BYTES - 1
