"""The fallback where no Redis server is installed: every call works, in this process and for its life only."""

import pytest

from hub.store import connection
from tests.world import borrow, publish


@pytest.fixture
def no_server(monkeypatch):
    monkeypatch.setattr(connection, "find_server", lambda: None)


async def test_without_a_redis_server_an_in_memory_store_lends_and_takes_back_slots(no_server, make_api):
    async with make_api(redis_url=None) as api:
        await publish(api, "n1", **{"gpu:a100:eu": ["s1"]})
        lent = (await borrow(api, "gpu:a100")).json()
        assert (lent["browserId"], lent["matchedLabel"]) == ("s1", "gpu:a100:eu")
        assert (await borrow(api, "gpu:a100")).json()["code"] == "no-capacity"
        beat = (await api.post("/node/heartbeat", json={"nodeId": "n1"})).json()
        assert beat["lent"] == {"s1": lent["leaseToken"]}
        assert (await api.post("/admin/sweep")).json()["leases"]["processed"] == 1
        back = await api.post("/session/return", json={"labelKey": "gpu:a100", "browserId": "s1"})
        assert back.json() == {"returned": "s1"}
        assert "hub_sessions 0.0" in (await api.get("/metrics")).text
        left = (await api.delete("/node/n1")).json()
        assert left == {"left": "n1", "slots": 1, "ended": 0}
