"""Events: their form in the store and on the wire, and the choice of those that a caller asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from hub.errors import InvalidValue
from hub.history.rules import rule
from hub.jobs.names import dashed, to_id
from hub.wire import time_at, to_json

# the fields of an event that name the thing it is about
NAMES = ("node", "slot", "pool", "label", "run", "ticket", "worker", "task", "job", "schedule")
_IDS = {"worker", "task"}  # UUIDs: scripts write them without hyphens
# events whose `why` is a text of a caller, not the code of a rule -> the name of that text on the wire
_SAID = {"task.retried": "error", "task.dead": "error"}
# kind -> the beginnings of the names of its events
KINDS = {
    "node": ("node.",),
    "pool": ("pool.", "slot.", "cap."),
    "grant": ("grant.",),
    "ticket": ("ticket.",),
    "worker": ("worker.",),
    "job": ("job.",),
    "task": ("task.",),
    "schedule": ("schedule.",),
    "sweep": ("sweep.", "brake."),
}
_NUMBERS = {
    "slots",
    "ended",
    "cap",
    "live",
    "scanned",
    "expired",
    "errors",
    "stale",
    "refreshed",
    "adopted",
    "rewritten",
    "stuck",
    "found",
    "reset",
    "failed",
    "written",
    "ownerless",
    "held",
    "attempt",
}
_ID_MAX = 2**64 - 1


def parse_id(text: str, member: str) -> tuple[int, int]:
    """Return an event's id as two numbers, which sort by time; raises `InvalidValue`, which names `member`."""
    first, dash, second = text.strip().partition("-")
    if all(part.isascii() and part.isdigit() and len(part) <= 20 for part in (first, second if dash else "0")):
        numbers = int(first), int(second or 0)
        if max(numbers) <= _ID_MAX:
            return numbers
    raise InvalidValue(f"{member} must be the id of an event, such as 1750000000000-0", member=member)


@dataclass(frozen=True)
class Event:
    """An event of the history: its id, its name in `what`, and the facts that the script wrote, such as `why`."""

    id: str
    what: str
    facts: Mapping[str, str]

    @staticmethod
    def read(entry: tuple[str, Mapping[str, str]]) -> Event:
        """Return an entry of the Redis stream as an event."""
        entry_id, found = entry
        facts = {name: value for name, value in found.items() if name != "event" and value != ""}
        return Event(entry_id, found.get("event", ""), facts)

    @property
    def at(self) -> str:
        """Return the time of the event in UTC, by the clock of Redis, as ISO-8601 text."""
        return time_at(int(self.id.partition("-")[0]) / 1000)

    @property
    def why(self) -> str:
        """Return the sentence of the rule behind the event; "" if there is none."""
        return rule(self.what, self.facts.get("why") or self.facts.get("of", ""))

    def document(self) -> dict[str, Any]:
        """Return the event as the JSON object that callers get."""
        facts = {_camel(name): _shown(name, value) for name, value in self.facts.items() if name != "why"}
        if self.what in _SAID and "why" in self.facts:
            facts[_SAID[self.what]] = self.facts["why"]
        return {"id": self.id, "atUtc": self.at, "event": self.what, **facts, "rule": self.why}

    @cached_property
    def frame(self) -> bytes:
        """Return the event as the bytes of a server-sent event, made once for all listeners."""
        what = " ".join(self.what.split()).encode("utf-8", "replace")
        return b"id: %b\nevent: %b\ndata: %b\n\n" % (self.id.encode(), what, to_json(self.document()))


@dataclass(frozen=True)
class Wanted:
    """A filter of events: of any of these kinds, about exactly the things in `names`, and none of `without`."""

    kinds: frozenset[str] = frozenset()
    names: Mapping[str, str] = field(default_factory=dict)
    without: frozenset[str] = frozenset()  # names of events that do not pass

    @cached_property
    def everything(self) -> bool:
        """Return whether the filter is empty, so that every event passes it."""
        return not (self.kinds or self.names or self.without)

    def fits(self, event: Event) -> bool:
        """Return whether the event passes the filter. `pool` and `label` match each other: a label names a pool."""
        if event.what in self.without:
            return False
        if self.kinds and not any(event.what.startswith(KINDS[kind]) for kind in self.kinds):
            return False
        return all(_names(event.facts, name, value) for name, value in self.names.items())


def wanted(kinds: str, names: Mapping[str, str]) -> Wanted:
    """Return the filter for these kinds, separated by commas, and these names of things; raises `InvalidValue`."""
    chosen = frozenset(kind.strip() for kind in kinds.split(",")) if kinds else frozenset()
    if unknown := chosen - KINDS.keys():
        raise InvalidValue(f"kind must be one of {', '.join(KINDS)}, not {min(unknown)!r:.60}", member="kind")
    return Wanted(chosen, {name: _inside(name, value) for name, value in names.items() if value})


def _inside(name: str, value: str) -> str:
    """Return a caller's name of a thing as scripts write it: the UUID of a worker or task without hyphens."""
    if name not in _IDS:
        return value
    try:
        return to_id(value)
    except ValueError:
        raise InvalidValue(f"{name} must be a UUID, not {value!r:.60}", member=name) from None


def _names(facts: Mapping[str, str], name: str, value: str) -> bool:
    if name in ("pool", "label"):
        return value in (facts.get("pool"), facts.get("label"))
    return facts.get(name) == value


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _shown(name: str, value: str) -> Any:
    """Return the value of a fact as callers get it: ids with hyphens, numbers as numbers."""
    if name in _IDS:
        return dashed(value) if len(value) == 32 else value
    return _number(name, value)


def _number(name: str, value: str) -> Any:
    if not (name in _NUMBERS or name.endswith("_ms")):
        return value
    try:
        number = float(value)
    except ValueError:
        return value
    return int(number) if number.is_integer() else number
