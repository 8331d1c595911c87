"""Tests in parallel processes, with nothing in their conftest, on real browsers that are fresh for each of them."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from http.server import HTTPServer, SimpleHTTPRequestHandler
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from hub.client import NodeAgent
from tests.console.browser import find_chromium
from tests.world import PATIENCE_S, SECRETS, HubProcess, eventually

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.slow

LABEL = "browser:chromium"
# What is stored here would be found by the next test in a browser that was not made fresh.
TESTS = """
import os
import pytest
from playwright.sync_api import sync_playwright

@pytest.mark.parametrize("number", range(6))
def test_it(hub_slot, number):
    with sync_playwright() as playwright:
        browser = playwright.chromium.connect_over_cdp(hub_slot.address)
        (context,) = browser.contexts
        page = context.new_page()
        page.goto(os.environ["SITE"])
        assert (context.cookies(), page.evaluate("localStorage.length")) == ([], 0)
        page.evaluate("n => { document.cookie = `n=${n}; max-age=3600`; localStorage.n = n }", number)
        assert (len(context.cookies()), page.evaluate("localStorage.length")) == (1, 1)
"""


class Browsers:
    """Chromium processes by the ids of the slots that they are, each with an empty profile."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: dict[str, asyncio.subprocess.Process] = {}
        self.started = 0

    async def start(self, slot: str) -> dict[str, Any]:
        """Start the browser of a slot in place of the one before, and return the slot with its address."""
        await self.stop(slot)
        path, profile = find_chromium(), self._folder / slot
        assert path, "no browser"
        shutil.rmtree(profile, ignore_errors=True)
        options = ["--headless=new", "--remote-debugging-port=0", f"--user-data-dir={profile}", "--no-first-run"]
        options += ["--disable-dev-shm-usage", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
        quiet = {"stdout": asyncio.subprocess.DEVNULL, "stderr": asyncio.subprocess.DEVNULL}
        self._running[slot] = await asyncio.create_subprocess_exec(path, *options, "about:blank", **quiet)
        told = profile / "DevToolsActivePort"
        await eventually(lambda: told.exists() and "\n" in told.read_text(), 2 * PATIENCE_S)
        self.started += 1
        return {"label": LABEL, "slotId": slot, "address": f"http://127.0.0.1:{told.read_text().splitlines()[0]}"}

    async def stop(self, slot: str) -> None:
        """End the browser of a slot; its helper processes end with it."""
        if (process := self._running.pop(slot, None)) is not None:
            process.kill()
            await process.wait()

    @asynccontextmanager
    async def lent_to(self, hub: HubProcess, slots: list[str]) -> AsyncIterator[NodeAgent]:
        """Lend a browser for each of these slots while the block runs."""
        try:
            started = [await self.start(slot) for slot in slots]
            agent = NodeAgent("rack", slots=started, on_recycle=self.start, url=hub.url, secret=hub.node_secret)
            async with agent:
                yield agent
        finally:
            for slot in slots:
                await self.stop(slot)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[str]:
    """The URL of a site, whose pages may store something."""

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None: ...

    (tmp_path / "site").mkdir()
    with HTTPServer(("127.0.0.1", 0), lambda *args: Handler(*args, directory=str(tmp_path / "site"))) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


async def test_six_parallel_tests_on_three_browsers_each_find_an_empty_profile_without_any_conftest(
    start_hub, site: str, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    hub = start_hub(HUB_NODE_TIMEOUT="60")
    for name, text in {"HUB_URL": hub.url, "SITE": site, **SECRETS}.items():
        monkeypatch.setenv(name, text)
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    pytester.makepyfile(test_it=TESTS)
    assert not (pytester.path / "conftest.py").exists()
    browsers = Browsers(tmp_path / "profiles")
    async with browsers.lent_to(hub, ["b1", "b2", "b3"]):
        words = ("-n", "6", "--hub-slot", LABEL, "--hub-wait", "200", "-rP")
        result = await asyncio.to_thread(pytester.runpytest_subprocess, *words, timeout=250)
        result.assert_outcomes(passed=6)
        served = [
            line.split()[0] for line in result.stdout.lines if f" of {LABEL}, node rack, http://127.0.0.1" in line
        ]
        assert (len(served), set(served)) == (6, {"b1", "b2", "b3"})
        await eventually(lambda: browsers.started == 9, 2 * PATIENCE_S)  # three at first, and one after each test
