"""The driver `playwright` with the Playwright and the Chromium of this machine."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Error, async_playwright

from hub.fleet.chromium import NAMES
from hub.fleet.place import Home, SlotPlace
from hub.fleet.playwright import PlaywrightDriver, PlaywrightTable
from hub.fleet.processes import Unwell
from tests.manual.pages import TOP
from tests.world import PATIENCE_S, eventually

CHROMIUM = next(filter(None, map(shutil.which, NAMES)), "")
OURS = shutil.which("playwright", path=str(TOP / ".venv" / "bin")) or shutil.which("playwright") or ""
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (CHROMIUM and OURS), reason="there is no Chromium, or no Playwright"),
]


def driver(**keys: object) -> PlaywrightDriver:
    given = {"label": "browser:chromium", "driver": "playwright", "command": [OURS], "path": CHROMIUM, **keys}
    return PlaywrightDriver(PlaywrightTable.model_validate(given))


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[SlotPlace]:
    home = Home("n1", "run", tmp_path, "127.0.0.1")
    place = SlotPlace(home, "n1-browser.chromium-1", 0, "")
    yield place
    await place.clear()
    assert os.listdir(tmp_path) == []


async def test_the_version_of_playwright_is_the_last_part_of_the_label():
    (first, second) = await driver(count=2).slots()
    assert first.label == second.label
    assert first.label.startswith("browser:chromium:pw-1.")
    assert first.attributes["version"].startswith(first.label.rpartition("-")[2])


async def test_a_playwright_that_says_no_version_has_no_slots():
    with pytest.raises(Unwell, match="--version printed 'hello --version'"):
        await driver(command=["echo", "hello"]).slots()


async def test_a_client_of_playwright_uses_the_server_until_it_is_stopped(place: SlotPlace):
    servers = driver()
    running = await servers.start(place)

    async def is_up() -> bool:
        try:
            await servers.check(running, lent=False)
        except Unwell:
            return False
        return True

    await eventually(is_up, 2 * PATIENCE_S, 0.2)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.connect(running.endpoint)
        page = await browser.new_page()
        assert await page.evaluate("6 * 7") == 42
        await servers.stop(running)
        with pytest.raises(Error):
            await page.evaluate("6 * 7")
    with pytest.raises(Unwell, match="the server takes no connection"):
        await servers.check(running, lent=False)
