"""Stores beside each other on one server, each under a prefix and with a library of its own, called without a hub."""

from __future__ import annotations

import itertools
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from redis import Redis
from redis.exceptions import ResponseError

from hub.capacity.models import slot_item
from hub.store.formats import FORMAT
from hub.store.keys import Keys
from hub.store.library import Command, Library, library
from tests.world import clean_environment

HUB = "bench-hub"
BATCH = 100  # calls on their way at a time
FOREVER_MS = 10_000_000
_TELL = """import json
from hub.store.library import library
commands = [[each.name, each.arguments, each.takes_rest, each.changes] for each in library().commands.values()]
print(json.dumps([library().body, commands]))"""
# What a call says unless a benchmark says otherwise; each library takes the arguments that it knows.
_SAID = {
    "ttl_ms": 60_000, "idle_ms": 0, "run": "r", "fingerprint": "0" * 16, "keep_s": 60, "keyed": 0, "repeated": 0,
    "hub": HUB, "wait_ms": 0, "limit_ms": -1, "priority": 0, "max_label": 10**9, "max_run": 10**9, "capacity": 1,
    "timeout_ms": FOREVER_MS, "labels": "{}", "audit_new": "{}", "audit_old": "{}", "audit_max": 10, "token_ms": 0,
    "policy": "reuse", "run_id": "bench", "lost": 0, "settle_ms": 0, "floor": 0, "heard_ms": 0, "cluster": 0,
    "format": FORMAT, "classes_max": 64, "served": 0,
}  # fmt: skip
_numbers = itertools.count()
_chance = random.Random(7)


def library_of(revision: str) -> Library:
    """Return the library of a revision of this repository, as its own code makes it."""
    with tempfile.TemporaryDirectory(prefix="hub-bench-") as folder:
        packed = subprocess.run(
            ["git", "archive", revision, "hub", "lua"],
            cwd=Path(__file__).parent.parent.parent,
            capture_output=True,
            check=True,
        )
        subprocess.run(["tar", "-x", "-C", folder], input=packed.stdout, check=True)
        told = subprocess.run(
            [sys.executable, "-c", _TELL],
            cwd=folder, env={**clean_environment(), "PYTHONPATH": folder}, capture_output=True, check=True,
        )  # fmt: skip
    body, commands = json.loads(told.stdout)
    return Library(body, {name: Command(name, tuple(names), *rest) for name, names, *rest in commands})


class Side:
    """A store without a hub: nothing ticks, no sweep runs, and every caller is heard for ever."""

    def __init__(self, redis: Redis, prefix: str, known: Library | None = None) -> None:
        self.redis, self.keys, self.library = redis, Keys(prefix), known or library()
        with suppress(ResponseError):  # another side has loaded it
            redis.function_load(self.library.text)
        self.call("store/open")
        redis.hset(self.keys.store, mapping={"options": "110", "born_ms": -(10**12)})

    def command(self, name: str, /, rest: Iterable[Any] = (), **named: Any) -> tuple[Any, ...]:
        """Return a call of the library as a command of Redis."""
        command = self.library.commands[name]
        said = {**_SAID, **named}
        return self.library.call(name, self.keys, [*(said.get(each, "") for each in command.arguments), *rest])

    def call(self, name: str, /, rest: Iterable[Any] = (), **named: Any) -> Any:
        """Return the answer of a command of the library."""
        return self.redis.execute_command(*self.command(name, rest, **named))

    def publish(
        self, pool: str, slots: Iterable[tuple[str, str]], warm: str = "", node: str = "n", apart: int = 4
    ) -> None:
        """Put slots, each a name and its attributes as JSON or '', on offer of one node for each `apart` of them."""
        listed = list(slots)
        for number, start in enumerate(range(0, len(listed), apart)):
            name, rest = f"{node}{number:05d}", []
            self.call("nodes/register", id=name, part=name)
            for slot, attributes in listed[start : start + apart]:
                item = slot_item(name, slot, "a100", {"endpoint": f"ws://10.0.0.1:9222/{slot}"})
                said = [slot, pool, item, *[""] * 10, attributes, warm]
                rest += said if "classes_max" in self.library.commands["capacity/publish"].arguments else said[:13]
            notes = ["again"]
            while "again" in notes:  # a new class is made in several calls where many wait
                word, *answer = self.call("capacity/publish", rest, id=name, part=name)
                assert word == "ok", word
                notes = answer[2] if len(answer) > 2 else []
            assert not any(notes), notes

    def lend(self, label: str) -> tuple[Any, ...]:
        """Return the call of a borrow that says nothing but its label."""
        name = f"try-{next(_numbers):024x}"
        return self.command("capacity/lend_now", label=label, request=name, attempt=name)

    def borrow(self, label: str, alternatives: str = "", **more: Any) -> tuple[Any, ...]:
        """Return the call of a borrow that may wait; `alternatives` as `capacity/borrow` takes them."""
        number = next(_numbers)
        name = f"try-{number:024x}"
        said = {"run": f"r{number % 997}", "alternatives": alternatives, **more}
        return self.command("capacity/borrow", label=label, request=name, attempt=name, **said)

    def wait(self, label: str, alternatives: str = "") -> tuple[Any, ...]:
        """Return the call of a borrow that waits for as long as it must."""
        return self.borrow(label, alternatives, wait_ms=FOREVER_MS)

    def back(self, label: str, slot: str, token: str) -> tuple[Any, ...]:
        """Return the call of a return."""
        name = f"try-{next(_numbers):024x}"
        return self.command("capacity/give_back", slot=slot, hint=label, token=token, request=name, run="", keyed="")

    def tokens(self, slots: Sequence[str]) -> list[str]:
        """Return the token of the lease of each slot."""
        pipe = self.redis.pipeline(transaction=False)
        for slot in slots:
            pipe.hget(self.keys.session(slot), "leaseToken")
        return list(pipe.execute())

    def delivered(self) -> None:
        """Forget which grants are still to be told: there is no hub to tell them."""
        self.redis.delete(self.keys.handed(HUB))


def usec(redis: Redis, calls: Sequence[tuple[Any, ...]], *, only: str = "") -> tuple[float, list[Any]]:
    """Return the microseconds of Redis that a call took, on average, and the answers; with `only` each begins with it.

    Redis collects what Lua leaves behind in steps, one with every 50th call: without calls of any number before, a
    collection would meet the same kind of call in every round.
    """
    pipe = redis.pipeline(transaction=False)
    for _ in range(_chance.randrange(BATCH)):
        pipe.eval("return 1", 0)
    pipe.execute()
    redis.config_resetstat()
    answers: list[Any] = []
    for start in range(0, len(calls), BATCH):
        pipe = redis.pipeline(transaction=False)
        for call in calls[start : start + BATCH]:
            pipe.execute_command(*call)
        answers += pipe.execute()
    stats = redis.info("commandstats")["cmdstat_fcall"]
    assert stats["calls"] == len(calls), stats
    assert not only or {answer[0] for answer in answers} == {only}, answers[:3]
    return float(stats["usec"]) / len(calls), answers
