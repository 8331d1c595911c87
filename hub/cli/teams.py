"""`hub team set`, `rm` and `ls`: what teams that share pools may have, hold and wait for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from typer import Option

from hub.cli import completing, output
from hub.cli.answers import CommandAnswer, Listing, time_of
from hub.cli.command import command
from hub.cli.connection import HubApi, Row
from hub.cli.environment import caller
from hub.cli.inputs import Usage, given, reader
from hub.cli.options import Input
from hub.teams.models import read_pattern
from hub.tokens.models import read_team

_NONE = "none"
_TEAM = Input("TEAM", reader(lambda text: read_team(text.strip()))).argument("The team, as tokens name it.")
_PATTERN = Input("PATTERN", reader(read_pattern), completing.pools).option(
    "Labels of pools, in quotes; * stands for any text, as in 'gpu:*'.", "--label", default=...
)


@command("admin")
async def set_row(
    hub: HubApi,
    team: str = _TEAM,
    pattern: str = _PATTERN,
    guarantee: int = Option(0, "--guarantee", min=0, help="Slots that the team may always have."),
    ceiling: int | None = Option(None, "--ceiling", min=0, help="The most slots that it may have. Default: no limit."),
    weight: float = Option(1.0, "--weight", metavar="W", help="Its share beside other teams: 2 is twice that of 1."),
) -> CommandAnswer:
    """Set what a team is to have of the pools that fit a pattern, for all hubs. An option left out is its default.

    The rows of the longest pattern that fits a pool count there.
    """
    if not 0.01 <= weight <= 1000:
        raise Usage(f"--weight is {weight:g}, and must be a number from 0.01 to 1000.")
    wish = {"label": pattern, "guarantee": guarantee, "ceiling": ceiling, "weight": weight, "by": caller()}
    row = await hub.ask("PUT", "admin", "teams", team, body=given(wish))
    most = "any number" if row["ceiling"] is None else f"at most {row['ceiling']}"
    said = f"{row['guarantee']} guaranteed, {most}, weight {row['weight']:g}"
    notes = [row["warning"]] if row.get("warning") else []
    return CommandAnswer(row, f"{output.one_line(team)} of {output.one_line(pattern)}: {said}.", notes)


@command("admin")
async def rm(hub: HubApi, team: str = _TEAM, pattern: str = _PATTERN) -> CommandAnswer:
    """Remove the row of a team for a pattern, for all hubs."""
    answer = await hub.ask("DELETE", "admin", "teams", team, label=pattern)
    return CommandAnswer(answer, f"{output.one_line(team)} has no row for {output.one_line(pattern)} now.")


@command()
async def ls(hub: HubApi) -> CommandAnswer:
    """Show the teams that share pools, in the order in which they are served."""
    answer = await hub.get("teams")

    def show() -> None:
        if answer["teams"]:
            _TEAMS.put(answer["teams"])
        else:
            output.put("No team has a row; hub team set TEAM --label PATTERN makes one.")

    return CommandAnswer(answer, show, answer["warnings"])


def _or_none(member: str) -> Callable[[Row], Any]:
    return lambda row: _NONE if row.get(member) in (None, "") else row[member]


def _weight(row: Row) -> str:
    return _NONE if row["weight"] is None else f"{row['weight']:g}"


_TEAMS = Listing(
    "teams",
    {
        "TEAM": _or_none("team"), "LABEL": "label", "HELD": "held", "DUE": "due", "WAITING": "waiting",
        "RECALLED": "recalled", "GUARANTEE": _or_none("guarantee"), "CEILING": _or_none("ceiling"),
        "WEIGHT": _weight, "SET BY": "setBy", "SET": time_of("setAt"),
    },
    numbers=("HELD", "DUE", "WAITING", "RECALLED", "GUARANTEE", "CEILING", "WEIGHT"),
    expendable=("SET", "SET BY"),
)  # fmt: skip
