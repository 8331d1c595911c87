"""What the callers in races leave behind: httpx leaves the socket of a caller who hangs up while he connects to the
garbage collector. It is collected with the race that left it, not in a later one; hubs are processes of their own.
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
