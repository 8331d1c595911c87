"""The position of a borrow in the queue, shown on stderr while it waits.

A terminal shows one line that changes; elsewhere each new position is a line."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from hub.cli import output
from hub.cli.connection import Address, HubApi, over_http
from hub.cli.progress import is_watched
from hub.errors import HubError

LOOK_S = 1.0  # seconds before each call, also the first, so that a short wait shows nothing


@asynccontextmanager
async def tell_position(at: Address, ticket: str, label: str) -> AsyncIterator[None]:
    """Show the position of a ticket in the queue while the block runs."""
    task = asyncio.create_task(_tell(at, ticket, label))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


async def _tell(at: Address, ticket: str, label: str) -> None:
    async with over_http(at) as transport:
        hub, status, noted = HubApi(at, transport), None, None
        try:
            if is_watched():
                from rich.console import Console
                from rich.text import Text

                status = Console(stderr=True).status(Text(f"waiting for {label}"))
                status.start()
            while True:
                await asyncio.sleep(LOOK_S)
                try:
                    place = await hub.get("queue", ticket)
                except HubError:  # the borrow itself reports the trouble
                    continue
                if place.get("state") != "waiting":
                    continue
                if status is not None:
                    status.update(Text(output.one_line(sentence(label, place))))
                elif place.get("position") != noted:
                    noted = place.get("position")
                    output.note(sentence(label, place))
        finally:
            if status is not None:
                status.stop()


def sentence(label: str, place: dict[str, Any]) -> str:
    """Return the sentence on a position in the queue, with the estimated wait where it is known."""
    estimate = place.get("estimatedWaitSeconds")
    takes = "how long it takes is not known" if estimate is None else f"about {output.duration(round(estimate))} to go"
    return f"waiting for {label}: number {place.get('position')} in the queue, {takes}."
