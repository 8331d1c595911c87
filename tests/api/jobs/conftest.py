"""An application with bearer tokens, and people who use its jobs API."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.api.jobs.people import TOKENS, Person


@pytest.fixture
def make_people(make_api: Callable[..., Any], tmp_path: Path) -> Callable[..., Any]:
    """People at an application of their own: `async with make_people(long_poll_max_wait_s=1) as people`."""
    path = tmp_path / "tokens.toml"
    path.write_text(TOKENS)

    @asynccontextmanager
    async def make(**changes: Any) -> AsyncIterator[dict[str, Person]]:
        async with make_api(tokens_file=path, **changes) as api:
            names = ("alice", "bob", "root", "gone", "worker", "submitter", "reader", "admin", "stranger")
            yield {name: Person(api, name) for name in names}

    return make


@pytest.fixture
async def people(make_people: Callable[..., Any]) -> AsyncIterator[dict[str, Person]]:
    async with make_people() as found:
        yield found


@pytest.fixture
def alice(people: dict[str, Person]) -> Person:
    """A plain user: its token is restricted to no scopes."""
    return people["alice"]
