"""`hub recovery report`: prints, source by source, the numbers of records that were stuck, were reset, and failed.

The report is Markdown for people who did not watch the recovery.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from hub.cli import output
from hub.cli.answers import Columns, CommandAnswer, cells
from hub.cli.connection import HubApi, Row, members
from hub.cli.inputs import span
from hub.cli.options import Input

_DAY_S = 86_400.0
_COLUMNS: Columns = {
    "Source": "source", "Most stuck at once": "mostStuck", "Brought back": "reset", "Failed for good": "failed",
    "Late outcomes written": "written", "Passes": "passes", "Errors": "errors", "Worst level": "worstLevel",
    "Found by the last pass": "lastFound",
}  # fmt: skip


async def report(
    hub: HubApi,
    since: float = Input("TIME", span(_DAY_S, 90 * _DAY_S, "1d to 90d")).option(
        "The days to report, today included, such as 7d.", default="7d"
    ),
) -> CommandAnswer:
    """Report in Markdown what the hub found stuck, reset and gave up in each source."""
    answer = await hub.get("console", "report", "stuck", days=math.ceil(since / _DAY_S))
    return CommandAnswer(answer, lambda: output.put("\n".join(_markdown(answer))))


def _markdown(report: Row) -> Iterable[str]:
    _, sources = members({"total": 0, **report}, "sources")
    yield f"# Stuck records, {report.get('from')} to {report.get('to')}"
    yield ""
    if not sources:
        yield "No source is known: no hub has declared one within a week."
        return
    yield _sentence(sources)
    yield ""
    yield from _table([*_COLUMNS], [cells(_COLUMNS, source) for source in sources])
    days = ({**day, "source": source.get("source")} for source in sources for day in source.get("days") or ())
    if rows := [(day.get("day"), *cells(_COLUMNS, day)[:-1]) for day in days if _eventful(day)]:
        yield from ("", "## Days on which something was stuck", "")
        yield from _table(["Day", *_COLUMNS][:-1], sorted(rows, key=lambda row: str(row[0])))
    yield ""
    yield "Days are UTC. What passes of the hub did is counted, and not what was reset by hand."


def _sentence(sources: Sequence[Row]) -> str:
    reset, failed, errors = (
        sum(int(source.get(name) or 0) for source in sources) for name in ("reset", "failed", "errors")
    )
    back = f"{output.plural(reset, 'record')} {'was' if reset == 1 else 'were'} brought back"
    idle = [output.one_line(str(source.get("source"))) for source in sources if not source.get("passes")]
    unseen = f" No pass was made over {', '.join(idle)}." if idle else ""
    return (
        f"Over {output.plural(len(sources), 'source')} {back}, {failed} failed for good, and passes met "
        f"{output.plural(errors, 'error')}.{unseen}"
    )


def _eventful(day: Row) -> bool:
    return any(day.get(name) for name in ("mostStuck", "reset", "failed", "written", "errors"))


def _table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Iterable[str]:
    yield f"| {' | '.join(columns)} |"
    yield "|" + "---|" * len(columns)
    for row in rows:
        yield f"| {' | '.join(map(_cell, row))} |"


def _cell(value: Any) -> str:
    return "-" if value is None else output.one_line(str(value)).replace("\\", "\\\\").replace("|", "\\|")
