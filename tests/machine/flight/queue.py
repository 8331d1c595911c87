"""Callers that give up a waiting borrow, operators that set caps, and the rules for both."""

from __future__ import annotations

from typing import Any

from hub.history.tickets import ticket_ids
from tests.machine.flight.base import FENCE_S, Errand
from tests.machine.flight.box import NODE_S, Box, Call
from tests.machine.flight.fleet import KEYS, OF
from tests.machine.flight.lend import POOLS
from tests.machine.flight.wants import Wants

REMEMBERED_S = 60  # for so long a repeated borrow hears that it was given up


class Queue(Wants):
    """Give up, set and clear caps."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.given_up: dict[str, tuple[float, Box]] = {}  # key of a borrow -> when that was answered, by which hub
        self.labels: dict[str, str] = {}  # key of a borrow -> what it asks for, "" for a bundle
        self.caps: dict[str, tuple[int | None, float, int]] = {}  # label -> the cap that was set, when, last token

    # -- giving up

    async def give_up(self, which: int, box: Box) -> None:
        """Have another caller give up a borrow that waits, by its key."""
        some = [e for e in self.errands if e.what in ("borrow", "borrow all") and e.key and not e.answered]
        some = [errand for errand in some if (errand.body or {})["maxWaitSeconds"]]
        if not some:
            return
        errand = some[which % len(some)]

        def took(call: Call, box: Box) -> None:
            if call.status == 200:
                self.given_up[errand.key] = self.now_s, box

        self.labels[errand.key] = (errand.body or {}).get("labelKey", "")
        await self.send(Errand("give up", "DELETE", f"/queue/{errand.key}", None, took), box)

    def stays_given_up(self, key: str) -> bool:
        """Return whether that was answered, a moment ago, by a hub that could tell a store that has lost it."""
        if key not in self.given_up:
            return False
        at_s, box = self.given_up[key]
        if self.now_s - at_s > REMEMBERED_S - 5 or not self.has_spoken(box):
            del self.given_up[key]
        return key in self.given_up

    def is_withdrawn(self, key: str) -> bool:
        """Return whether the store has the ticket of this key as withdrawn."""
        return bool(self.redis.get(KEYS.request(ticket_ids(key)[1])) == "undone")

    # -- caps

    async def set_cap(self, label: str, cap: int | None, box: Box) -> None:
        """At run time, for all hubs; None clears it."""
        self.caps.pop(label, None)

        def took(call: Call, box: Box) -> None:
            others = [c for e in self.changes(label) for c, _ in e.calls if e is not errand]
            if call.status == 200 and not any(not c.unread and self.now_s - c.sent_s < FENCE_S for c in others):
                self.caps[label] = cap, self.now_s, self.last_token()

        errand = Errand("cap", "PUT", f"/admin/caps/{label}", {"cap": cap}, took, repeatable=False)
        await self.send(errand, box)

    def changes(self, label: str) -> list[Errand]:
        """Calls under way that set its cap."""
        return [e for e in self.errands if e.what == "cap" and e.path == f"/admin/caps/{label}" and e.calls]

    def cap_of(self, label: str) -> int | None:
        """Return what the store says."""
        found = self.redis.hget(KEYS.caps, f"set:{label}")
        return int(found) if found else None

    def is_capped(self, label: str) -> bool:
        """Return whether as much is lent, or kept for the bundle that reserves, as its cap allows, by what is lent and
        not by what is counted."""
        lent = sum(self.redis.hget(f"session:{slot}", "labelKey") == label for slot in OF)
        kept = int(self.redis.hget(KEYS.reserver, f"units:{label}") or 0)
        return 0 < (self.cap_of(label) or 0) <= lent + kept

    def was_given(self, call: Call, box: Box, key: str) -> None:
        label, token, known = call.body["labelKey"], int(call.answer["leaseToken"]), set(self.told)
        super().was_given(call, box, key)
        if token in known:
            return
        if self.stays_given_up(key):
            self.complain("withdrawn", f"{key} is given {self.told[token].slot} at {box.name}, and was given up")
        cap, since_s, since = self.caps.get(label, (None, 0.0, 0))
        if cap and max(since_s, self.lost_s) < call.sent_s and token > since and not self.changes(label):
            others = [h for h in self.holders if h.label == label and h.token != token]
            lent = [h for h in others if self.redis.hget(f"session:{h.slot}", "leaseToken") == str(h.token)]
            if len(lent) >= cap:
                self.complain("cap", f"{label} is given {self.told[token].slot}, and {len(lent)} with a cap of {cap}")

    def was_given_nothing(self, call: Call) -> None:
        """Check that no borrow is refused for a cap that was cleared."""
        cap, since_s, _ = self.caps.get(call.body["labelKey"], (1, 0.0, 0))
        if call.answer.get("code") == "capped" and cap is None and max(since_s, self.lost_s) < call.sent_s:
            self.complain("cap", f"{call.body['labelKey']} is refused for its cap, which was cleared")

    # -- what the store says

    def lose(self, kept: set[tuple[str, int]], graced: set[str]) -> None:
        heard_s = self.down_s or self.now_s
        super().lose(kept, graced)
        for key, (at_s, box) in list(self.given_up.items()):
            if not self.is_withdrawn(key) and (box.frozen or heard_s - at_s > NODE_S / 3 - 1):
                del self.given_up[key]
        for label, (cap, *_) in list(self.caps.items()):
            if self.cap_of(label) != cap:
                del self.caps[label]  # no hub remembers caps that were set at run time

    def observe(self) -> None:
        super().observe()
        if self.settled:
            for key in list(self.given_up):
                line = KEYS.queue(self.labels[key]) if self.labels[key] else KEYS.bundles
                waits = self.redis.zscore(line, ticket_ids(key)[1]) is not None
                if waits and self.stays_given_up(key):
                    self.complain("withdrawn", f"{key} waits for {self.labels[key] or 'a bundle'}, and was given up")

    def withdrawn(self) -> set[str]:
        """Keys of borrows that are given up, as the store says."""
        return {key for key in self.labels if self.is_withdrawn(key)}

    def capped(self) -> dict[str, int | None]:
        """Return the caps that hold."""
        return {label: self.cap_of(label) for label in POOLS}

    def look_at_late_orders(self, late: list[tuple[Errand, Call]], gone: set[str], caps: dict[str, int | None]) -> None:
        """No ticket was given up, and no cap set, for a caller who cannot hear of it; `gone` and `caps` were before."""
        for key in self.withdrawn() - gone:
            mine = [(e, c) for e, c in late if e.path == f"/queue/{key}"]
            if mine and all(self.nobody_hears(e, c) for e, c in mine):
                self.complain("gone", f"{key} was given up by a call that is late")
        for label, cap in self.capped().items():
            mine = [(e, c) for e, c in late if e.path == f"/admin/caps/{label}"]
            if cap != caps[label] and mine and all(self.nobody_hears(e, c) for e, c in mine):
                self.complain("gone", f"the cap of {label} was set to {cap} by a call that is late")
