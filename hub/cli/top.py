"""`hub top`: shows in a terminal how pools, nodes, the queue and tasks change."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

import httpx

from hub.cli.child import Signals
from hub.cli.command import command
from hub.cli.connection import Address, HubApi, listens
from hub.cli.fullscreen import Screen, is_terminal
from hub.cli.history import Stream
from hub.cli.inputs import Usage
from hub.cli.top_views import ALL, TABS, Frame, Snapshot, View
from hub.errors import HubError

LEAST_S = 1.0  # seconds between two fetches, at least
MOST_S = 5.0  # seconds between two fetches without an event: heartbeats make none
WITHOUT_EVENTS_S = 2.0  # seconds between two fetches without a stream of events
BACK_S = 2.0  # seconds until a stream that was cut off is opened again
_DRAW_S = 1.0  # seconds between two drawings, for the age that is shown


@command()
def top(at: Address) -> Coroutine[Any, Any, None]:
    """Watch pools, nodes, the queue and tasks as they change; q ends it."""
    if not is_terminal():
        raise Usage("hub top needs a terminal; hub status is for scripts.")
    return _top(at)


async def _top(at: Address) -> None:
    async with HubApi(at) as hub:
        await Top(at, hub, streams=await listens(at.url)).run()


class Top:
    """The loop of `hub top`: it fetches the chosen tabs after each event and draws them."""

    def __init__(self, at: Address, hub: HubApi, *, streams: bool) -> None:
        self._at, self._hub, self._streams = at, hub, streams
        self._view, self._seen = View(), Snapshot()
        self._over, self._dirty, self._redraw = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._at_s: float | None = None  # when the shown data was fetched
        self._trouble = ""
        self._live = False

    async def run(self) -> None:
        """Fetch and draw until q or a signal."""
        with Signals(lambda _: self._over.set()), Screen(self._press, self._redraw.set) as screen:
            jobs = [self._fetch_when_dirty(), self._draw(screen)]
            if self._streams:
                jobs.append(self._listen())
            running = [asyncio.ensure_future(job) for job in jobs]
            over = asyncio.ensure_future(self._over.wait())
            await asyncio.wait([*running, over], return_when=asyncio.FIRST_COMPLETED)
            for task in (*running, over):
                task.cancel()
            ended = await asyncio.gather(*running, return_exceptions=True)
        for error in ended:
            if isinstance(error, Exception):
                raise error

    async def _fetch_when_dirty(self) -> None:
        """Fetch at once, then after each event, but at most once a second; without events every few seconds."""
        most_s = MOST_S if self._streams else WITHOUT_EVENTS_S
        while True:
            self._dirty.clear()
            try:
                overview = await self._hub.get("console", "overview")
                rows = {tab.name: await tab.ask(self._hub) for tab in self._view.shown}
            except HubError as error:
                if self._at_s is None:
                    raise  # there is nothing to show yet
                self._trouble = f"Not refreshed: {error.detail or error.code}"
            else:
                self._seen = Snapshot(overview, {**self._seen.rows, **rows})
                self._at_s, self._trouble = time.monotonic(), ""
            self._redraw.set()
            await asyncio.sleep(LEAST_S)
            with suppress(TimeoutError):
                async with asyncio.timeout(most_s - LEAST_S):
                    await self._dirty.wait()

    async def _listen(self) -> None:
        """Read the stream of events, each of which causes a fetch; open it again when it was cut off."""
        stream = Stream(self._at, {}, "")
        while True:
            try:
                async for _ in stream.read(begun=self._connected):
                    self._dirty.set()
            except (httpx.HTTPError, HubError):  # without events the hub is asked every five seconds
                pass
            self._live = False
            await asyncio.sleep(BACK_S)

    def _connected(self) -> None:
        self._live = True
        self._redraw.set()

    async def _draw(self, screen: Screen) -> None:
        while True:
            self._redraw.clear()
            screen.draw(Frame(self._view, self._seen, self._status(), self._trouble))
            with suppress(TimeoutError):
                async with asyncio.timeout(_DRAW_S):
                    await self._redraw.wait()

    def _status(self) -> str:
        if self._at_s is None:
            return "asking"
        age = f"as of {time.monotonic() - self._at_s:.0f} s ago"
        how = "straight on Redis" if not self._streams else "live" if self._live else "no events, asked every 5 s"
        return f"{age}, {how}"

    def _press(self, key: str) -> None:
        view = self._view
        if view.typing:
            self._type(key)
        elif key in ("q", "Q"):
            self._over.set()
        elif key in "01234":
            self._choose(ALL if key == "0" else TABS[int(key) - 1].name)
        elif key == "tab":
            names = [tab.name for tab in TABS]
            self._choose(names[(names.index(view.tab) + 1) % len(names)] if view.tab in names else names[0])
        elif key == "s":
            view.next_column()
        elif key == "r":
            view.turn_round()
        elif key == "/":
            view.typing = True
        elif key == "escape":
            view.text = ""
        elif key in ("up", "down", "page up", "page down", "j", "k"):
            step = {"up": -1, "k": -1, "down": 1, "j": 1, "page up": -10, "page down": 10}[key]
            longest = max((len(self._seen.rows.get(tab.name, (0, []))[1]) for tab in view.shown), default=0)
            view.first = max(0, min(view.first + step, longest - 1))
        self._redraw.set()

    def _type(self, key: str) -> None:
        view = self._view
        if key in ("enter", "escape"):
            view.typing = False
            view.text = "" if key == "escape" else view.text
        elif key == "back":
            view.text = view.text[:-1]
        elif len(key) == 1 and key.isprintable():
            view.text += key
        view.first = 0

    def _choose(self, tab: str) -> None:
        self._view.choose(tab)
        self._dirty.set()
