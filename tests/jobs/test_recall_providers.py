"""Redis comes back without its last second: hubs remember which providers were registered and removed in it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hub.core import Hub
from hub.errors import ProviderNotFound
from hub.jobs.models import ProviderRequest
from hub.store.connection import open_store
from tests.world import settings_for

USER = "a" * 32
FULL = "r1:frames:Disk"


async def register(hub, worker, schema='{"type":"object"}'):
    made, _ = await hub.providers.register(ProviderRequest("r1", "frames", "Disk", schema, worker), USER, False)
    return made


async def lost(lossy, *hubs):
    """The store forgets what came after `keep`, and these hubs say one after the other what they know."""
    await lossy.forget()
    for hub in hubs or (lossy.hub,):
        await lossy.recall(hub)


async def test_a_provider_that_redis_lost_is_restored_under_its_id_and_answers(lossy):
    worker = await lossy.worker()
    lossy.keep()
    made = await register(lossy.hub, worker)
    await lost(lossy)
    found = await lossy.hub.providers.get("r1", FULL)
    assert replace(found, created_us=made.created_us) == made
    assert await lossy.hub.providers.name(made.id) == FULL
    assert [each.id for each in (await lossy.hub.providers.page("r1", 10, 0)).items] == [made.id]


async def test_a_provider_taken_over_in_the_lost_second_belongs_to_its_last_worker(lossy):
    first, second = await lossy.worker(), await lossy.worker()
    made = await register(lossy.hub, first)
    lossy.keep()
    await register(lossy.hub, second, '{"title":"later"}')
    await lost(lossy)
    await lossy.hub.workers.delete(first, USER, False)
    found = await lossy.hub.providers.get("r1", FULL)
    assert (found.id, found.worker, found.schema) == (made.id, second, '{"title":"later"}')


async def test_a_restored_provider_takes_nothing_from_a_later_registration(lossy):
    first, second = await lossy.worker(), await lossy.worker()
    async with open_store(settings_for(lossy.server.url)) as store:
        other = Hub(store, settings_for(lossy.server.url))
        await other.clock.tick()
        await register(lossy.hub, first)
        await register(other, second)
        lossy.keep()
        await lost(lossy, other, lossy.hub)
        assert (await lossy.hub.providers.get("r1", FULL)).worker == second


@pytest.mark.parametrize("kept", [False, True], ids=["its removal is lost", "its removal is kept"])
@pytest.mark.parametrize("remover_first", [False, True], ids=["registered first", "removed first"])
async def test_a_provider_that_another_hub_removed_stays_removed(lossy, kept, remover_first):
    worker = await lossy.worker()
    async with open_store(settings_for(lossy.server.url)) as store:
        other = Hub(store, settings_for(lossy.server.url))
        await other.clock.tick()
        if not kept:
            lossy.keep()
        made = await register(lossy.hub, worker)
        await other.providers.delete(made.id, USER, False)
        if kept:
            lossy.keep()
        await lost(lossy, *((other, lossy.hub) if remover_first else (lossy.hub, other)))
        with pytest.raises(ProviderNotFound):
            await lossy.hub.providers.get("r1", FULL)


async def test_restoring_a_provider_does_not_restore_its_worker(lossy):
    lossy.keep()
    await register(lossy.hub, None)
    await lost(lossy)
    with pytest.raises(ProviderNotFound):
        await lossy.hub.providers.get("r1", FULL)
