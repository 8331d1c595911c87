"""A browser for each module, and hubs to look at with it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.console.browser import Looker, Window, find_chromium
from tests.console.stage import Records, Stage, full_house, staged
from tests.world import RedisServer

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
    with tempfile.TemporaryDirectory(prefix="hub-console-") as folder, RedisServer(Path(folder)) as server:
        yield server


@pytest.fixture(scope="module")
def records(own_server: RedisServer) -> Records:
    """Orders that get stuck."""
    return Records(own_server.folder)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def house(own_server: RedisServer, records: Records) -> AsyncIterator[Stage]:
    """A hub with everything there is to look at."""
    async with staged(own_server, HUB_RECOVERY_FILE=str(records.file)) as found:
        await full_house(found, records)
        yield found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(house: Stage) -> Stage:
    """The hub that `looker` looks at; a module may have another one."""
    return house


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def looker(window: Window, stage: Stage) -> AsyncIterator[Looker]:
    """An admin at a page of the hub, of which the page must not complain."""
    context = await window.context()
    found = Looker(await context.new_page(), stage.hub.url)
    found.page.on("dialog", lambda dialog: found.complaints.append(f"dialog: {dialog.message}"))
    await found.log_in(stage.hub.admin_secret)
    yield found
    assert found.complaints == []
    assert await found.page.evaluate("document.documentElement.dataset.violations") == "0"
    await context.close()
