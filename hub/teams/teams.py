"""Teams: what they are to have of pools, for all hubs at once, and the recalls of leases that follow from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from hub.capacity.pools import Pools
from hub.errors import BadInput, InvalidValue, StartRefused, UnknownReply
from hub.observability import metrics
from hub.observability.logs import get_logger
from hub.store.rounds import rounds
from hub.store.store import Store
from hub.teams.file import BY, TeamsFile, rejected
from hub.teams.models import ROWS_MAX, TeamNow, TeamRow, check_row, dues, pattern_of, too_much

ROUND_S: Final = 1.0  # how often a hub looks whether a team lacks its guarantee
POOLS_MAX: Final = 1_000_000
_log = get_logger("hub.teams")


class Teams:
    """The rows of the teams of a store, and the round that recalls leases. Each hub remembers the rows as it read them
    last, and tells them a store that has lost them.
    """

    def __init__(self, store: Store, pools: Pools) -> None:
        self._store = store
        self._pools = pools
        self._number = ""  # of the last change that this hub knows
        self._known: Mapping[str, str] = {}
        self._file = TeamsFile(None)
        self._used = 0  # which reading of the file the store has
        self._set = store.script("teams/set")
        self._recall = store.script("teams/recall")
        self._balance = store.script("teams/balance")
        self._describe = store.script("teams/describe")
        store.when_replaced(self.recall)

    async def all(self) -> list[TeamRow]:
        """Return all rows, the longest pattern first, and by team."""
        return _rows(await self._store.read("HGETALL", self._store.keys.teams))

    async def set(self, row: TeamRow) -> TeamRow:
        """Set the row of a team for a pattern; return it as the store has it.

        Raises `InvalidValue` for a ceiling below the guarantee, and `BadInput` for a row beyond `ROWS_MAX`.
        """
        try:
            check_row(row)
        except ValueError as error:
            raise InvalidValue(str(error), member="ceiling") from None
        return TeamRow.read(_field(row), await self._change(row.team, row.pattern, row.text))

    async def remove(self, team: str, pattern: str) -> None:
        """Remove the row of a team for a pattern, if there is one."""
        await self._change(team, pattern, "")

    async def _change(self, team: str, pattern: str, row: str) -> str:
        reply = await self._set(team=team, pattern=pattern, row=row, most=ROWS_MAX)
        match reply:
            case ["ok", text]:
                await self._read()
                return str(text)
            case ["full"]:
                raise BadInput(f"there are {ROWS_MAX} rows of teams already; remove one, or use a pattern with *")
        raise UnknownReply(self._set.name, reply)

    async def now(self) -> list[TeamNow]:
        """Return what teams have, by pattern and in the order in which they are served; also those without a row that
        hold or wait."""
        found = await self.counts()
        supply = await self.supply({each.pattern for each in found})
        for pattern in supply:
            at = [n for n, each in enumerate(found) if each.pattern == pattern]
            for n, due in zip(at, dues(supply[pattern], [found[n].terms for n in at]), strict=True):
                found[n] = found[n]._replace(due=due)
        return found

    async def counts(self) -> list[TeamNow]:
        """Return what `now` does, without what is due."""
        found = []
        for pattern, *teams in await self._describe():
            for team, text, held, singles, recalled, share, bundles, kept in teams:
                row, waiting = TeamRow.read(f"{pattern}\t{team}", text) if text else None, singles + bundles
                if row or held or waiting:
                    counted = held, waiting, recalled, _share(share, row), bundles, kept
                    found.append(TeamNow(team, pattern, row, *counted))
        return found

    async def supply(self, patterns: Iterable[str]) -> dict[str, int]:
        """Return how many slots are published in the pools for which the rows of each pattern count."""
        found = dict.fromkeys(patterns, 0)
        if found:
            _, labels = await self._pools.labels(0, POOLS_MAX)
            for pool in await self._pools.describe(labels):
                if pattern := pattern_of(pool.label, found):
                    found[pattern] += pool.published
        return found

    @property
    def is_used(self) -> bool:
        """Return whether there is any row, as this hub has read it last."""
        return bool(self._known)

    async def warnings(self) -> dict[str, str]:
        """Return by pattern a sentence on guarantees that exceed the slots that are published."""
        rows = await self.all()
        return too_much(await self.supply({row.pattern for row in rows}), rows)

    def follow(self, file: TeamsFile) -> None:
        """Have the store take the rows of a file with the next round, and again after each further reading of it."""
        self._file, self._used = file, 0

    async def use_file(self) -> None:
        """Set the rows of the file, if it has been read since they were set last. Rows that it does not name stay.

        Raises `StartRefused` where there is no room for them: then the rows stay as they are until it is read again.
        """
        reading = self._file.readings
        if reading == self._used:
            return
        known = {_field(row): row for row in await self.all()}
        if (new := len({*map(_field, self._file.rows)} - known.keys())) and len(known) + new > ROWS_MAX:
            self._used = reading
            raise StartRefused(
                f"HUB_TEAMS_FILE={self._file.path}: its {new} new rows are too many, as the store has {len(known)} of "
                f"at most {ROWS_MAX}; start without it and remove some (hub team rm), or use patterns with *."
            )
        for row in self._file.rows:
            before = known.get(_field(row))
            if before is None or before._replace(at="") != row:
                await self.set(row)
                _log.info("team set", team=row.team, label=row.pattern, by=BY)
        self._used = reading

    async def go_round(self) -> None:
        """Call `balance` once a second, for ever."""
        await rounds(ROUND_S, self._round, self._failed)

    async def _round(self) -> None:
        try:
            await self.use_file()
        except StartRefused as error:
            rejected(error, len(self._known))
        await self.balance()

    def _failed(self, error: Exception) -> None:
        metrics.sweep_errors.labels("teams").inc()
        _log.error("round of teams failed", why=repr(error))

    async def balance(self) -> None:
        """Recall leases where a team lacks its guarantee, and let those go that nobody lacks any more. Any hub may do
        it."""
        _, number = await self._balance()
        if number != self._number:
            await self._read()

    async def _read(self) -> None:
        keys = self._store.keys
        number, found = await self._store.read_all([("HGET", keys.store, "teams_number"), ("HGETALL", keys.teams)])
        self._number, self._known = number or "", found

    async def recall(self) -> None:
        """Tell a store that lost data the rows, unless it has later ones."""
        if not self._number:
            return
        rest = [text for each in self._known.items() for text in each]
        (word,) = await self._recall(number=self._number, rest=rest)
        if word == "taken":
            _log.warning("rows of teams re-reported after Redis lost data", rows=len(self._known))


def _share(text: str, row: TeamRow | None) -> float | None:
    """Return the share of a team; the store knows none of a team that has neither held nor waited."""
    if text == "inf" or (not text and row and row.ceiling == 0):
        return None
    return float(text) if text else -2.0 if row and row.guarantee else 0.0


def _field(row: TeamRow) -> str:
    return f"{row.pattern}\t{row.team}"


def _rows(found: Mapping[str, str]) -> list[TeamRow]:
    rows = (TeamRow.read(*each) for each in found.items())
    return sorted(rows, key=lambda row: (-len(row.pattern), row.pattern, row.team))
