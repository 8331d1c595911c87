"""Borrowers that believe the answers they got, and checks of the leases they believe in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.machine.flight.base import GRACE_S, Errand
from tests.machine.flight.box import NODE_S, SECRET, STRANGER, Box, Call
from tests.machine.flight.fleet import FRESH, KEYS, OF, SLOTS, Fleet

TTL_S, LONG_S = 20, 90
POOLS = ("gpu:a", "gpu:a", "gpu:b", "gpu:b", "gpu:a:eu")  # what is asked for; the last is served by the first
LISTENS_S = 25
EARLY = ("its node left", "a drain", "an operator", "its node died", "its node took it away", "its bundle", "its task")


@dataclass(eq=False)
class Holder:
    """A holder who was told that it holds a slot, until then."""

    slot: str
    token: int
    key: str
    until_s: float
    since_s: float
    box: Box
    label: str
    over: bool = False  # the holder has given it back, or was told that it is over
    excuse: str = ""  # why it may end before its time
    ended_at: Box | None = None  # the hub at which an operator ended it
    ended_s: float | None = None  # when the store was seen not to have it any more
    listens: bool = False  # its hub tells it at once, as blocks of the SDK ask for; others hear with a renewal
    ear: tuple[Call, Box] | None = None  # the call that waits for that
    hub_only: bool = False  # of those who are there, only the hub that lent it can tell a store that has lost it
    asleep: bool = False  # which stood still when that was lost, and may come too late
    secret: str = SECRET
    task: str = ""  # for which it is held
    returns: bool = False  # the holder was told, has stopped, and is about to say so

    def believes(self, now_s: float) -> bool:
        return not self.over and now_s < self.until_s


class Lend(Fleet):
    """Borrow, renew, verify, return; and what must hold of it."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.holders: list[Holder] = []
        self.told: dict[int, Holder] = {}
        self.ended: dict[str, set[int]] = {slot: set() for slot in OF}  # tokens whose return was answered
        self.given: dict[str, int] = {}  # slot -> the highest token that was given for it
        self.enders: dict[int, Box] = {}  # the hub that took the return of a token
        self.lapsed: set[int] = set()  # those of them that had ended by themselves
        self.fell: dict[str, float] = {}
        self.seen: set[int] = set()  # tokens of grants in the store
        self.orphans: set[int] = set()  # of those, whose caller had not heard of them when the store forgot its key

    def holder(self, which: int, *, tasks: bool = False) -> Holder | None:
        """Return one that believes in its lease; workers only ask whether theirs are valid."""
        found = [each for each in self.holders if each.believes(self.now_s) and (tasks or not each.task)]
        return found[which % len(found)] if found else None

    def excuse(self, node: str, why: str) -> None:
        for holder in self.holders:
            if OF[holder.slot] == node and not holder.excuse:
                holder.excuse = why

    # -- borrowing

    async def borrow(
        self, which: int, box: Box, *, keyed: bool, wait_s: float = 0, ttl_s: int = TTL_S, wants: Sequence[str] = (),
        secret: str = SECRET,
    ) -> None:  # fmt: skip
        pool, key = POOLS[which % len(POOLS)], f"b{next(self.numbers)}" if keyed else ""
        body = {"labelKey": pool, "ttlSeconds": ttl_s, "maxWaitSeconds": wait_s}
        if wants:
            body |= {"where": wants[0], "prefer": ["k1", "k2"]}
            body["anyOf"] = [{"label": pool, "where": where} for where in wants[1:]]

        def took(call: Call, box: Box) -> None:
            if call.status == 200:
                self.was_given(call, box, key)
            else:
                self.was_given_nothing(call)

        errand = Errand("borrow", "POST", "/session/borrow", body, took, key=key, repeatable=keyed, secret=secret)
        await self.send(errand, box)

    def was_given(self, call: Call, box: Box, key: str) -> None:
        slot, token = call.answer["browserId"], int(call.answer["leaseToken"])
        until_s = call.sent_s + call.answer["ttlSeconds"]
        known = self.told.get(token)
        if known and known.key == key and key and known.slot == slot:
            return  # the same grant again
        now_s = self.now_s
        seen = f"{slot} under {token} at {box.name}"
        if known:
            self.complain("token", f"{seen}, which was given for {known.slot} before")
        if any(other.slot == slot and other.token >= token and other.since_s < call.sent_s for other in self.holders):
            self.complain("token", f"{seen}, after higher ones")
        is_left = OF[slot] == FRESH and self.cleaned.get(slot, 0) < self.used.get(slot, 0) < token
        if is_left and not self.is_forgotten(slot):
            self.complain("fresh", f"{seen}, as the holder under {self.used[slot]} left it")
        self.used[slot] = max(token, self.used.get(slot, 0))
        if self.stands_drained(OF[slot]) and self.drained[OF[slot]] < call.sent_s:
            self.complain("drain", f"{seen}, of {OF[slot]} that drains")
        if token > self.ill.get(slot, token) and all(a.left or a.superseded for a in self.agents[OF[slot]][:-1]):
            self.complain("unwell", f"{seen}, which its node holds since {self.ill[slot]}")
        if slot in self.barred and not self.has_spoken(self.barred[slot][1]):
            del self.barred[slot]
        if slot in self.barred and token > self.barred[slot][0]:
            self.complain("unwell", f"{seen}, which an operator holds since {self.barred[slot][0]}")
        for other in self.holders:
            if other.slot == slot and other.believes(now_s):
                gone_s = now_s - other.ended_s if other.ended_s is not None else 0.0
                about = f"{seen}, while it is held under {other.token}"
                self.pardon(other)
                if not other.excuse:
                    self.complain("twice", about)
                elif self.hears(other):
                    self.complain("grace", f"{about} by somebody who listens, and was told nothing: {other.excuse}")
                elif other.excuse in EARLY and gone_s < GRACE_S - 0.5:
                    self.complain("grace", f"{about}, which ended {gone_s:.1f} s ago: {other.excuse}")
        self.given[slot] = max(token, self.given.get(slot, 0))
        self.told[token] = Holder(slot, token, key, until_s, now_s, box, call.body["labelKey"])
        self.told[token].secret = call.secret
        if any(errand.what == "end" and errand.body["browserId"] == slot and errand.calls for errand in self.errands):
            self.told[token].excuse = "an operator"  # an operator who ends a lease, and is heard only now
        self.holders.append(self.told[token])
        self.holders = self.holders[-40:]

    def stands_drained(self, node: str) -> bool:
        """Return whether that was answered, by a hub that could tell a store that has lost it."""
        if node in self.drained and not self.has_spoken(self.drained_at[node]):
            del self.drained[node]
        return node in self.drained

    def was_given_nothing(self, call: Call) -> None:
        """Note that the caller was refused."""
        raise NotImplementedError

    # -- holding

    async def renew(self, holder: Holder, box: Box) -> None:
        body = {"browserId": holder.slot, "leaseToken": str(holder.token), "ttlSeconds": TTL_S}

        def took(call: Call, box: Box) -> None:
            if call.status == 200:
                holder.until_s = max(holder.until_s, call.sent_s + call.answer["ttlSeconds"])
            elif call.status == 409:
                self.was_refused(holder, box, "a renewal")

        await self.send(
            Errand("renew", "POST", "/session/renew", body, took, repeatable=False, secret=holder.secret), box
        )

    def was_refused(self, holder: Holder, box: Box, what: str) -> None:
        self.pardon(holder)
        if holder.believes(self.now_s) and not holder.excuse:
            self.complain("lost", f"{what} of {holder.slot} under {holder.token} was refused at {box.name}")
        holder.over = True

    async def listen(self, holder: Holder, box: Box) -> None:
        """Wait to be told that it is over."""
        holder.listens = True
        lease = {"browserId": holder.slot, "leaseToken": str(holder.token)}

        def took(call: Call, box: Box) -> None:
            if call.status == 200 and call.answer["over"]:
                self.was_refused(holder, box, "the lease")
                holder.returns = True

        body = {"leases": [lease], "waitSeconds": LISTENS_S}
        holder.ear = None
        errand = Errand("listen", "POST", "/leases/watch", body, took, repeatable=False, secret=holder.secret)
        call = await self.send(errand, box)
        holder.ear = call, box

    def hears(self, holder: Holder) -> bool:
        """Return whether the holder listens, and nothing has kept its hub from telling it."""
        if holder.ear is None or self.now_s < self.deaf_until_s:
            return False
        _, box = holder.ear
        return waits(holder) and not (box.still or box.wire.waiting)

    async def go_on_listening(self, box: Box) -> None:
        """Make calls again that are over; a holder who was told that it holds nothing says that it has stopped."""
        for holder in [holder for holder in self.holders if holder.returns]:
            holder.returns = False
            await self.give_back(holder, box, keyed=False)
        for holder in [holder for holder in self.holders if holder.listens and holder.believes(self.now_s)]:
            if not waits(holder):
                await self.listen(holder, box)

    def has_spoken(self, box: Box) -> bool:
        """Return whether it has told the store what it remembers; a hub whose commands are held back has not."""
        return bool(box.hub.store.generation == self.redis.hget(KEYS.store, "generation"))

    def is_forgotten(self, slot: str) -> bool:
        """Return whether only a hub that has told a lost store nothing yet has heard of the last use of a slot."""
        use = self.told[self.used[slot]]
        heard = any(agent.has_heard_of(slot, use.token) for agent in self.agents[OF[slot]])
        return not heard and not self.has_spoken(use.box)

    def pardon(self, holder: Holder) -> None:
        """Excuse a grant that only a hub that stands still knew of, when its time to report it is over."""
        late = holder.hub_only and (holder.asleep or not self.has_spoken(holder.box))
        if late and not holder.excuse and self.clock_ms() >= int(self.redis.hget(KEYS.store, "settle_ms") or 0):
            holder.excuse = "nobody knew of it"

    async def verify(self, holder: Holder, box: Box) -> None:
        """By the side that owns the resource."""

        def took(call: Call, box: Box) -> None:
            if call.status == 200 and not call.answer["valid"] and call.answer.get("reason") != "lapsed":
                self.was_refused(holder, box, "a check")

        path = f"/leases/{holder.slot}/verify"
        query = f"token={holder.token}"
        await self.send(Errand("verify", "GET", path, None, took, query=query, repeatable=False), box)

    async def verify_old(self, which: int, box: Box, *, renews: bool = False) -> None:
        """Check that a token that was handed in is refused; with `renews` a caller wants its lease to go on."""
        some = [(slot, token) for slot, tokens in sorted(self.ended.items()) for token in sorted(tokens)]
        if not some:
            return
        slot, token = some[which % len(some)]

        def took(call: Call, box: Box) -> None:
            if call.status == 200 and call.answer.get("valid", renews) and self.is_over(slot, token):
                self.complain("back", f"{slot} under {token}, which was returned, is valid at {box.name}")

        if renews:
            body = {"browserId": slot, "leaseToken": str(token), "ttlSeconds": TTL_S}
            await self.send(Errand("renew old", "POST", "/session/renew", body, took, repeatable=False), box)
            return
        errand = Errand(
            "verify old", "GET", f"/leases/{slot}/verify", None, took, query=f"token={token}", repeatable=False
        )
        await self.send(errand, box)

    def is_over(self, slot: str, token: int) -> bool:
        """Check `stands_ended`, and that no handed-in token is valid while hubs may still report it after a loss."""
        if self.settled:
            return self.stands_ended(slot, token)
        settle_ms, clock_ms = self.redis.hmget(KEYS.store, "settle_ms", "clock_ms")
        return token in self.ended[slot] and int(clock_ms) < int(settle_ms or 0)

    def stands_ended(self, slot: str, token: int) -> bool:
        """Return whether its return was answered, by a hub that could tell a store that has lost it."""
        if token in self.ended[slot] and not self.has_spoken(self.enders[token]):
            self.ended[slot].discard(token)
            self.given.pop(slot, None)
        return token in self.ended[slot]

    async def give_back(self, holder: Holder, box: Box, *, keyed: bool) -> None:
        holder.over = True
        body = {"labelKey": "gpu:a", "browserId": holder.slot, "leaseToken": str(holder.token)}

        def took(call: Call, box: Box) -> None:
            if call.status == 200:
                self.ended[holder.slot].add(holder.token)
                self.enders[holder.token] = box
                if "note" in call.answer:
                    self.lapsed.add(holder.token)

        key = f"r{next(self.numbers)}" if keyed else ""
        await self.send(Errand("return", "POST", "/session/return", body, took, key=key, secret=holder.secret), box)

    async def meddle(self, holder: Holder, box: Box, *, renews: bool) -> None:
        """Have a user that knows the token of a lease end or extend it, which another caller holds."""
        body = {"labelKey": "gpu:a", "browserId": holder.slot, "leaseToken": str(holder.token), "revoke": not renews}

        def took(call: Call, box: Box) -> None:
            if call.status == 200 and "note" not in call.answer:
                self.complain("foreign", f"a stranger {what} {holder.slot} under {holder.token} at {box.name}")

        path, what = ("/session/renew", "extended") if renews else ("/session/return", "ended")
        await self.send(Errand("meddle", "POST", path, body, took, repeatable=False, secret=STRANGER), box)

    async def end_by_hand(self, slot: str, box: Box) -> None:
        """Have an operator end the lease of a slot."""
        for holder in self.holders:
            if holder.slot == slot:
                holder.excuse = holder.excuse or "an operator"
        body = {"labelKey": "gpu:a", "browserId": slot, "revoke": True}

        def took(call: Call, box: Box) -> None:
            for holder in self.holders:
                if holder.slot == slot and holder.excuse == "an operator" and call.status == 200:
                    holder.ended_at = holder.ended_at or box

        await self.send(Errand("end", "POST", "/session/return", body, took, repeatable=False), box)

    # -- what the store says

    def observe(self) -> None:
        """After every step."""
        if not self.stage.up:
            return
        pipe = self.redis.pipeline(transaction=False)
        for slot in OF:
            pipe.hget(f"session:{slot}", "leaseToken")
        for node in SLOTS:
            pipe.sismember("nodes", node)
        found = pipe.execute()
        tokens = dict(zip(OF, found, strict=False))
        now_s, settled = self.now_s, self.settled
        for holder in self.holders:
            has = tokens[holder.slot] == str(holder.token)
            if has:
                holder.ended_s, holder.hub_only = None, False
            elif holder.ended_s is None:
                holder.ended_s = now_s
        for slot, text in tokens.items():
            token = int(text or 0)
            self.seen.add(token)
            if not token or not settled:
                continue
            if self.stands_ended(slot, token):
                self.complain("back", f"{slot} is lent under {token}, which was returned")
            if token < self.given.get(slot, 0):
                self.complain("lower", f"{slot} is lent under {token} after {self.given[slot]}")
            self.given[slot] = max(token, self.given.get(slot, 0))
        for node, known in zip(SLOTS, found[len(OF) :], strict=True):
            self.look_at_node(node, bool(known))

    def look_at_node(self, node: str, known: bool) -> None:
        """Check that no healthy node is expired."""
        speakers = self.speakers(node)
        fresh = [agent for agent in speakers if agent.registered and self.fresh(agent)]
        if known:
            self.fell.pop(node, None)
            return
        if not self.settled or not any(agent.registered for agent in self.agents[node]):
            return
        if node not in self.fell:
            self.fell[node] = self.now_s
            if fresh and min(agent.heard_s for agent in fresh) > self.lost_s:
                self.complain("healthy", f"{node} is not on the books, and was heard a moment ago")
        if not fresh:  # also one that a loss took off the books, and that was silent from then on until it was dead
            self.excuse(node, "its node died")

    down_s: float | None = None  # since when the store is down
    lost_ms = 0  # the hub clock when the store last lost something

    def lose(self, kept: set[tuple[str, int]], graced: set[str]) -> None:
        """Note that the store has lost all but these grants and these slots that wait for their last holders.

        What no hub can know of is excused.
        """
        self.lost_ms, self.lost_s = self.clock_ms(), self.now_s
        heard_s, self.down_s = self.down_s or self.now_s, None  # an outage makes nothing older
        self.orphans |= self.seen - self.told.keys()
        self.given = {slot: token for slot, token in self.given.items() if token in self.told}  # of others nobody knows
        for node in [node for node in self.drained if self.drained_at[node].frozen]:
            del self.drained[node]  # its node may not have heard of it yet, and the hub that has stands still
        for tokens in self.ended.values():
            tokens -= self.lapsed  # of a lapse no hub but the store knows
        for agent in [agent for agents in self.agents.values() for agent in agents]:
            if heard_s - agent.heard_s > NODE_S / 3 - 1:  # silent for so long that no hub knows better than it
                for slot, token in agent.state.lent.items():
                    self.ended[slot].discard(int(token))
                    self.given.pop(slot, None)
        for holder in self.holders:
            if not holder.believes(self.now_s) or (holder.slot, holder.token) in kept:
                continue
            if holder.excuse in EARLY and holder.slot not in graced and not self.remembered(holder, heard_s):
                holder.excuse = "nobody knew of it"
            by_node = any(
                agent.state.lent.get(holder.slot) == str(holder.token) for agent in self.speakers(OF[holder.slot])
            )
            by_hub = heard_s - holder.since_s < NODE_S / 3 - 1
            holder.hub_only, holder.asleep = by_hub and not by_node, holder.box.frozen
            if not (by_node or by_hub) and not holder.excuse:
                holder.excuse = "nobody knew of it"
        for node in self.outlived:
            self.excuse(node, "a drain")
        for slot, token in self.used.items():
            by_hub = heard_s - self.told[token].since_s < NODE_S / 3 - 1
            if not by_hub and not any(agent.has_heard_of(slot, token) for agent in self.agents[OF[slot]]):
                self.cleaned[slot] = token  # as far as anybody knows

    def remembered(self, holder: Holder, heard_s: float) -> bool:
        """Return whether the hub at which the lease was ended by hand tells a store that has lost it."""
        lately = holder.ended_s is None or heard_s - holder.ended_s < NODE_S / 3 - 1
        return bool(lately and holder.ended_at and not holder.ended_at.frozen)


def waits(holder: Holder) -> bool:
    """Return whether a call of the holder waits for the end of its lease."""
    call = holder.ear[0] if holder.ear else None
    return bool(call and call.task and not call.task.done() and not call.disconnected)
