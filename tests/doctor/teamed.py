"""Rows of teams and borrowers with teams, by the commands that set and lend."""

from __future__ import annotations

import json
from typing import Any

from hub.core import Hub
from tests.doctor.classed import ask


async def set_team(
    hub: Hub, team: str, pattern: str = "gpu:*", *, guarantee: int = 0, ceiling: int | None = None, weight: float = 1
) -> None:
    """Set the row of a team."""
    row: dict[str, Any] = {"guarantee": guarantee, "weight": weight, "by": "t"}
    row |= {} if ceiling is None else {"ceiling": ceiling}
    await hub.store.script("teams/set")(team=team, pattern=pattern, row=json.dumps(row), most=256)


async def remove_team(hub: Hub, team: str, pattern: str = "gpu:*") -> None:
    """Remove the row of a team."""
    await hub.store.script("teams/set")(team=team, pattern=pattern, row="", most=256)


def holder_of(team: str) -> str:
    """Return the holder of a borrow with a token of a team, '' for a shared secret."""
    user = {"user": f"u-{team}", "userId": f"u-{team}"} if team else {"user": None}
    return json.dumps({**user, "team": team or None, "name": "n", "client": ""})


async def want(hub: Hub, team: str, ticket: str, label: str, **more: Any) -> list[Any]:
    """Borrow for a team; return what the command answers."""
    return await ask(hub, ticket, (label, more.pop("where", "")), holder=holder_of(team), **more)


async def balance(hub: Hub) -> None:
    """Do a round of the teams, and what is due for leases that end."""
    await hub.store.script("teams/balance")()
    await hub.store.script("capacity/enforce")(limit=32)
