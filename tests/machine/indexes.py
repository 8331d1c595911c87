"""The indexes of classes and wants in the store, and what the model says that they must hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from redis import Redis

from hub.store.keys import Keys
from tests.machine.model import Model
from tests.machine.suiting import PLAIN, digest_of, is_suited, tree_of, want_of

FAMILIES = (
    *("hub:class", "hub:classes", "hub:pool_classes", "hub:free", "hub:free_classes", "hub:warm", "hub:want"),
    *("hub:want_line", "hub:lines", "hub:all_lines", "hub:fit", "hub:fitting", "hub:parked"),
    *("hub:order", "hub:open_class", "hub:unclassed"),
)
BOUNDS = ("hub:fit", "hub:fitting")
HASHES = ("hub:class", "hub:pool_classes", "hub:want")
SETS = ("hub:unclassed", "hub:classes", "hub:lines", "hub:all_lines", "hub:parked")


class Indexes:
    """The reads for what is there, sent together."""

    def __init__(self, redis: Redis) -> None:
        self._redis, self._keys = redis, Keys("")

    def seen(self, names: set[str]) -> dict[str, Any]:
        """Return what each of these keys holds: of sorted sets the members in their order, and of `BOUNDS` the set."""
        keys = self._keys
        some = sorted(name for name in names if family(name) in FAMILIES)
        if not some:
            return {"late": [], "parked": {}}
        pipe = self._redis.pipeline(transaction=False)
        for name in some:
            of = family(name)
            if of in HASHES:
                pipe.hgetall(name)
            elif of in SETS:
                pipe.smembers(name)
            else:
                pipe.zrange(name, 0, -1, withscores=True)
        pipe.zrange(keys.turns, 0, -1, withscores=True)
        labels = sorted({name.split(" ")[0].split(":", 2)[2] for name in some if family(name) == "hub:want_line"})
        for label in labels:
            pipe.zrange(keys.queue(label), 0, -1, withscores=True)
        found = dict(zip([*some, keys.turns, *map(keys.queue, labels)], pipe.execute(), strict=True))
        scores = {name: dict(held) for name, held in found.items() if isinstance(held, list)}
        seen = {name: _plain(name, found[name]) for name in some if family(name) != "hub:parked"}
        parked = {name.split(":", 2)[2]: set(found[name]) for name in some if family(name) == "hub:parked"}
        return seen | {"late": list(self._late(scores)), "parked": parked}

    def _late(self, scores: dict[str, dict[str, float]]) -> Iterator[str]:
        """Yield what is listed with another score than it has, or with a higher one where lower ones are allowed."""
        keys = self._keys
        for name, held in scores.items():
            of, rest = family(name), name.split(":", 2)[-1]
            for member, score in held.items():
                if of == "hub:fit" and score > scores[keys.turns].get(member, -1):
                    yield f"{member} in {name} at {score}, its turn is {scores[keys.turns].get(member)}"
                line = scores.get(keys.want_line(f"{rest.split(' ')[0]} {member}"), {})
                if of == "hub:fitting" and score > min(line.values(), default=-1):
                    yield f"{member} in {name} at {score}, its first is at {min(line.values(), default=-1)}"
                free = scores.get(keys.free_in(f"{rest} {member}"), {})
                if of == "hub:free_classes" and score != min(free.values(), default=-1):
                    yield f"{member} in {name} at {score}, its first is at {min(free.values(), default=-1)}"
                if of == "hub:want_line" and score != scores[keys.queue(rest.split(" ")[0])].get(member):
                    yield f"{member} in {name} at another score than in its queue"

    def said(self, model: Model, seen: dict[str, Any]) -> dict[str, Any]:
        """Return what they must hold. Which labels stand back at their caps is left to the store."""
        said: dict[str, Any] = {**self._of_slots(model), **self._of_lines(model), "late": []}
        lines = model.lines()
        known = {digest_of(each): each for each in {record.attributes for record in model.slots.values()} if each}
        said["parked"] = {label: parked & set(known) for label, parked in seen["parked"].items() if label in lines}
        for label, wheres in lines.items():
            for of, attributes in known.items():
                wants = {want_of(where) for where in wheres if is_suited(where, attributes)}
                if not wants:
                    continue
                said[self._keys.fitting(f"{label} {of}")] = wants
                for place in self._places(model, label):
                    name = self._keys.fit(f"{place} {of}")
                    if of not in seen["parked"].get(label, ()) or label in seen.get(name, ()):
                        said.setdefault(name, set()).add(label)
        return said

    def _places(self, model: Model, label: str) -> list[str]:
        parts = label.split(":")
        if model.options[2] == "1" and "*" in parts:
            return ["*"]
        return [":".join(parts[:n]) for n in range(min(2, len(parts)), len(parts) + 1)]

    def _of_slots(self, model: Model) -> dict[str, Any]:
        keys = self._keys
        said: dict[str, Any] = {keys.unclassed: model.unclassed} if model.unclassed else {}
        for record in model.slots.values():
            of = digest_of(record.attributes)
            if of:
                said.setdefault(keys.classes, set()).add(of)
                said[keys.slot_class(of)] = {"attributes": record.attributes, "slots": str(model.classes[of])}
                counts = said.setdefault(keys.pool_classes(record.pool), {})
                counts[of] = str(int(counts.get(of, "0")) + 1)
        for pool in model.free:
            for each in model.classes_by_age(pool):
                of = f"{pool.count(':') + 1} {digest_of(each)}"
                said[keys.open_class(of)] = sorted([*said.get(keys.open_class(of), []), pool])
            if found := [digest_of(each) for each in model.classes_by_age(pool)]:
                said[keys.free_classes(pool)] = found
            for slot in model.by_age(pool):
                record = model.slots[slot]
                if record.attributes:
                    said.setdefault(keys.free_in(f"{pool} {digest_of(record.attributes)}"), []).append(slot)
                if record.attributes or record.warm:
                    said.setdefault(keys.order(pool), []).append(slot)
                for key in record.warm:
                    said.setdefault(keys.warm(f"{pool} {key}"), []).append(slot)
        return said

    def _of_lines(self, model: Model) -> dict[str, Any]:
        keys, said = self._keys, {}
        for label, wheres in model.lines().items():
            said[keys.lines(label)] = {want_of(where) for where in wheres}
            for where in wheres:
                want = want_of(where)
                said[keys.want_line(f"{label} {want}")] = model.line(label, want)
                said.setdefault(keys.all_lines, set()).add(f"{label}\t{want}")
                lines = int(said.get(keys.want(want), {"lines": 0})["lines"]) + 1
                said[keys.want(want)] = {"tree": tree_of(where), "lines": str(lines)}
            if plain := model.line(label, PLAIN):
                said[keys.want_line(f"{label} {PLAIN}")] = plain
        return said


def family(name: str) -> str:
    """Return what stands before the id in the name of a key."""
    return ":".join(name.split(":")[:2])


def _plain(name: str, held: Any) -> Any:
    if not isinstance(held, list):
        return held
    members = [member for member, _ in held]
    return set(members) if family(name) in BOUNDS else members
