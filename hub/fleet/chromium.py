"""The driver `chromium`: a browser with an empty profile for each lease."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import Field

from hub.fleet.devtools import try_page, version
from hub.fleet.driver import Attribute, Driver, Running, SlotPlan
from hub.fleet.place import SlotPlace
from hub.fleet.processes import Unwell
from hub.fleet.tables import PoolTable, Seconds
from hub.outgoing import async_client

NAMES = ("chromium", "chromium-browser", "google-chrome")
# No welcome, no updates, no reports, no keyring of the user, no talk with its maker; the port is the system's choice.
_FLAGS = (
    "--headless", "--remote-debugging-port=0", "--no-first-run", "--no-default-browser-check",
    "--disable-background-networking", "--disable-breakpad", "--disable-component-update", "--disable-default-apps",
    "--disable-search-engine-choice-screen", "--disable-sync", "--metrics-recording-only", "--mute-audio",
    "--password-store=basic",
)  # fmt: skip
# Where a browser leaves downloads, certificates and caches. Its socket is in TMPDIR, by a path of at most 108 bytes.
_FOLDERS = ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR")
_LOOK_S = 0.05


class ChromiumTable(PoolTable):
    """The keys of a pool of browsers."""

    count: int = Field(default=1, ge=1)
    start_timeout: Seconds = 30.0
    path: str = ""
    """The browser; else the first of `NAMES` that is on the PATH."""
    flags: list[str] = Field(default_factory=list)
    """Further words of its command line."""


@dataclass(frozen=True)
class Browser(Running):
    """A running browser, with its port and the URL of its WebSocket, both on the loopback address."""

    port: int = 0
    url: str = ""


class ChromiumDriver(Driver[ChromiumTable]):
    """Lends browsers, each a process with a profile that nothing has used before.

    The process ends with each lease: cookies, caches, permissions and downloads are gone for certain, and so is the
    connection of a holder that has not heard yet that its lease is over.
    """

    Table = ChromiumTable
    anew = True

    def __init__(self, table: ChromiumTable) -> None:
        super().__init__(table)
        self._client = async_client("http://127.0.0.1", timeout=None)  # supervision bounds every call

    async def slots(self) -> Sequence[SlotPlan]:
        """Return as many slots as the table counts; raises `Unwell` when no browser is found."""
        self._program()
        return [SlotPlan(key=str(number + 1), index=number) for number in range(self.table.count)]

    async def start(self, place: SlotPlace) -> Browser:
        """Start a browser, and return when it has opened a page: the first page takes long, the borrower's does not."""
        folder = str(place.folder)
        as_root = ["--no-sandbox"] if os.geteuid() == 0 else []  # its sandbox refuses to run as root
        words = [self._program(), *_FLAGS, *as_root, f"--user-data-dir={folder}/profile", *self.table.flags]
        variables = {**dict.fromkeys(_FOLDERS, folder), "TMPDIR": "."}
        program = await place.spawn([*words, "about:blank"], variables, place.folder)
        said = place.folder / "profile" / "DevToolsActivePort"
        while not (said.exists() and len(lines := said.read_text().split()) == 2):
            if program.ended.is_set():
                raise Unwell(program.why())
            await asyncio.sleep(_LOOK_S)
        port = int(lines[0])
        facts = await version(self._client, port)
        url = facts["webSocketDebuggerUrl"]
        await try_page(url, new=True)
        reached_by = {} if self.table.address else {"webSocketEndpoint": url}
        attributes: dict[str, Attribute] = {"version": (whole := facts["Browser"].partition("/")[2])}
        if (major := whole.partition(".")[0]).isdecimal():  # to compare by: texts compare by their letters
            attributes["major"] = int(major)
        return Browser(place, f"http://127.0.0.1:{port}", reached_by, attributes, (program,), port, url)

    async def check(self, running: Running, *, lent: bool) -> None:
        """Ask for `/json/version`, and have a page calculate while nothing else uses the browser."""
        assert isinstance(running, Browser)
        await version(self._client, running.port)
        if not lent:
            await try_page(running.url, new=False)

    async def stop(self, running: Running) -> None:
        """Kill the browser: what it would save at its end is removed anyway."""
        await running.programs[0].kill()

    def _program(self) -> str:
        for name in [self.table.path] if self.table.path else NAMES:
            if found := shutil.which(name):
                return found
        if self.table.path:
            raise Unwell(f"{self.table.path} is no program that can be run")
        raise Unwell(f'none of {", ".join(NAMES)} is on the PATH; write where the browser is: path = "..."')
