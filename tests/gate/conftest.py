"""A gate of a hub, and a slot behind it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.gate.gates import EchoSlot, GateProcess, node_of
from tests.world import HubProcess


@pytest.fixture
def gate(live_hub: HubProcess) -> Iterator[GateProcess]:
    """A gate of `live_hub`."""
    with GateProcess(live_hub, HUB_REVOKE_GRACE_SECONDS="5") as found:
        yield found


@pytest.fixture
async def slot(live_hub: HubProcess) -> AsyncIterator[EchoSlot]:
    """The only slot, s1, of a node."""
    async with EchoSlot() as found, node_of(live_hub, {"s1": found.address}):
        yield found
