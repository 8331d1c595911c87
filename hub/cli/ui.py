"""`hub ui`: a link that opens the console and logs in once."""

from __future__ import annotations

import asyncio
import os
import sys
import webbrowser
from typing import Annotated, Literal

import typer

from hub.cli import output
from hub.cli.options import AsJson, Secret, Url
from hub.cli.reach import Address, address, listens, plain_logs, reach
from hub.errors import HubUnavailable, NotFound
from hub.settings import mask_url

_DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY")


def ui(
    role: Annotated[
        Literal["viewer", "operator", "admin"], typer.Option(help="What may be done with the link, at most.")
    ] = "admin",
    opens: Annotated[bool, typer.Option("--open/--no-open", help="Open it, where there is a screen.")] = True,
    as_json: AsJson = False,
    url: Url = None,
    secret: Secret = None,
) -> None:
    """Print a link that opens the console and logs in, once; and open it."""
    plain_logs()
    asyncio.run(_ui(address(url, secret, "admin"), role, as_json, opens=opens))


async def _ui(at: Address, role: str, as_json: bool, *, opens: bool) -> None:
    if not await listens(at.url):
        raise HubUnavailable(f"No hub listens at {mask_url(at.url)}; start one with `hub serve`.")
    async with reach(at) as hub:
        try:
            made = (
                await hub.post("console", "links", body={"role": role}) if at.secret else await hub.get("console", "me")
            )
        except NotFound:
            raise HubUnavailable(f"The hub at {mask_url(at.url)} has no console: HUB_CONSOLE is off there.") from None
    url = f"{at.url.rstrip('/')}/"
    if link := made.get("link"):
        url += f"#/login/{link}"
    if as_json:
        output.put_json({"url": url, "role": made.get("role"), "seconds": made.get("seconds")})
    else:
        output.put(url)
        if link:
            output.note(f"good once, within {made['seconds'] // 60} minutes, as {made['role']}.")
    if opens and not as_json and _has_a_screen():
        webbrowser.open(url)


def _has_a_screen() -> bool:
    return sys.stdout.isatty() and (sys.platform == "darwin" or any(os.environ.get(name) for name in _DISPLAYS))
