"""A browser of the system, and a page that says what went wrong in it."""

from __future__ import annotations

import os
import shutil
from typing import Any

from playwright.async_api import Browser, BrowserContext, Page, async_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PATIENCE_MS = 30_000
# Keeps how the page said that it hears the hub, each time that changed.
PULSES = """new MutationObserver(() => {
  const pulse = document.querySelector('.pulse');
  const said = pulse ? `${pulse.className}: ${pulse.querySelector('.word').textContent}\n` : '';
  const before = sessionStorage.pulses ?? '';
  if (said && !before.endsWith(said)) sessionStorage.pulses = before + said;
}).observe(document, { childList: true, subtree: true, attributes: true, characterData: true })"""


def find_chromium() -> str | None:
    """Return where the system's Chromium is; `HUB_TEST_CHROMIUM` names another."""
    named = os.environ.get("HUB_TEST_CHROMIUM")
    return named or next((found for name in NAMES if (found := shutil.which(name))), None)


class Window:
    """A browser that runs, and the pages opened in it."""

    def __init__(self, playwright: Any, browser: Browser) -> None:
        self.playwright = playwright
        self.browser = browser

    @classmethod
    async def open(cls) -> Window:
        """Start the browser."""
        path = find_chromium()
        assert path, "no browser"
        playwright = await async_playwright().start()
        arguments = ["--disable-dev-shm-usage", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
        browser = await playwright.chromium.launch(executable_path=path, args=arguments)
        return cls(playwright, browser)

    async def context(self, **options: Any) -> BrowserContext:
        """Open a browser context of another user."""
        context = await self.browser.new_context(
            **{"viewport": {"width": 1280, "height": 860}, "reduced_motion": "reduce", **options}
        )
        context.set_default_timeout(PATIENCE_MS)
        return context

    async def close(self) -> None:
        """End it."""
        await self.browser.close()
        await self.playwright.stop()


class Looker:
    """A user at a page, and every complaint of the page."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.url = url
        self.complaints: list[str] = []
        page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        page.on("console", self._hear)

    def _hear(self, message: Any) -> None:
        if message.type in ("error", "warning") and "Failed to load resource" not in message.text:
            self.complaints.append(f"{message.type}: {message.text}")

    async def log_in(self, secret: str, *, look: bool = False) -> None:
        """Show a secret at the page, and wait for the overview."""
        await self.show(secret, look=look)
        await self.page.locator("#health, .troubles").first.wait_for()

    async def show(self, secret: str, *, look: bool = False) -> None:
        """Show a secret or a token, which may not open the overview."""
        await self.page.goto(f"{self.url}/")
        await self.page.get_by_label("Secret or token").fill(secret)
        if look:
            await self.page.get_by_label("Only look").check()
        await self.page.get_by_role("button", name="Log in").click()
        await self.page.get_by_role("heading", name="Overview").wait_for()

    async def go(self, view: str) -> None:
        """Open a view, and wait until it shows something."""
        await self.page.goto(f"{self.url}/#/{view}")
        await self.settled()

    async def settled(self) -> None:
        """Wait until nothing is asked for any more."""
        await self.page.locator("main h1").first.wait_for()
        await self.page.wait_for_function("() => !document.querySelector('.asking')")

    async def text(self) -> str:
        """Return the text of the page."""
        return await self.page.locator("main").inner_text()
