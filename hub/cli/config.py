"""`hub config`: shows the settings that all hubs share, and sets one for all hubs."""

from __future__ import annotations

from hub.cli import output
from hub.cli.answers import CommandAnswer, Listing
from hub.cli.command import Group
from hub.cli.connection import Address, HubApi, Row, listens
from hub.cli.environment import caller
from hub.cli.inputs import shown
from hub.cli.options import SETTING, Input, ShowsByDefault
from hub.errors import NotFound
from hub.settings import mask_url

config_app = Group(cls=ShowsByDefault, help="Show the settings that all hubs share, or set one for all of them.")

_HELP = "The name of the setting, such as HUB_NODE_TIMEOUT."


@config_app.add("ls")
async def list_config(hub: HubApi) -> CommandAnswer:
    """Show the settings that all hubs share, who set them, and which hubs were given other values."""
    answer = await hub.get("admin", "settings")
    settings = answer["settings"]

    def show() -> None:
        _SHARED.put(settings)
        if any(row["otherwise"] for row in settings):
            output.note("Give every hub the same value: the value of the hub that starts last holds for all.")

    return CommandAnswer(answer, show)


@config_app.add("show", "admin")
async def show_config(at: Address, name: str | None = SETTING.argument(_HELP, default=None)) -> CommandAnswer:
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
    return _SHARED.one(setting)


@config_app.add("set", "admin")
async def set_config(
    hub: HubApi,
    name: str = SETTING.argument(_HELP),
    value: str = Input("VALUE").argument("The value, written as in the environment."),
) -> CommandAnswer:
    """Set a setting for all hubs while they run. It holds until it is cleared."""
    row = await hub.ask("PUT", "admin", "settings", name, body={"value": value, "by": caller()})
    return CommandAnswer(row, f"{name} is {row['value'] or 'nothing'} for all hubs, until hub config clear {name}.")


@config_app.add("clear", "admin")
async def clear_config(hub: HubApi, name: str = SETTING.argument(_HELP)) -> CommandAnswer:
    """Clear a setting: the value that the hubs were given holds again."""
    row = await hub.ask("PUT", "admin", "settings", name, body={"value": None, "by": caller()})
    return CommandAnswer(row, f"{name} is {row['value'] or 'nothing'} again, as the hubs agree on it.")


async def _all_settings(at: Address) -> CommandAnswer:
    if at.chosen or await listens(at.url):
        async with HubApi(at) as hub:
            answer = await hub.get("console", "settings")
    else:
        from hub.cli.direct import local_settings  # imported only when no hub runs

        here = local_settings()
        file = str(here.env_file) if here.env_file else None
        answer = {"settings": here.explained(), "notes": here.notes, "envFile": file}
        output.note(f"no hub listens at {mask_url(at.url)}; these are the settings of a hub that is started here.")
    return CommandAnswer(answer, lambda: _SETTINGS.put(answer["settings"]))


def _set_by(row: Row) -> str:
    return f"{row['setBy']}, over {row['agreed'] or 'nothing'}" if row["setBy"] else ""


def _otherwise(row: Row) -> str:
    """Return the hubs whose environment has another value of a setting, each with its value, as one text."""
    return ", ".join(f"{value or 'nothing'} by hub {hub}" for hub, value in row["otherwise"].items())


_SETTINGS = Listing("settings", {"SETTING": "name", "VALUE": "value", "DEFAULT": "default", "SOURCE": "source"})
_SHARED = Listing(
    "settings", {"SETTING": "name", "HOLDS FOR ALL": "value", "SET BY": _set_by, "GIVEN OTHERWISE": _otherwise}
)
