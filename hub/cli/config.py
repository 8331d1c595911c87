"""`hub config`: shows the settings that all hubs share, and sets one for all hubs."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from hub.cli import completing, output, tables
from hub.cli.admin import caller
from hub.cli.answers import CommandAnswer, facts
from hub.cli.command import command
from hub.cli.connection import Address, HubApi, listens
from hub.cli.inputs import shown
from hub.cli.options import ShowsByDefault
from hub.errors import NotFound
from hub.settings import load_settings, mask_url

_COLUMNS: Final = ("SETTING", "HOLDS FOR ALL", "SET BY", "GIVEN OTHERWISE")

config_app = typer.Typer(cls=ShowsByDefault, help="Show the settings that all hubs share, or set one for all of them.")

_NAME = typer.Argument(
    metavar="NAME", help="The name of the setting, such as HUB_NODE_TIMEOUT.", autocompletion=completing.settings
)
Name = Annotated[str, _NAME]
OptionalName = Annotated[str | None, _NAME]


@config_app.command("ls")
@command()
async def list_config(hub: HubApi) -> CommandAnswer:
    """Show the settings that all hubs share, who set them, and which hubs were given other values."""
    answer = await hub.get("admin", "settings")
    settings = answer["settings"]

    def show() -> None:
        tables.put_table(_COLUMNS, [_row(row) for row in settings])
        if any(row["otherwise"] for row in settings):
            output.note("Give every hub the same value: the value of the hub that starts last holds for all.")

    return CommandAnswer(answer, show)


@config_app.command("show")
@command("admin")
async def show_config(at: Address, name: OptionalName = None) -> CommandAnswer:
    """Show every setting of a hub, its default and its source; or one that all hubs share, and who set it.

    Where no hub runs, show the settings of a hub that is started here.
    """
    if name is None:
        return await _all_settings(at)
    async with HubApi(at) as hub:
        settings = (await hub.get("admin", "settings"))["settings"]
    setting = next((row for row in settings if row["name"] == name), None)
    if setting is None:
        raise NotFound(f"No setting that all hubs share is called {shown(name)}; hub config ls shows them.")
    return facts(setting, zip(_COLUMNS, _row(setting), strict=True))


@config_app.command("set")
@command("admin")
async def set_config(
    hub: HubApi,
    name: Name,
    value: Annotated[str, typer.Argument(metavar="VALUE", help="The value, written as in the environment.")],
) -> CommandAnswer:
    """Set a setting for all hubs while they run. It holds until it is cleared."""
    row = await hub.put("admin", "settings", name, body={"value": value, "by": caller()})
    return CommandAnswer(row, f"{name} is {row['value'] or 'nothing'} for all hubs, until hub config clear {name}.")


@config_app.command("clear")
@command("admin")
async def clear_config(hub: HubApi, name: Name) -> CommandAnswer:
    """Clear a setting: the value that the hubs were given holds again."""
    row = await hub.put("admin", "settings", name, body={"value": None, "by": caller()})
    return CommandAnswer(row, f"{name} is {row['value'] or 'nothing'} again, as the hubs agree on it.")


async def _all_settings(at: Address) -> CommandAnswer:
    if at.chosen or await listens(at.url):
        async with HubApi(at) as hub:
            answer = await hub.get("console", "settings")
    else:
        here = load_settings()
        file = str(here.env_file) if here.env_file else None
        answer = {"settings": here.explained(), "notes": here.notes, "envFile": file}
        output.note(f"no hub listens at {mask_url(at.url)}; these are the settings of a hub that is started here.")
    rows = [(row["name"], row["value"], row["default"], row["source"]) for row in answer["settings"]]
    return CommandAnswer(answer, lambda: tables.put_table(("SETTING", "VALUE", "DEFAULT", "SOURCE"), rows))


def _row(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["name"], row["value"], _set_by(row), _otherwise(row)


def _set_by(row: dict[str, Any]) -> str:
    return f"{row['setBy']}, over {row['agreed'] or 'nothing'}" if row["setBy"] else ""


def _otherwise(row: dict[str, Any]) -> str:
    """Return the hubs whose environment has another value of a setting, each with its value, as one text."""
    return ", ".join(f"{value or 'nothing'} by hub {hub}" for hub, value in row["otherwise"].items())
