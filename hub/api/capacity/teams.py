"""The endpoints of teams: what each is to have of pools and what it has, and the changes of that."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request

from hub.api.inputs import Audit, Hub, Sent, hub_of
from hub.api.operations import operation, takes
from hub.api.shapes import parameters as p
from hub.api.shapes.answer import Answer
from hub.api.shapes.readers import reading_with
from hub.api.shapes.teams import TeamBody, TeamRemovedShape, TeamRowShape, TeamShape, TeamsShape
from hub.errors import BadInput, InvalidValue, MissingMember
from hub.teams.models import TeamNow, TeamRow, read_pattern
from hub.tokens.models import read_team
from hub.tokens.secrets import ADMIN, NODE, RUNNER

router = APIRouter(tags=["admin"])
_team, _pattern = reading_with(read_team), reading_with(read_pattern)


def _asked(request: Request) -> str:
    """Return the team in the path; raises `InvalidValue`."""
    hub_of(request)  # raises for a request that was not let in
    return str(_team(request.path_params["team"], "team"))


@takes(p.OF_PATTERN, refusals=(MissingMember, InvalidValue))
def _under(request: Request) -> str:
    """Return the pattern in the query; raises `MissingMember` and `InvalidValue`."""
    if not (given := request.query_params.get("label")):
        raise MissingMember("missing label: the pattern of pools, such as gpu:*", member="label")
    return str(_pattern(given, "label"))


Team = Annotated[str, Depends(_asked)]
Pattern = Annotated[str, Depends(_under)]


@router.get("/teams", **operation("listTeams", (RUNNER, ADMIN, NODE), shared=True, borrows=True))
async def teams(hub: Hub) -> Answer[TeamsShape]:
    """Return what teams are to have of pools and what they have, the longest pattern first, in the order in which they
    are served. Teams without a row that hold or wait under a pattern stand there too."""
    found, warnings = await hub.teams.now(), await hub.teams.warnings()
    return Answer(TeamsShape(teams=list(map(_shown, found)), warnings=list(warnings.values())))


@router.put("/admin/teams/{team}", **operation("setTeam", (ADMIN,), refusals=(InvalidValue, MissingMember, BadInput)))
async def set_team(hub: Hub, team: Team, said: Sent[TeamBody], audit: Audit) -> Answer[TeamRowShape]:
    """Set what a team is to have of the pools whose labels fit a pattern, for all hubs; what is left out is as for a
    team without a row. Team is that of the borrower's token.

    It counts at once, also for the slots that are lent. A `warning` says that the guarantees exceed the slots that are
    published; they are kept in proportion then.
    """
    by = audit.name(said.by)
    row = await hub.teams.set(TeamRow(team, said.label, said.guarantee, said.ceiling, said.weight, by))
    ceiling = "none" if row.ceiling is None else row.ceiling
    await audit.write(
        "admin", "team.set", actor=by, team=team, pattern=row.pattern, guarantee=row.guarantee, ceiling=ceiling,
        weight=f"{row.weight:g}",
    )  # fmt: skip
    found = TeamRowShape(
        team=team, label=row.pattern, guarantee=row.guarantee, ceiling=row.ceiling, weight=row.weight, setBy=row.by,
        setAtUtc=row.at,
    )  # fmt: skip
    if row.guarantee and (warning := (await hub.teams.warnings()).get(row.pattern)):
        found["warning"] = warning
    return Answer(found)


@router.delete("/admin/teams/{team}", **operation("removeTeam", (ADMIN,)))
async def remove_team(hub: Hub, team: Team, pattern: Pattern, audit: Audit) -> Answer[TeamRemovedShape]:
    """Remove the row of a team for a pattern, for all hubs. The team goes on as one without guarantee and ceiling."""
    await hub.teams.remove(team, pattern)
    await audit.write("admin", "team.remove", actor=audit.name(""), team=team, pattern=pattern)
    return Answer(TeamRemovedShape(removed=team, label=pattern))


def _shown(each: TeamNow) -> TeamShape:
    row = each.row
    return TeamShape(
        team=each.team,
        label=each.pattern,
        guarantee=row and row.guarantee,
        ceiling=row and row.ceiling,
        weight=row and row.weight,
        held=each.held,
        due=round(float(each.due), 1),
        waiting=each.waiting,
        recalled=each.recalled,
        share=None if each.share is None else round(each.share, 6),
        setBy=row and row.by,
        setAtUtc=row and row.at,
    )
