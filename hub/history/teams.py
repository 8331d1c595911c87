"""The words of explanations and refusals about teams: what a team has where it waits, and what keeps it from more."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from hub.capacity.models import BorrowRequest, LeaseHolder
from hub.capacity.wishes import BundleWish
from hub.core import Hub
from hub.history.explained import Now
from hub.history.wants import is_of
from hub.teams.models import TeamNow, pattern_of

POOLS_MAX = 1000  # pools that are looked at


class TeamPlace(NamedTuple):
    """A team under a pattern whose rows count for a borrow of it, the other teams there, and how many slots the borrow
    takes of these pools at least."""

    own: TeamNow
    others: list[TeamNow]
    least: int

    @property
    def is_beyond(self) -> bool:
        """Return whether the borrow takes more than the ceiling of the team, whatever that holds."""
        ceiling = self.own.terms.ceiling
        return ceiling is not None and self.least > ceiling

    @property
    def full(self) -> str:
        """Return a sentence that says that the ceiling of the team keeps the borrow waiting; '' where it does not."""
        own, name, ceiling = self.own, _named(self.own.team), self.own.terms.ceiling
        if ceiling is None or own.held + own.kept + max(1, self.least) <= ceiling:
            return ""
        if self.is_beyond:
            never = "so it is never served as things are (hub team set)"
            return f"it wants {self.least} under {own.pattern}, and the ceiling of {name} there is {ceiling}, {never}"
        more = f", and it wants {self.least} more" if self.least > 1 else ""
        more += f", and room for {own.kept} is kept for a bundle of it" if own.kept else ""
        return f"{name} has {own.held} of the {ceiling} slots that its ceiling under {own.pattern} allows{more}"

    @property
    def opens(self) -> str:
        """Return the sentence that says what must happen before the ceiling of the team has room for the borrow."""
        name = _named(self.own.team)
        if self.is_beyond:
            return f"When the ceiling of {name} is raised (hub team set)."
        return f"When a lease of {name} ends, or its ceiling is raised (hub team set)."


async def at_ceiling(hub: Hub, wanted: BorrowRequest) -> str:
    """Return a sentence that says that the ceiling of its team keeps a borrow from a pool that may serve it; '' where
    none does."""
    if not hub.teams.is_used:
        return ""
    wish = BundleWish.read(wanted.bundle)
    return next(iter(await ceilings_on(hub, LeaseHolder.read(wanted.holder), wanted.labels, wish)), "")


async def ceilings_on(
    hub: Hub, holder: LeaseHolder | None, labels: tuple[str, ...], wish: BundleWish | None
) -> list[str]:
    """Return a sentence for each ceiling of the team of a holder that keeps a borrow waiting."""
    return [each.full for each in await _places(hub, holder, labels, wish) if each.full]


async def with_team(
    hub: Hub, now: Now, holder: LeaseHolder | None, labels: tuple[str, ...], wish: BundleWish | None
) -> Now:
    """Return how a ticket is with what holds for its team; the same where no row of teams counts for its labels. A
    bundle keeps its own line, outside the order of teams: only ceilings count for it."""
    places = await _places(hub, holder, labels, wish)
    if not places:
        return now
    steps = now.next
    if all(each.full for each in places):
        steps = (replace(steps[0], rule=places[0].opens, in_ms=None), steps[-1])
    elif not wish:
        rule = "When a slot it may use becomes free and its team is next: below its guarantee, else with the least."
        steps = (replace(steps[0], rule=rule), *steps[1:])
    why = [said for each in places for said in ([each.full] if each.full else [] if wish else _stands(each))]
    because = "; ".join([now.because.removesuffix("."), *why]) + "."
    return replace(now, because=because, facts={**now.facts, "teams": list(map(_facts, places))}, next=steps)


async def _places(
    hub: Hub, holder: LeaseHolder | None, labels: tuple[str, ...], wish: BundleWish | None
) -> list[TeamPlace]:
    """Return the places of the team of a holder: one for each pattern whose rows count for a pool that may serve a
    borrow, or a part of a bundle. To a bundle no room is shown that is kept for one: it may be kept for itself."""
    counts = await hub.teams.counts()
    if not counts:
        return []
    patterns, team = {each.pattern for each in counts}, (holder.team if holder else None) or ""
    _, pools = await hub.pools.labels(0, POOLS_MAX)
    least: dict[str | None, int] = {}
    for some, number in [((part.label,), part.number) for part in wish.parts] if wish else [(labels, 1)]:
        serving = [pool for pool in pools if any(is_of(pool, label, hub.agreed.holds) for label in some)]
        of = dict.fromkeys(pattern_of(pool, patterns) for pool in serving)
        for pattern in of:
            least[pattern] = least.get(pattern, 0) + (number if len(of) == 1 else 0)
    found = []
    for pattern, number in least.items():
        if pattern is not None:
            here = [each for each in counts if each.pattern == pattern]
            own = next((each for each in here if each.team == team), TeamNow(team, pattern, None, 0, 0, 0, 0.0))
            others = [each for each in here if each is not own]
            found.append(TeamPlace(own._replace(kept=0) if wish else own, others, number))
    return found


def _before(place: TeamPlace) -> list[TeamNow]:
    return [each for each in place.others if each.waiting > each.bundles and _is_before(each, place.own)]


def _recalled(place: TeamPlace) -> int:
    own = place.own
    return sum(each.recalled for each in place.others) if own.held < own.terms.guarantee else 0


def _is_before(other: TeamNow, own: TeamNow) -> bool:
    return other.share is not None and (own.share is None or other.share < own.share)


def _stands(place: TeamPlace) -> list[str]:
    own, row = place.own, place.own.terms
    slots = f"{own.held} {'slot' if own.held == 1 else 'slots'} under {own.pattern}"
    below = f"below its guarantee of {row.guarantee}" if own.held < row.guarantee else f"at the weight {row.weight:g}"
    found = [f"{_named(own.team)} has {slots}, {below}"]
    if before := _before(place):
        found.append(f"{_named(before[0].team)} is before it with {before[0].held}")
    if recalled := _recalled(place):
        found.append(f"{recalled} {'lease of another team is' if recalled == 1 else 'leases of others are'} recalled")
    return found


def _named(team: str) -> str:
    return f"team {team}" if team else "the team of the shared secrets"


def _facts(place: TeamPlace) -> dict[str, Any]:
    own, row = place.own, place.own.terms
    return {
        "team": own.team, "pattern": own.pattern, "held": own.held, "guarantee": row.guarantee,
        "ceiling": row.ceiling, "weight": row.weight, "share": None if own.share is None else round(own.share, 6),
        "before": [each.team for each in _before(place)], "recalled": _recalled(place),
    }  # fmt: skip
