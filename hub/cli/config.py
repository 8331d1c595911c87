"""`hub config`: the settings that all hubs share, as they hold, and setting one for all of them."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Final

import typer

from hub.cli import completing, output, tables
from hub.cli.admin import caller
from hub.cli.connection import Address, connect, looking, operating
from hub.cli.inputs import shown
from hub.cli.options import AsJson, Secret, ShowsByDefault, Url
from hub.errors import NotFound

_COLUMNS: Final = ("SETTING", "HOLDS FOR ALL", "SET BY", "GIVEN OTHERWISE")

config_app = typer.Typer(cls=ShowsByDefault, help="Show the settings that all hubs share, or set one for all of them.")

Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="Its name in the environment, such as HUB_NODE_TIMEOUT.",
        autocompletion=completing.settings,
    ),
]


@config_app.command("ls")
def list_config(as_json: AsJson = False, url: Url = None, secret: Secret = None) -> None:
    """Show what holds for all hubs, who set it, and which hub was given something else."""
    asyncio.run(_list(looking(url, secret), as_json))


@config_app.command("show")
def show_config(name: Name, as_json: AsJson = False, url: Url = None, secret: Secret = None) -> None:
    """Show a setting that all hubs share: what holds, who set it, and which hub was given something else."""
    asyncio.run(_show(looking(url, secret), name, as_json))


@config_app.command("set")
def set_config(
    name: Name,
    value: Annotated[str, typer.Argument(metavar="VALUE", help="As it is written in the environment.")],
    as_json: AsJson = False,
    url: Url = None,
    secret: Secret = None,
) -> None:
    """Set a setting for all hubs while they run, whatever they were given. It holds until it is cleared."""
    asyncio.run(_set(operating(url, secret), name, value, as_json))


@config_app.command("clear")
def clear_config(name: Name, as_json: AsJson = False, url: Url = None, secret: Secret = None) -> None:
    """Go back to what the hubs were given."""
    asyncio.run(_set(operating(url, secret), name, None, as_json))


async def _list(at: Address, as_json: bool) -> None:
    async with connect(at) as hub:
        found = await hub.get("admin", "settings")
    if as_json:
        output.put_json(found)
        return
    tables.put_table(_COLUMNS, [_row(row) for row in found["settings"]])
    if any(row["otherwise"] for row in found["settings"]):
        output.note("Give every hub the same: what the last of them brings holds for all then.")


async def _show(at: Address, name: str, as_json: bool) -> None:
    async with connect(at) as hub:
        settings = (await hub.get("admin", "settings"))["settings"]
    found = next((row for row in settings if row["name"] == name), None)
    if found is None:
        raise NotFound(f"No setting that all hubs share is called {shown(name)}; hub config ls shows them.")
    if as_json:
        output.put_json(found)
    else:
        tables.put_facts(zip(_COLUMNS, _row(found), strict=True))


def _row(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["name"], row["value"], _set_by(row), _otherwise(row)


def _set_by(row: dict[str, Any]) -> str:
    return f"{row['setBy']}, over {row['agreed'] or 'nothing'}" if row["setBy"] else ""


def _otherwise(row: dict[str, Any]) -> str:
    """The hubs that were given another value, each with its own."""
    return ", ".join(f"{value or 'nothing'} by hub {hub}" for hub, value in row["otherwise"].items())


async def _set(at: Address, name: str, value: str | None, as_json: bool) -> None:
    async with connect(at) as hub:
        row = await hub.put("admin", "settings", name, body={"value": value, "by": caller()})
    if as_json:
        output.put_json(row)
    elif value is None:
        output.put(f"{name} is {row['value'] or 'nothing'} again, as the hubs agree on it.")
    else:
        output.put(f"{name} is {row['value'] or 'nothing'} for all hubs, until hub config clear {name}.")
