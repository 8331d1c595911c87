"""The endpoint of usage: who used what in some days, by user, team, label, slot or node."""

from __future__ import annotations

import re
from datetime import date, timedelta
from typing import Annotated

from fastapi import APIRouter, Depends, Request

from hub.api.inputs import Hub, Page, hub_of
from hub.api.operations import operation, takes
from hub.api.shapes import parameters as p
from hub.api.shapes.answer import Answer
from hub.api.shapes.usage import DayShape, FiguresShape, UsageRowShape, UsageShape
from hub.errors import InvalidValue
from hub.tokens.secrets import ADMIN, RUNNER
from hub.usage.models import DAY_S, KINDS, Figures, Kind

EPOCH = date(1970, 1, 1)
_AGO = re.compile(r"(\d{1,4})d", re.ASCII)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
router = APIRouter(tags=["sessions"])
UsageQuery = tuple[Kind, int, int]


@takes(p.USAGE_BY, p.USAGE_SINCE, p.USAGE_UNTIL, refusals=(InvalidValue,))
def _asked(request: Request) -> UsageQuery:
    """Return the kind of names, and the first and the last day, as days since 1970; raises `InvalidValue`."""
    query, today = request.query_params, int(hub_of(request).store.wall_s()) // DAY_S
    kind = query.get("by", "user")
    if kind not in KINDS:
        raise InvalidValue(f"by is one of {', '.join(KINDS)}", member="by")
    first, last = _day(query.get("since", "30d"), "since", today), _day(query.get("until", "0d"), "until", today)
    if first > last:
        raise InvalidValue("since is a later day than until", member="since")
    return kind, first, min(last, today)


def _day(given: str, name: str, today: int) -> int:
    """Return the day that a text names: a date, or how many days ago; raises `InvalidValue`."""
    try:
        if ago := _AGO.fullmatch(given):
            return max(0, today - int(ago[1]))
        if _DATE.fullmatch(given):
            return max(0, (date.fromisoformat(given) - EPOCH).days)
    except ValueError:  # such as 2026-02-30
        pass
    raise InvalidValue(f"{name} is a day such as 2026-01-02, or 30d for 30 days ago", member=name)


@router.get("/usage", **operation("getUsage", (RUNNER, ADMIN)))
async def usage(hub: Hub, asked: Annotated[UsageQuery, Depends(_asked)], page: Page) -> Answer[UsageShape]:
    """Return who used what from one day to another, in UTC: a page of users, teams, labels, slots or nodes, those first
    that held slots for longest, the sum of all, and the sums of each day. Leases that are not over count up to now."""
    kind, first, last = asked
    names, days = await hub.usage.read(kind, first, last)
    rows = sorted(names.items(), key=lambda row: (-row[1].held_ms, -row[1].refusals, row[0]))
    total = Figures()
    for figures in names.values():
        total = total.plus(figures)
    offset, limit = page
    return Answer(
        UsageShape(
            by=kind,
            since=_text(first),
            until=_text(last),
            total=len(rows),
            usage=[UsageRowShape(name=name, **_shown(each)) for name, each in rows[offset : offset + limit]],
            sum=_shown(total),
            days=[DayShape(day=_text(day), **_shown(days[day])) for day in sorted(days)],
        )
    )


def _text(day: int) -> str:
    return (EPOCH + timedelta(days=day)).isoformat()


def _shown(figures: Figures) -> FiguresShape:
    return FiguresShape(
        leases=figures.leases,
        heldSeconds=figures.held_ms / 1000,
        waitedSeconds=figures.waited_ms / 1000,
        idleSeconds=figures.idle_ms / 1000,
        refusals=figures.refusals,
    )
