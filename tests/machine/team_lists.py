"""The lists of teams in the store, and what the model says that they must hold."""

from __future__ import annotations

from typing import Any

from redis import Redis

from hub.store.keys import Keys
from tests.machine.model import Model
from tests.machine.records import TEAMS
from tests.machine.suiting import want_of

OF_TEAMS = {
    *("hub:teams", "hub:team_leases", "hub:team_shares", "hub:team_turns", "hub:team_line", "hub:team_wants"),
    *("hub:team_under", "hub:team_parked", "hub:line_teams", "hub:team_labels", "hub:recalled"),
}
SETS = {"hub:team_parked", "hub:line_teams", "hub:team_labels"}
HASHES = {"hub:teams", "hub:team_turns"}


class TeamLists:
    """The reads for what is there, sent together."""

    def __init__(self, redis: Redis) -> None:
        self._redis, self._keys = redis, Keys("")

    def seen(self, names: list[str]) -> dict[str, Any]:
        """Return what each key holds: of sorted sets the members with their scores."""
        some = sorted(name for name in names if _family(name) in OF_TEAMS)
        if not some:
            return {}
        pipe = self._redis.pipeline(transaction=False)
        for name in some:
            of = _family(name)
            if of in HASHES:
                pipe.hgetall(name)
            elif of in SETS:
                pipe.smembers(name)
            else:
                pipe.zrange(name, 0, -1, withscores=True)
        pipe.zrange(self._keys.turns, 0, -1, withscores=True)
        *answers, scores = pipe.execute()
        found = dict(zip(some, answers, strict=True))
        held = {name: dict(what) if isinstance(what, list) else what for name, what in found.items()}
        for name in some:
            if _family(name) == "hub:team_turns":
                held[name] = {of: float(count) for of, count in held[name].items()}
        return held | {"turns": dict(scores), "order": {n: [m for m, _ in w] for n, w in found.items() if _line(n)}}

    def said(self, model: Model, seen: dict[str, Any]) -> dict[str, Any]:
        """Return what they must hold; where bounds are allowed, what is seen if it keeps within them."""
        if not model.rows:
            return {}
        as_seen = {name: seen[name] for name in ("turns", "order") if name in seen}
        return {**self._of_rows(model, seen), **self._of_lines(model, seen), **as_seen}

    def _of_rows(self, model: Model, seen: dict[str, Any]) -> dict[str, Any]:
        keys = self._keys
        said: dict[str, Any] = {keys.teams: seen.get(keys.teams)}
        for pattern in model.patterns:
            for team in TEAMS.values():
                name = keys.team_leases(f"{pattern}\t{team}")
                if slots := model.leases(pattern, team):
                    said[name] = {slot: float(model.grants[slot].granted_ms) for slot in slots}
            if model.ties.get(pattern):
                name = keys.team_shares(pattern)
                shares = {team: self._share(model, pattern, team) for team in model.ties[pattern]}
                said[name] = {team: _near(share, seen.get(name, {}).get(team)) for team, share in shares.items()}
            if had := {f"of:{team}": count for team, count in model.had.get(pattern, {}).items()}:
                floor = model.floors.get(pattern)
                said[keys.team_turns(pattern)] = had | ({"floor": floor} if floor is not None else {})
            listed = seen.get(keys.recalled(pattern), {})
            live = {slot for slot in model.grants if model.grants[slot].recall_ms}
            mine = {s for s in live if s in model.recalled_under.get(pattern, ())}
            if listed or mine:
                said[keys.recalled(pattern)] = {s: listed.get(s) for s in {*listed, *mine}}
        return said

    def _share(self, model: Model, pattern: str, team: str) -> float:
        return float("inf") if model.is_full(pattern, team, with_kept=False) else model.share(pattern, team)

    def _of_lines(self, model: Model, seen: dict[str, Any]) -> dict[str, Any]:
        keys, said = self._keys, dict[str, Any]()
        for ticket in model.waiting():
            team = TEAMS[ticket.wanted.user]
            for label, where in ticket.wanted.asks:
                want = want_of(where)
                said.setdefault(keys.team_line(f"{label}\t{want}\t{team}"), []).append(ticket.wanted.id)
                said.setdefault(keys.team_wants(f"{label}\t{team}"), set()).add(want)
                said.setdefault(keys.line_teams(label), set()).add(team)
                said.setdefault(keys.team_labels(team), set()).add(label)
                parked = team in seen.get(keys.team_parked(label), ())
                for place in _places(model, label):
                    name = keys.team_under(f"{place}\t{team}")
                    if not parked or label in seen.get(name, ()):
                        said.setdefault(name, set()).add(label)
                if parked:
                    said.setdefault(keys.team_parked(label), set()).add(team)
        return self._within_bounds(said, seen)

    def _within_bounds(self, said: dict[str, Any], seen: dict[str, Any]) -> dict[str, Any]:
        """Take over the scores that are seen where they are no later than the truth, and the order of lines."""
        for name, members in said.items():
            found, of = seen.get(name, {}), _family(name)
            if of == "hub:team_line":
                wanted, order = members, seen.get("order", {}).get(name)
                said[name] = found if order == wanted else dict.fromkeys(wanted)
            elif of == "hub:team_wants":
                lines = {want: seen.get(self._keys.team_line(_with_want(name, want)), {}) for want in members}
                firsts = {want: min(line.values(), default=0) for want, line in lines.items()}
                said[name] = {
                    want: found[want] if found.get(want, 1e99) <= firsts[want] else firsts[want] for want in members
                }
            elif of == "hub:team_under":
                turns = seen.get("turns", {})
                said[name] = {
                    each: found[each] if found.get(each, 1e99) <= turns.get(each, 0) else turns.get(each)
                    for each in members
                }
        return said


def _with_want(name: str, want: str) -> str:
    label, team = name.removeprefix("hub:team_wants:").split("\t")
    return f"{label}\t{want}\t{team}"


def _near(share: float, seen: float | None) -> float:
    """Return what is seen where it is this share but for a tie."""
    return seen if seen is not None and (seen == share or 0 <= seen - share < 1e-5) else share


def _places(model: Model, label: str) -> list[str]:
    parts = label.split(":")
    if model.options[2] == "1" and "*" in parts:
        return ["*"]
    return [":".join(parts[:n]) for n in range(min(2, len(parts)), len(parts) + 1)]


def _line(name: str) -> bool:
    return _family(name) == "hub:team_line"


def _family(name: str) -> str:
    return ":".join(name.split(":")[:2])
