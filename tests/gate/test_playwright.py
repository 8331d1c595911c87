"""Playwright as it is, for Python and for Node, on a real browser behind the gate."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Error, async_playwright

from hub.client import NodeAgent
from tests.client.live import client_of
from tests.console.browser import find_chromium
from tests.gate.browsers import DevTools
from tests.world import eventually

LABEL = "browser:chromium"
TOOLS = Path(f"{sys.prefix}.clients")  # `make clients` installs them there
PROGRAM = Path(__file__).parent / "browse.mjs"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_chromium() is None, reason="`make servers` installs a Chromium"),
]


@pytest.fixture
async def browser(live_hub) -> AsyncIterator[DevTools]:
    """The only slot of its label, by the http address of its DevTools."""
    with DevTools() as found:
        slot = {"slotId": "chrome-1", "labelKey": LABEL, "endpoint": found.address}
        async with NodeAgent("n1", slots=[slot], url=live_hub.url, secret=live_hub.node_secret):
            yield found


async def test_connect_over_cdp_of_python_borrows_a_browser_and_gives_it_back(live_hub, gate, browser):
    async with async_playwright() as playwright, client_of(live_hub) as client:
        for _ in range(2):
            found = await playwright.chromium.connect_over_cdp(f"ws://{gate.host}/connect/{LABEL}?token={gate.secret}")
            page = await (await found.new_context()).new_page()
            await page.set_content("<title>through the gate</title>")
            assert await page.title() == "through the gate"
            assert (await client.leases())["total"] == 1
            await found.close()
            await eventually(lambda: _free(client))


async def _free(client) -> bool:
    return (await client.leases())["total"] == 0


async def test_a_refusal_is_shown_by_playwright_with_its_status_and_reason(gate, browser):
    async with async_playwright() as playwright:
        with pytest.raises(Error, match=r"503 .*[\s\S]*no pool serves browser:firefox"):
            await playwright.chromium.connect_over_cdp(
                f"ws://{gate.host}/connect/browser:firefox?token={gate.secret}&wait=0"
            )


async def test_a_browser_that_is_killed_disconnects_playwright(live_hub, gate, browser):
    async with async_playwright() as playwright, client_of(live_hub) as client:
        headers = {"x-hub-secret": gate.secret}
        found = await playwright.chromium.connect_over_cdp(f"ws://{gate.host}/connect/{LABEL}", headers=headers)
        gone = asyncio.Event()
        found.on("disconnected", lambda _: gone.set())
        browser.kill()
        await asyncio.wait_for(gone.wait(), 30)
        await eventually(lambda: _free(client))
        assert "slot chrome-1 closed its connection" in gate.log()


@pytest.mark.skipif(
    not (TOOLS / "node_modules" / "playwright-core").exists(), reason="`make clients` installs Playwright for Node"
)
async def test_connect_over_cdp_of_node_borrows_a_browser_and_gives_it_back(live_hub, gate, browser, tmp_path):
    (tmp_path / "node_modules").symlink_to(TOOLS / "node_modules")
    (tmp_path / "browse.mjs").write_text(PROGRAM.read_text())
    url = f"ws://{gate.host}/connect/{LABEL}?token={gate.secret}"
    command = ["node", "browse.mjs", url]
    done = await asyncio.to_thread(
        subprocess.run, command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"title": "through the gate", "sum": 42}
    async with client_of(live_hub) as client:
        await eventually(lambda: _free(client))
