"""`hub ui`: prints and opens a link to the console, which logs in once."""

from __future__ import annotations

import html
import os
import sys
import webbrowser
from pathlib import Path
from typing import Literal

from typer import Option

from hub.cli import output
from hub.cli.answers import CommandAnswer
from hub.cli.command import command
from hub.cli.connection import Address, HubApi, listens
from hub.errors import HubUnavailable, NotFound
from hub.settings import load_settings, mask_url

_PAGE = "console.html"  # the file with the latest link, which is of no use after its first use
_FORWARD = """\
<!doctype html>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={0}">
<title>Console</title>
<p><a href="{0}">Open the console</a></p>
"""
_DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY")


@command("admin")
async def ui(
    at: Address,
    role: Literal["viewer", "operator", "admin"] = Option("admin", help="The role of the login that the link makes."),
    opens: bool = Option(True, "--open/--no-open", help="Open the link in a browser, where there is a screen."),
) -> CommandAnswer:
    """Print a link that opens the console and logs in once, and open it."""
    if not await listens(at.url):
        raise HubUnavailable(f"No hub listens at {mask_url(at.url)}; start one with `hub serve`.")
    async with HubApi(at) as hub:
        try:
            made = (
                await hub.ask("POST", "console", "links", body={"role": role})
                if at.secret
                else await hub.get("console", "me")
            )
        except NotFound:
            raise HubUnavailable(f"The hub at {mask_url(at.url)} has no console: HUB_CONSOLE is off there.") from None
    url, link = f"{at.url.rstrip('/')}/", made.get("link")
    if link:
        url += f"#/login/{link}"

    def show() -> None:
        output.put(url)
        if link:
            output.note(f"good once, within {made['seconds'] // 60} minutes, as {made['role']}.")
        if opens and _has_a_screen():
            _open(url, load_settings().data_dir)

    return CommandAnswer({"url": url, "role": made.get("role"), "seconds": made.get("seconds")}, show)


def _open(url: str, folder: Path) -> None:
    """Open a link in a browser, by a local page that leads to it and that only this user can read.

    The link itself is no argument of the browser, because all users of a machine can list arguments of processes.
    """
    page = folder / _PAGE
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        page.unlink(missing_ok=True)
        with os.fdopen(os.open(page, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(_FORWARD.format(html.escape(url)))
    except OSError as error:
        output.note(f"no browser is opened: {page} cannot be written: {error.strerror}.")
        return
    webbrowser.open(page.absolute().as_uri())


def _has_a_screen() -> bool:
    return sys.stdout.isatty() and (sys.platform == "darwin" or any(os.environ.get(name) for name in _DISPLAYS))
