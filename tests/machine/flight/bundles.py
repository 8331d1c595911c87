"""Borrowers that want several slots at once, and the rules for bundles."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.machine.flight.base import Errand
from tests.machine.flight.box import Box, Call
from tests.machine.flight.fleet import KEYS, OF, SLOTS
from tests.machine.flight.lend import LONG_S, TTL_S, Holder
from tests.machine.flight.queue import Queue

A, B = {"label": "gpu:a"}, {"label": "gpu:b"}
WISHES: tuple[tuple[list[dict[str, Any]], bool], ...] = (  # parts, and whether one node is to have them all
    ([{**A, "count": 2}], False),
    ([{**A, "count": 2}], True),
    ([A, B], False),
    ([B, A], True),
    ([{**A, "count": 2}, B], False),
    ([{**A, "where": 'zone == "eu"'}, A], False),
)
AWAY_S = 7.0  # for so long a caller may be away before what is set aside for it goes to others


@dataclass(eq=False)
class Bundle:
    """The slots that a borrower was told it holds together."""

    id: str
    together: bool
    size: int
    members: list[Holder] = field(default_factory=list)
    failed: bool = False  # its holder was told that one is lost, has stopped, and is about to say so


class Bundles(Queue):
    """Borrow, renew and return several slots; and what must hold of them."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.bundles: dict[str, Bundle] = {}
        self.of_token: dict[int, Bundle] = {}
        self.units: dict[str, dict[int, tuple[str, int]]] = {}  # bundle -> its leases, by number, as the store had them
        self.tied: set[str] = set()  # bundles of which one that is lost ends the others
        self.forgotten: set[str] = set()  # such of which a lease ended, and the store may have lost that
        self.awaited_s, self.waited = -AWAY_S, False  # when a bundle was waited for last
        self.lent: set[tuple[str, int]] = set()  # slots and tokens, as the store had them last
        self.lone: set[int] = set()  # tokens of such that their holders gave back one by one

    # -- steps

    async def do_borrow_all(self, a: int, b: int, c: int) -> None:
        await self.borrow_all(a, self.box(b), c)

    async def do_wait_all(self, a: int, b: int, c: int) -> None:
        await self.borrow_all(a, self.box(b), c, wait_s=15)

    async def do_renew_all(self, a: int, b: int, c: int) -> None:
        if bundle := self.held(a):
            await self.renew_all(bundle, self.box(b))

    async def do_return_all(self, a: int, b: int, c: int) -> None:
        if bundle := self.held(a):
            await self.return_all(bundle, self.box(b))

    def held(self, which: int) -> Bundle | None:
        found = [b for b in self.bundles.values() if any(each.believes(self.now_s) for each in b.members)]
        return found[which % len(found)] if found else None

    async def borrow_all(self, which: int, box: Box, how: int, wait_s: float = 0) -> None:
        """Ask for several slots: `how` says with a key, for how long, and whether one that is lost ends the others."""
        parts, same_node = WISHES[which % len(WISHES)]
        key, size = f"b{next(self.numbers)}" if how % 2 else "", sum(part.get("count", 1) for part in parts)
        body = {
            "parts": parts, "sameNode": same_node, "together": how % 8 < 4, "maxWaitSeconds": wait_s,
            "waitForPool": wait_s > 0, "ttlSeconds": TTL_S if how % 4 < 2 else LONG_S, "name": f"{size} slots",
        }  # fmt: skip

        def took(call: Call, box: Box) -> None:
            if call.status == 200:
                self.was_given_all(call, box, errand)

        errand = Errand("borrow all", "POST", "/bundles", body, took, key=key, repeatable=bool(key))
        await self.send(errand, box)

    def was_given_all(self, call: Call, box: Box, errand: Errand) -> None:
        slots, parts = call.answer["slots"], [p for p in call.body["parts"] for _ in range(p.get("count", 1))]
        repeated = bool(errand.calls) or call.answer["bundle"] in self.bundles or self.lost_s >= errand.since_s
        if len(slots) < len(parts) and not repeated and errand.since_s == call.sent_s:
            self.complain("whole", f"{call.answer['bundle']} has {len(slots)} of {len(parts)} slots at {box.name}")
        where = [each["browserId"] for each in slots]
        if call.body["sameNode"] and len({OF[slot] for slot in where}) > 1:
            self.complain("whole", f"{where} are of several nodes")
        bundle = Bundle(call.answer["bundle"], call.answer["together"], len(parts))
        bundle = self.bundles.setdefault(bundle.id, bundle)
        for number, each in enumerate(slots):
            slot, token, given = each["browserId"], int(each["leaseToken"]), copy.copy(call)
            part = parts[number] if len(slots) == len(parts) else {"label": SLOTS[OF[slot]][slot]}
            if SLOTS[OF[slot]][slot] != part["label"]:
                self.complain("whole", f"{slot} was given as {part['label']}")
            given.answer, given.body = each, {"labelKey": part["label"], "where": part.get("where", "")}
            known = token in self.told
            self.was_given(given, box, errand.key)
            if not known:
                self.of_token[token] = bundle
                bundle.members.append(self.told[token])
        self.heard["lent together"] += 1

    async def renew_all(self, bundle: Bundle, box: Box) -> None:
        def took(call: Call, box: Box) -> None:
            left = {int(each["leaseToken"]): each["ttlSeconds"] for each in call.answer.get("slots", ())}
            for holder in bundle.members if call.status in (200, 409) else ():
                if holder.token in left:
                    holder.until_s = max(holder.until_s, call.sent_s + left[holder.token])
                else:
                    self.was_refused(holder, box, "a renewal of all")

        path = f"/bundles/{bundle.id}/renew"
        await self.send(Errand("renew all", "POST", path, {"ttlSeconds": TTL_S}, took, repeatable=False), box)

    async def return_all(self, bundle: Bundle, box: Box) -> None:
        for holder in bundle.members:
            holder.over = True

        def took(call: Call, box: Box) -> None:
            for holder in bundle.members if call.status == 200 else ():
                self.ended[holder.slot].add(holder.token)
                self.enders[holder.token] = box
                if holder.slot not in call.answer["returned"]:
                    self.lapsed.add(holder.token)

        await self.send(Errand("return all", "POST", f"/bundles/{bundle.id}/return", None, took), box)

    # -- what its holder believes

    async def give_back(self, holder: Holder, box: Box, *, keyed: bool) -> None:
        self.lone.add(holder.token)
        await super().give_back(holder, box, keyed=keyed)

    def was_refused(self, holder: Holder, box: Box, what: str) -> None:
        believed = holder.believes(self.now_s)
        super().was_refused(holder, box, what)
        bundle = self.of_token.get(holder.token)
        if bundle and bundle.together and believed:
            bundle.failed = True

    async def go_on_listening(self, box: Box) -> None:
        """A holder of which one slot was lost gives the others back, where they are held together."""
        for bundle in [bundle for bundle in self.bundles.values() if bundle.failed]:
            bundle.failed = False
            await self.return_all(bundle, box)
        await super().go_on_listening(box)

    def pardon(self, holder: Holder) -> None:
        super().pardon(holder)
        bundle = self.of_token.get(holder.token)
        if bundle and bundle.together and not holder.excuse:
            others = [other for other in bundle.members if other is not holder]
            if len(bundle.members) < bundle.size or any(self.has_gone(other) for other in others):
                holder.excuse = "its bundle"
                self.heard["ended together"] += 1

    def has_gone(self, holder: Holder) -> bool:
        """Return whether its lease has ended, for a reason that is known."""
        why = holder.excuse or holder.over or self.now_s >= holder.until_s
        return bool(why) and self.redis.hget(f"session:{holder.slot}", "leaseToken") != str(holder.token)

    # -- what the store says

    def lose(self, kept: set[tuple[str, int]], graced: set[str]) -> None:
        """Only the hub at which an operator ended one of its leases remembers that a bundle has ended."""
        heard_s = self.down_s or self.now_s
        ended = {name for name in self.tied if not set(self.units[name].values()) <= self.lent}
        super().lose(kept, graced)
        for name in ended:
            told = [self.told[token] for _, token in self.units[name].values() if token in self.told]
            if not any(holder.ended_at and self.remembered(holder, heard_s) for holder in told):
                self.forgotten.add(name)

    def observe(self) -> None:
        super().observe()
        if not self.stage.up:
            return
        pipe = self.redis.pipeline(transaction=False)
        for slot in OF:
            pipe.hmget(f"session:{slot}", "leaseToken", "holder")
        pipe.hget(KEYS.store, "lost_below")
        *found, lost = pipe.execute()
        new = set()
        self.lent = {(slot, int(token)) for slot, (token, _) in zip(OF, found, strict=True) if token}
        for slot, (token, text) in zip(OF, found, strict=True):
            holder = json.loads(text or "{}")
            if name := holder.get("bundle"):
                new |= {(name, holder["name"])} if name not in self.units else set()
                self.units.setdefault(name, {})[holder["unit"]] = slot, int(token)
                self.tied |= {name} if holder.get("together") else set()
        for name, said in new:
            if self.settled and int(name[1:]) > int(lost or 0) and len(self.units[name]) != self.size_of(said):
                self.complain("whole", f"{name} for {said} was lent as {self.units[name]}")
        waits = bool(self.waiting_calls() or self.waiting_claims())
        if waits or self.waited:  # those that have just ended may ask again
            self.awaited_s = self.now_s
        self.waited = waits
        self.heard["set aside"] += self.redis.exists(KEYS.reserved)

    def size_of(self, name: str) -> int:
        """Return how many slots a bundle is to have, as its holder has it in its name."""
        return int(name.split()[0])

    def waiting_calls(self) -> list[Call]:
        return [c for box in self.boxes for c in box.calls if c.what == "borrow all" and is_waiting(c)]

    def waiting_claims(self) -> list[Call]:
        """Return the claims that wait for a task, or for its slots."""
        found = [c for box in self.boxes for c in box.calls if c.what == "claim" and is_waiting(c)]
        return [call for call in found if call.body["waitSeconds"]]

    def torn(self) -> str:
        """Return a bundle of which one lease has ended, and others go on that were to end with it."""
        for name in self.tied - self.forgotten:
            units = self.units[name].values()
            known = [self.told[token] for _, token in units if token in self.told]
            for holder in known:
                self.pardon(holder)
            if len(known) < len(units) or any(holder.excuse == "nobody knew of it" for holder in known):
                continue
            live = [slot for slot, token in units if self.redis.hget(f"session:{slot}", "leaseToken") == str(token)]
            spared = any(token in self.lone for _, token in units)
            if 0 < len(live) < len(units) and not spared:
                return f"{name} had {sorted(units)}, and {live} are still lent"
        return ""

    def aside(self) -> str:
        """Return the slots that are set aside although no bundle reserves."""
        awaited = self.now_s - self.awaited_s < AWAY_S
        found = set() if awaited else self.redis.smembers(KEYS.reserved)
        return f"{sorted(found)} are set aside for nobody" if found else ""

    def idle_bundle(self) -> str:
        """Return a bundle that waits beside free slots that are all of it."""
        for call in self.waiting_calls():
            units = []
            for part in call.body["parts"]:
                asks = copy.copy(call)
                asks.body = part
                units += [self.free_for(asks, [part["label"]])] * part.get("count", 1)
            lent = [self.redis.hget(f"session:{slot}", "labelKey") for slot in OF]
            labels = [part["label"] for part in call.body["parts"] for _ in range(part.get("count", 1))]
            caps = {label: self.cap_of(label) for label in set(labels)}
            if any(cap and lent.count(label) + labels.count(label) > cap for label, cap in caps.items()):
                continue
            if found := complete(units, (), same_node=call.body["sameNode"]):
                return f"{call.body['parts']} is waited for, beside {found}"
        return ""


def is_waiting(call: Call) -> bool:
    return bool(call.task and not call.task.done() and not call.disconnected)


def complete(units: Sequence[list[str]], taken: tuple[str, ...], *, same_node: bool) -> tuple[str, ...]:
    """Return a slot for each unit, () where there are not enough."""
    if len(taken) == len(units):
        return taken
    for slot in units[len(taken)]:
        fits = slot not in taken and not (same_node and taken and OF[slot] != OF[taken[0]])
        if fits and (found := complete(units, (*taken, slot), same_node=same_node)):
            return found
    return ()
