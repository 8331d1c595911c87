import asyncio, pytest
from tests.api.people import *
from tests.world import *
async def test_it(make_api):
    async with make_api(borrow_queue_timeout_s=30, borrow_concurrency_caps=f"{LABEL}=1") as api:
        people=People(api)
        await publish(api, "n1", **{LABEL: ["s1", "s2"]})
        assert (await people.start()).json()["browserId"] == "s1"
        second = await people.come()
        await give_back(api, LABEL, "s1")
        assert (await second).json()["browserId"]=="s2"
