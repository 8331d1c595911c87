"""A hub to script, and agents in a hurry."""

from __future__ import annotations

import pytest

from hub.client import announcing, node_calls
from tests.client.both import kind
from tests.client.fake_cluster import clock, cluster
from tests.client.fake_hub import FakeHub

__all__ = ["clock", "cluster", "hub", "kind", "quick"]


@pytest.fixture
def hub() -> FakeHub:
    """A hub of a few dictionaries."""
    return FakeHub()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Agents that have not heard a pace yet, those that are asked for something and those that leave are in a hurry."""
    monkeypatch.setattr(node_calls, "FIRST_PACE_S", 0.05)
    monkeypatch.setattr(node_calls, "ASKED_POLICY", node_calls.RetryPolicy(trouble_s=0.05))
    monkeypatch.setattr(node_calls, "LEAVE_POLICY", node_calls.RetryPolicy(trouble_s=0.05))
    monkeypatch.setattr(announcing, "CLOSE_S", 0.1)
