"""The losses of an outage, judged against the promises, and their table. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

SLACK_S = 1.0  # the jitter of the interval, the pass itself, looking ten times a second, a beat put into Redis


@dataclass(frozen=True)
class Found:
    """How soon dead nodes were off the books: the slowest of them, and the time that is promised.

    `stood_s`: how long the hub clock stood still meanwhile, because no hub could hear; no timeout runs then.
    """

    seconds: float
    stood_s: float
    within_s: float
    who: str = ""

    @property
    def kept(self) -> bool:
        return self.seconds - self.stood_s <= self.within_s + SLACK_S

    def text(self) -> str:
        who = f"{self.who}: " if self.who else ""
        stood = f" (the hub clock stood still for {self.stood_s:.1f} s)" if self.stood_s >= SLACK_S else ""
        return f"{who}{self.seconds:.1f} s of {self.within_s:.1f} s{stood}"


@dataclass(frozen=True)
class Outcome:
    """The result of one scenario. Every count should be 0."""

    title: str
    away_s: float
    expired: int = 0  # healthy nodes
    lost: int = 0  # leases of healthy nodes
    twice: int = 0  # slots that two were sure to hold at once
    idle: int = 0  # wanted slots that are not lent some time afterwards
    heard_s: float = 0.0  # until every healthy node was heard again
    found: tuple[Found, ...] = ()
    faults: tuple[str, ...] = ()
    details: tuple[str, ...] = ()

    @property
    def broken(self) -> list[str]:
        """Every promise that was not kept, one sentence each."""
        said = [
            (self.expired > 0, f"{self.expired:,} healthy nodes expired"),
            (self.lost > 0, f"{self.lost:,} leases lost"),
            (self.twice > 0, f"{self.twice:,} slots lent twice"),
            (self.idle > 0, f"{self.idle:,} wanted slots idle"),
            *((not each.kept, f"dead nodes found late, {each.text()}") for each in self.found),
        ]
        return [text for wrong, text in said if wrong] + list(self.faults)

    def row(self) -> str:
        """Return its line of the table."""
        cells = (
            self.title,
            f"{self.away_s:.0f} s",
            f"{self.expired:,}",
            f"{self.lost:,}",
            f"{self.twice:,}",
            f"{self.idle:,}",
            f"{self.heard_s:.1f} s",
            "; ".join(each.text() for each in self.found),
            "**no**" if self.broken else "yes",
        )
        return f"| {' | '.join(cells)} |"


HEAD = (
    "| Outage | Lasted | Healthy nodes expired | Leases lost | Slots lent twice | Wanted slots left idle "
    "| All nodes heard again after | Dead nodes found after, of timeout + sweep interval | Kept |\n"
    "|---|---|---|---|---|---|---|---|---|"
)


def table(outcomes: Iterable[Outcome]) -> str:
    """Return all outcomes as a Markdown table."""
    return "\n".join([HEAD, *(outcome.row() for outcome in outcomes)])
