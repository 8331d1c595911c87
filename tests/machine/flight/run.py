"""Playing steps: given ones, or random ones by a seed; and the shortest ones that break the same rule."""

from __future__ import annotations

import asyncio
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.machine.flight.base import Broken, Stage
from tests.machine.flight.world import Step, World

LENGTH = 100
# How often each kind of step is taken, beside the others.
WEIGHTS = {
    "beat": 4, "report": 2, "take_off": 3, "put_back": 3, "succeed": 1, "old_beats": 1, "old_leaves": 1,
    "fall_silent": 1, "drain": 1, "cordon": 1, "undrain": 1, "ail": 4, "bar": 2,
    "borrow": 14, "wait_for": 3, "borrow_where": 4, "wait_where": 3, "describe": 4,
    "borrow_all": 14, "wait_all": 10, "renew_all": 4, "return_all": 5,
    "renew": 5, "verify": 3, "verify_old": 2, "give_back": 8, "end_by_hand": 2,
    "meddle": 3,
    "listen": 3, "give_up": 2, "cap": 2,
    "employ": 3, "worker_beat": 2, "worker_silent": 1, "submit": 5, "claim": 8, "finish": 6, "cancel": 2,
    "remove": 1,
    "set_team": 4, "borrow_as": 8, "wait_as": 10,
    "submit_train": 7, "claim_train": 14,
    "again": 8, "freeze": 4, "thaw": 3, "twice": 2, "stall": 1, "flow": 2,
    "pass": 7, "still": 1, "tick": 2, "sweep": 2,
    "mark": 3, "restart": 1, "wipe": 1, "fail_over": 2, "go_down": 1, "come_up": 3,
}  # fmt: skip


@dataclass
class Played:
    """The outcome of some steps."""

    steps: int
    broken: Broken | None
    at: int = 0
    done: list[Step] = field(default_factory=list)
    heard: Counter[str] = field(default_factory=Counter)  # what was answered as it should be, how often
    resting: bool = False  # it was found when everything should have come to rest


class Player:
    """A stage on which one world is played after the other."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="flight-"))
        self._runner = asyncio.Runner()
        self.stage = Stage(self._folder)
        self._runner.run(self.stage.start())

    def close(self) -> None:
        self._runner.run(self.stage.stop())
        self._runner.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def play(self, steps: Iterable[Step], rules: Set[str] | None = None, *, rest: bool = True) -> Played:
        """Do the steps in a new world, and let it come to rest."""
        return self._runner.run(self._play(steps, rules, rest))

    async def _play(self, steps: Iterable[Step], rules: Set[str] | None, rest: bool) -> Played:
        world, done, resting = World(self.stage, rules), [], False
        with self.stage.clock.believed():
            await world.begin()
            try:
                for step in steps:
                    done.append(step)
                    await world.step(*step)
                resting = True
                if rest:
                    await world.rest()
            except Broken as broken:
                return Played(world.steps, broken, len(done), done, world.heard, resting)
            finally:
                await world.end()
        return Played(world.steps, None, len(done), done, world.heard)

    def shorten(self, steps: Sequence[Step], rule: str, *, rest: bool, tries: int = 400) -> list[Step]:
        """Break the same rule with fewer steps; `rest` says that it takes rest to see that."""
        found, size = list(steps), max(1, len(steps) // 2)
        while size and tries > 0:
            at, shorter = 0, False
            while at < len(found) and tries > 0:
                candidate, tries = found[:at] + found[at + size :], tries - 1
                played = self.play(candidate, {rule}, rest=rest)
                if played.broken:
                    found, shorter = candidate[: played.at], True
                else:
                    at += size
            size = size if shorter and size > 1 else size // 2
        return found


def some_steps(seed: int, length: int = LENGTH, weights: dict[str, int] = WEIGHTS) -> Iterator[Step]:
    """Begin a world, and take the steps that follow."""
    choose = random.Random(seed)
    for n in range(3):
        yield ("beat", n, n, 0)
    for n in (0, 1, 3):
        yield ("employ", n, n, 0)
    names, chances = list(weights), list(weights.values())
    for name in choose.choices(names, chances, k=length):
        yield (name, *(choose.randrange(1 << 16) for _ in range(3)))


@contextmanager
def player() -> Iterator[Player]:
    found = Player()
    try:
        yield found
    finally:
        found.close()


def told(played: Played, steps: Sequence[Step] = ()) -> str:
    """Say which rule was broken, and by which steps, ready to be played again."""
    return "\n".join([str(played.broken), *(f"    {step}," for step in steps or played.done[: played.at])])
