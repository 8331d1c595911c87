"""Collect garbage after each race.

httpx leaves the socket of a caller that hangs up while it connects to the garbage collector, whose warning must fall
into the race that left the socket, not into a later one. Hubs are processes of their own.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

LEFT = ("ignore:unclosed <socket:ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            for left in LEFT:
                item.add_marker(pytest.mark.filterwarnings(left))


@pytest.fixture(autouse=True)
def _collected() -> Iterator[None]:
    yield
    gc.collect()
