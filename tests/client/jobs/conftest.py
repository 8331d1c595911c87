"""A hub with the jobs API to script, and managers in a hurry that speak to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from hub.client.jobs import JobManager
from hub.client.jobs import calls as calls_module
from tests.client.jobs.fake_jobs_hub import JobsHub, Make


@pytest.fixture
def hub() -> JobsHub:
    """A hub of a few dictionaries."""
    return JobsHub()


@pytest.fixture
def make(hub: JobsHub) -> Iterator[Make]:
    """Managers in a hurry, which leave at the end."""
    made: list[JobManager] = []

    def manager(**options: Any) -> JobManager:
        defaults = {
            "token": "t0ken",
            "transport": hub.transport(),
            "polling_interval": 0.02,
            "heartbeat_interval": 30.0,
        }
        made.append(JobManager("http://hub", **{**defaults, **options}))
        return made[-1]

    yield manager
    for each in made:
        each.disconnect()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses and policy are short."""
    monkeypatch.setattr(calls_module, "TROUBLE_S", 0.2)
    for name in ("listening", "providers", "manager"):
        monkeypatch.setattr(f"hub.client.jobs.{name}.TROUBLE_S", 0.2, raising=False)
    monkeypatch.setattr("hub.client.jobs.manager.CLOSE_S", 0.5)
    monkeypatch.setattr(calls_module.random, "random", lambda: -0.99)
