"""People who wait, at an application in this process or at a hub in a process of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.api.people import People


@pytest.fixture
def make_people(make_api: Callable[..., Any]) -> Callable[..., Any]:
    """People at an application of their own: `async with make_people(borrow_queue_max_per_run=1) as people`."""

    @asynccontextmanager
    async def make(**changes: Any) -> AsyncIterator[People]:
        async with make_api(**{"borrow_queue_timeout_s": 30, **changes}) as api:
            people = People(api)
            yield people
            await people.go_home()

    return make


@pytest.fixture
async def people(make_people: Callable[..., Any]) -> AsyncIterator[People]:
    async with make_people() as found:
        yield found
