"""Races are between processes that were started one by one, as they are where they matter."""

from __future__ import annotations

import pytest

from tests.forks import Forks


@pytest.fixture(autouse=True)
def _starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Forks, "ready", None)
