"""A browser for each module, and hubs to look at with it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.console.browser import Window, find_chromium
from tests.console.stage import CALM, Records, Stage, full_house, on_stage
from tests.world import HubProcess, RedisServer

NONE = "There is no Chromium to look at the console with: install the package chromium (make servers does)."


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def window() -> AsyncIterator[Window]:
    """The system's Chromium; without one there is nothing to test, which is a failure where everything is decided."""
    if find_chromium() is None:
        if os.environ.get("CI"):
            pytest.fail(NONE)
        pytest.skip(NONE)
    found = await Window.open()
    yield found
    await found.close()


@pytest.fixture(scope="module")
def own_server() -> Iterator[RedisServer]:
    """A Redis of this module."""
    folder = Path(tempfile.mkdtemp(prefix="hub-console-"))
    server = RedisServer(folder)
    server.start()
    yield server
    server.stop()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def records(own_server: RedisServer) -> Records:
    """Orders that get stuck."""
    return Records(own_server.folder)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def house(own_server: RedisServer, records: Records) -> AsyncIterator[Stage]:
    """A hub with everything there is to look at."""
    hub = HubProcess({**CALM, "HUB_REDIS_URL": own_server.url, "HUB_RECOVERY_FILE": str(records.file)})
    try:
        hub.wait_until_ready()
        async with on_stage(hub) as stage:
            await full_house(stage, records)
            yield stage
    finally:
        hub.kill()
