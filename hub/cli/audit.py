"""`hub audit ls`: show which changes were made, by whom and why."""

from __future__ import annotations

from functools import partial

from typer import Option

from hub.cli import output
from hub.cli.answers import Columns, CommandAnswer, Listing, time_of
from hub.cli.command import command
from hub.cli.connection import HubApi
from hub.cli.inputs import given
from hub.cli.options import TEXT, list_limit


@command("admin")
async def audit(
    hub: HubApi,
    category: str | None = TEXT.option("Show only entries of this category, such as admin."),
    action: str | None = TEXT.option("Show only entries of this action, such as node.drain."),
    since: str | None = TEXT.option("Show only entries from this time on, such as 2026-01-02T03:04:05Z."),
    search: str | None = TEXT.option("Show only entries that contain this text."),
    skip: int = Option(0, min=0, help="Leave out the N newest entries."),
    limit: int = list_limit(1000),
) -> CommandAnswer:
    """Show the audit log, newest first: changes of operators, nodes and hubs."""
    asked = given({"category": category, "action": action, "sinceUtc": since, "q": search})
    entries = await hub.rows("audit", skip=skip, take=limit, **asked)
    shown = partial(_ENTRIES.put, entries) if entries else "The audit log has no such entry."
    return CommandAnswer({"entries": entries}, shown)


_COLUMNS: Columns = {
    "WHEN": time_of("timestamp"),
    "ACTION": lambda row: row.get("action"),
    "ACTOR": lambda row: row.get("actor"),
    "BY": lambda row: row.get("by"),
    "FROM": lambda row: row.get("remoteIp"),
    "DETAILS": lambda row: output.pairs(row.get("details") or {}),
}
_ENTRIES = Listing("entries", _COLUMNS, expendable=("FROM", "BY"))
