"""`hub usage`: show who used what."""

from __future__ import annotations

import csv
import io

from typer import Option

from hub.cli import output
from hub.cli.answers import CommandAnswer, Listing, duration_of
from hub.cli.command import command
from hub.cli.connection import HubApi, Row
from hub.cli.inputs import Usage
from hub.cli.options import AS_JSON, list_limit
from hub.usage.models import Kind

_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet would run what begins so
_FIGURES = ("leases", "heldSeconds", "waitedSeconds", "idleSeconds", "refusals")


@command("figures")
async def usage(
    hub: HubApi,
    by: Kind = Option("user", "--by", help="What to show the figures of."),
    since: str = Option("30d", "--since", metavar="DAY", help="The first day: 2026-01-02, or 30d for 30 days ago."),
    until: str = Option("0d", "--until", metavar="DAY", help="The last day; default: today."),
    as_csv: bool = Option(False, "--csv", help="Print a table for a spreadsheet (RFC 4180)."),
    limit: int = list_limit(1000),
    as_json: bool = AS_JSON,
) -> CommandAnswer:
    """Show who used what, by UTC day: leases, the time they were held, waited for and idle, and refused borrows."""
    if as_csv and as_json:
        raise Usage("Say one of --csv and --json.")
    answer = await _USAGE.whole(hub, limit, "usage", by=by, since=since, until=until)
    rows = answer["usage"]

    def show() -> None:
        if as_csv:
            return output.put_rendered(_csv(by, rows).removesuffix("\n"))
        _USAGE.put(rows)
        held, leases = output.duration(answer["sum"]["heldSeconds"]), output.plural(answer["sum"]["leases"], "lease")
        output.note(f"From {answer['since']} to {answer['until']}, in UTC: {leases}, held for {held} in all.")
        if answer["total"] > len(rows):
            output.note(f"{len(rows)} of {answer['total']} {by}s shown; --limit shows more.")
        return None

    return CommandAnswer(answer, show)


def _csv(by: str, rows: list[Row]) -> str:
    """Return rows as CSV, with a name that a spreadsheet would take for a formula behind an apostrophe."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow((by, *_FIGURES))
    for row in rows:
        name = output.one_line(str(row["name"]))
        writer.writerow(("'" + name if name.startswith(_FORMULA) else name, *(row[figure] for figure in _FIGURES)))
    return text.getvalue()


_USAGE = Listing(
    "usage",
    {
        "NAME": "name",
        "LEASES": "leases",
        "HELD": duration_of("heldSeconds"),
        "WAITED": duration_of("waitedSeconds"),
        "IDLE": duration_of("idleSeconds"),
        "REFUSALS": "refusals",
    },
    numbers=("LEASES", "HELD", "WAITED", "IDLE", "REFUSALS"),
)
