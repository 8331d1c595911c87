"""A hub to script, and agents in a hurry."""

from __future__ import annotations

import pytest

from hub.client import announcing, telling
from tests.client.fake_cluster import clock, cluster
from tests.client.fake_hub import FakeHub

__all__ = ["clock", "cluster", "hub", "quick"]


@pytest.fixture
def hub() -> FakeHub:
    """A hub of a few dictionaries."""
    return FakeHub()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Agents that have not heard a pace yet, those that are asked for something and those that leave are in a hurry."""
    monkeypatch.setattr(telling, "FIRST_PACE_S", 0.05)
    monkeypatch.setattr(telling, "ASKED_POLICY", telling.RetryPolicy(trouble_s=0.05))
    monkeypatch.setattr(telling, "LEAVE_POLICY", telling.RetryPolicy(trouble_s=0.05))
    monkeypatch.setattr(announcing, "CLOSE_S", 0.1)
