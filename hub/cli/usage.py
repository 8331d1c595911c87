"""`hub usage`: shows which users and rooms hold most tasks, schemas, schedules, providers and rooms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import typer

from hub.cli import output, tables
from hub.cli.answers import CommandAnswer
from hub.cli.command import command
from hub.cli.connection import HubApi

_COLUMNS = ("WHAT", "OWNER", "NAME", "HELD", "AT MOST", "SHARE")
_IN_BYTES: Final = {"tasks": "open tasks", "schemas": "schemas"}
OfTheStore = Annotated[bool, typer.Option("--store", help="Show as well how much of its memory Redis has in use.")]


@command()
async def usage(hub: HubApi, store: OfTheStore = False) -> CommandAnswer:
    """Show which users and rooms hold most of the open tasks, schemas, schedules, providers and rooms."""
    answer = await hub.get("console", "usage")

    def show() -> None:
        if store:
            tables.put_facts([("STORE", memory(answer["store"]))])
        rows = [_row(holder) for holder in answer["holders"]]
        tables.put_table(_COLUMNS, rows, numbers=("HELD", "AT MOST", "SHARE"))

    return CommandAnswer(answer if store else {"holders": answer["holders"]}, show)


def memory(store: Mapping[str, Any]) -> str:
    """Return a text on the memory of Redis: the bytes in use, its limit, and the reserve for nodes and leases."""
    used, most, reserve = (store.get(name) or 0 for name in ("usedBytes", "limitBytes", "reserveBytes"))
    if not most:
        return f"{output.size(used)} in use; Redis has no maxmemory"
    kept = f"{output.size(reserve)} kept for nodes, leases and ends"
    return f"{output.size(used)} of {output.size(most)} in use, {kept}"


def most_held(holders: Sequence[Mapping[str, Any]]) -> str:
    """Return a text on the user with most bytes of open tasks; empty when there is none."""
    for each in holders:
        if each["kind"] == "tasks" and each["owner"] == "user":
            return f"; user {output.one_line(str(each['name']))} holds {output.size(each['held'])} of open tasks"
    return ""


def _row(each: Mapping[str, Any]) -> Sequence[Any]:
    shown = output.size if each["kind"] in _IN_BYTES else str
    share = f"{100 * each['held'] / each['limit']:.0f} %"
    what = _IN_BYTES.get(str(each["kind"]), each["kind"])
    return (what, each["owner"], each["name"], shown(each["held"]), shown(each["limit"]), share)
