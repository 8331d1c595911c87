"""The driver `playwright`: servers of Playwright with a browser each, for clients of the same version."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field
from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

from hub.fleet.driver import Driver, Running, SlotPlan
from hub.fleet.place import SlotPlace
from hub.fleet.processes import Unwell, output_of
from hub.fleet.tables import PoolTable


class PlaywrightTable(PoolTable):
    """The keys of a pool of servers of Playwright."""

    count: Annotated[int, Field(ge=1)] = 1
    browser: Literal["chromium", "firefox", "webkit"] = "chromium"
    command: list[str] = Field(["playwright"], min_length=1)
    """What runs Playwright, of npm or of a Python package: ["npx", "playwright"]."""
    path: str = ""
    """The browser; else the one that Playwright has installed."""


class PlaywrightDriver(Driver[PlaywrightTable]):
    """Lends servers of Playwright, a new one for each lease. Their version is the last part of their label."""

    Table = PlaywrightTable
    anew = True

    async def slots(self) -> Sequence[SlotPlan]:
        """Return as many slots as the table counts; raises `Unwell` when Playwright does not say its version."""
        said = await output_of([*self.table.command, "--version"], self.table.start_timeout)
        version = re.search(r"(\d+\.\d+)\.\d+", said)
        if version is None:
            raise Unwell(f"{' '.join(self.table.command)} --version printed {said.strip()[:80]!r}")
        label = f"{self.table.label}:pw-{version[1]}"
        return [SlotPlan(str(n + 1), n, "", label, {"version": version[0]}) for n in range(self.table.count)]

    async def start(self, place: SlotPlace) -> Running:
        """Start a server, whose address is as hard to guess as a secret."""
        path = f"/{secrets.token_urlsafe(16)}"
        options = {"host": place.host, "port": place.port, "wsPath": path}
        config = place.folder / "config.json"
        config.write_text(json.dumps(options | ({"executablePath": self.table.path} if self.table.path else {})))
        words = [*self.table.command, "launch-server", "--browser", self.table.browser, "--config", str(config)]
        program = await place.spawn(words, {"TMPDIR": "."}, place.folder)
        return Running(place, f"ws://{place.host}:{place.port}{path}", programs=(program,))

    async def check(self, running: Running, *, lent: bool) -> None:
        """Connect to the server."""
        try:
            async with connect(running.endpoint, compression=None, proxy=None, open_timeout=None):
                pass
        except (OSError, WebSocketException) as error:
            raise Unwell(f"the server takes no connection: {error}") from None

    async def stop(self, running: Running) -> None:
        """Kill the server: what its browser would save at its end is removed anyway."""
        await running.programs[0].kill()
