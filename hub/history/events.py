"""What can happen, and picking out what somebody wants to know: an event as the scripts write it and people read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from hub.errors import InvalidValue
from hub.history.rules import rule
from hub.jobs.names import dashed, to_id
from hub.wire import time_at, to_json

# the facts that name what an event is about
NAMES = ("node", "slot", "pool", "label", "run", "ticket", "worker", "task", "job", "schedule")
_IDS = {"worker", "task"}  # UUIDs: scripts write them without hyphens
# events whose `why` is what somebody said, not a code of the rules -> what that is called on the wire
_SAID = {"task.retried": "error"}
# kind -> how the events of that kind begin
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
    """The id of a stream entry, as numbers that compare; raises `InvalidValue`."""
    first, dash, second = text.strip().partition("-")
    if all(part.isascii() and part.isdigit() and len(part) <= 20 for part in (first, second if dash else "0")):
        numbers = int(first), int(second or 0)
        if max(numbers) <= _ID_MAX:
            return numbers
    raise InvalidValue(f"{member} must be the id of an event, such as 1750000000000-0", member=member)


@dataclass(frozen=True)
class Event:
    """Something that happened. `facts` are what the script wrote: names of what it is about, and `why`."""

    id: str
    what: str
    facts: Mapping[str, str]

    @staticmethod
    def read(entry: tuple[str, Mapping[str, str]]) -> Event:
        """An entry of the stream as an event."""
        entry_id, found = entry
        facts = {name: value for name, value in found.items() if name != "event" and value != ""}
        return Event(entry_id, found.get("event", ""), facts)

    @property
    def at(self) -> str:
        """When, by the clock of Redis."""
        return time_at(int(self.id.partition("-")[0]) / 1000)

    @property
    def why(self) -> str:
        """The sentence of the rule."""
        return rule(self.what, self.facts.get("why") or self.facts.get("of", ""))

    def document(self) -> dict[str, Any]:
        """As it goes over the wire."""
        facts = {_camel(name): _shown(name, value) for name, value in self.facts.items() if name != "why"}
        if self.what in _SAID and "why" in self.facts:
            facts[_SAID[self.what]] = self.facts["why"]
        return {"id": self.id, "atUtc": self.at, "event": self.what, **facts, "rule": self.why}

    @cached_property
    def frame(self) -> bytes:
        """`document` as a server-sent event, written once however many listen."""
        what = " ".join(self.what.split()).encode("utf-8", "replace")
        return b"id: %b\nevent: %b\ndata: %b\n\n" % (self.id.encode(), what, to_json(self.document()))


@dataclass(frozen=True)
class Wanted:
    """Which events somebody wants: of any of these kinds, and about exactly these things."""

    kinds: frozenset[str] = frozenset()
    names: Mapping[str, str] = field(default_factory=dict)
    without: frozenset[str] = frozenset()  # events left out

    @cached_property
    def everything(self) -> bool:
        """Whether every event is wanted."""
        return not (self.kinds or self.names or self.without)

    def fits(self, event: Event) -> bool:
        """Whether it is one of them. A label fits a pool of that name as well, and the other way round."""
        if event.what in self.without:
            return False
        if self.kinds and not any(event.what.startswith(KINDS[kind]) for kind in self.kinds):
            return False
        return all(_names(event.facts, name, value) for name, value in self.names.items())


def wanted(kinds: str, names: Mapping[str, str]) -> Wanted:
    """Return what a caller asks for: kinds separated by commas; raises `InvalidValue`."""
    chosen = frozenset(kind.strip() for kind in kinds.split(",")) if kinds else frozenset()
    if unknown := chosen - KINDS.keys():
        raise InvalidValue(f"kind must be one of {', '.join(KINDS)}, not {min(unknown)!r:.60}", member="kind")
    return Wanted(chosen, {name: _inside(name, value) for name, value in names.items() if value})


def _inside(name: str, value: str) -> str:
    """What somebody asks for as scripts write it: the id of a worker or a task in any spelling of a UUID."""
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
    """A fact as it goes over the wire."""
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
