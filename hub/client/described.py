"""What a node says anew of its slots with heartbeats: their attributes, and what is warm in them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

SLOTS_MAX = 1000  # in one heartbeat, as the hub takes them
# A heartbeat that is too large for the hub would be refused, and its node would expire.
BEAT_BYTES = 48 * 1024
MEMBERS = ("attributes", "warm")


class Described:
    """The attributes and warm keys of slots that have changed since the hub has heard of them.

    Each value is replaced and never changed, so that an answer is known to be about it or not.
    """

    def __init__(self) -> None:
        self._new: dict[tuple[str, str], Any] = {}  # slot id and member -> value

    def __bool__(self) -> bool:
        return bool(self._new)

    def put(self, slot_id: str, said: Mapping[str, Any]) -> None:
        """Note new values of a slot, to be told."""
        self._new |= {(slot_id, member): said[member] for member in MEMBERS if member in said}

    def drop(self, slot_id: str) -> None:
        """Forget what is to be told of a slot, because it is withdrawn, or published with all that it has."""
        for member in MEMBERS:
            self._new.pop((slot_id, member), None)

    def to_tell(self, beat: Mapping[str, Any]) -> dict[str, Any]:
        """Return the members to add to a heartbeat: as much as fits into it, the rest is for the next one."""
        left = BEAT_BYTES - len(json.dumps(beat))
        told: dict[str, dict[str, Any]] = {}
        for (slot_id, member), value in list(self._new.items())[:SLOTS_MAX]:
            left -= len(json.dumps(value)) + len(json.dumps(slot_id)) + 4
            if left < 0:
                break
            told.setdefault(member, {})[slot_id] = value
        return told

    def told(self, beat: Mapping[str, Any]) -> None:
        """Note that the hub has taken a heartbeat with these members."""
        for member in MEMBERS:
            for slot_id, value in beat.get(member, {}).items():
                if self._new.get((slot_id, member)) is value:
                    del self._new[slot_id, member]
