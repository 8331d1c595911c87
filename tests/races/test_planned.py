"""A planned failover, by the commands of the manual, under load: nothing is lost, and no slot is lent twice."""

from __future__ import annotations

import asyncio
import re
import subprocess
from pathlib import Path

import pytest

from tests.races.test_failover import Load
from tests.replicas import SERVICE, Trio

pytestmark = pytest.mark.race
PAGE = Path(__file__).parents[2] / "hub" / "manual" / "losses.md"


def commands(trio: Trio) -> list[str]:
    """Return the commands of the manual page, for these servers."""
    paragraph = PAGE.read_text().partition("**A planned failover**")[2]
    block = re.findall(r"^    (redis-cli .+)$", paragraph.partition("\n## ")[0], re.MULTILINE)
    ports = {"-h primary": f"-p {trio.primary.port}", "-h sentinel -p 26379": f"-p {trio.sentinels[0].port}"}
    found = []
    for line in block:
        for name, port in ports.items():
            line = line.replace(name, port)
        found.append(line.replace(" SERVICE", f" {SERVICE}"))
    return found


def fail_over(trio: Trio) -> list[str]:
    """Run the operator's commands and wait for another primary; return the answers to the commands."""
    before = trio.primary
    said = [
        subprocess.run(line, shell=True, capture_output=True, text=True, timeout=30, check=True).stdout.strip()
        for line in commands(trio)
    ]
    trio.wait_for_another(before)
    return said


@pytest.fixture
def trio(tmp_path):
    servers = Trio(tmp_path, "min-replicas-to-write 1", "min-replicas-max-lag 3")
    yield servers
    servers.stop()


@pytest.mark.timeout(300)
async def test_the_commands_of_the_manual_for_a_planned_failover_lose_no_lease(trio, start_hub):
    settings = {"HUB_REDIS_URL": trio.url, "HUB_NODE_TIMEOUT": "12", "REDIS_ASYNC_TIMEOUT_MS": "3000"}
    hubs = [await asyncio.to_thread(lambda: start_hub(**settings)) for _ in range(2)]
    assert "failover may lose leases" not in hubs[0].log()
    async with Load(hubs) as load:
        await load.goes_on()
        before = trio.primary
        said = await asyncio.to_thread(fail_over, trio)
        await load.is_back(trio)
        assert said == ["OK", "OK"]
        assert trio.primary is not before
        await load.goes_on(60)
        assert load.verdict() == ([], [])
    for hub in hubs:
        async with hub.client("admin") as admin:
            metrics = (await admin.get("/metrics")).text
        assert "hub_grants_readopted_total 0.0" in metrics  # the new primary had everything: nothing was brought back
