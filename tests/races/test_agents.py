"""Agents that borrow by `hub mcp` and are killed at random: two of them for each slot, and no slot has two holders.

Each agent is a process of its own, killed with SIGKILL while it begins, waits, or holds. Several pairs race at a time.
Short in `make test`; `HUB_AGENT_KILLS=500 python -m pytest tests/races/test_agents.py` is the full length.
"""

from __future__ import annotations

import json
import os
import random
import select
import threading
import time
from collections import defaultdict
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import Command, register
from tests.forks import begin
from tests.races.ledger import Hold
from tests.world import PATIENCE_S, RedisServer

KILLS = int(os.environ.get("HUB_AGENT_KILLS", "60"))
PAIRS = 12
TTL_S = 0.6

pytestmark = [pytest.mark.race, pytest.mark.slow, pytest.mark.timeout(300 + 2 * KILLS)]


class Agent:
    """One `hub mcp` process, spoken to line by line."""

    def __init__(self, command: Command, path: Path) -> None:
        os.mkfifo(path)
        self._in = os.open(path, os.O_RDWR)
        self._out, theirs = os.pipe()
        # Streams of their own: those of a fork believe that they are files.
        stdin = f"os.dup2(os.open({str(path)!r}, os.O_RDONLY), 0)"
        before = f"import os, sys; {stdin}; sys.stdout = open(1, 'w', closefd=False)"
        with os.fdopen(theirs, "wb") as out, Path(f"{path}.err").open("wb") as err:
            words = ["mcp", "--ttl", str(TTL_S)]
            self.process = begin(words, command.environment, out, err, before=before, alone=True)
        self._said, self._numbers = b"", count(1)
        client = {"name": "race", "version": "1"}
        self.ask("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=client)

    def send(self, method: str, **params: Any) -> int:
        """Send a request, and return its number."""
        number = next(self._numbers)
        line = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        os.write(self._in, json.dumps(line).encode() + b"\n")
        return number

    def answer(self, number: int) -> dict[str, Any]:
        """Return the answer to a request."""
        while True:
            line, newline, rest = self._said.partition(b"\n")
            if not newline:
                ready, _, _ = select.select([self._out], [], [], 2 * PATIENCE_S)
                assert ready, "the agent does not answer"
                more = os.read(self._out, 65536)
                assert more, "the agent has ended"
                self._said += more
                continue
            self._said = rest
            if (said := json.loads(line)).get("id") == number:
                return said["result"]

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        return self.answer(self.send(method, **params))

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._in)
        os.close(self._out)


class Race:
    """Pairs of agents, each for the one slot of its own pool, and what was surely held."""

    def __init__(self, command: Command, folder: Path) -> None:
        self._command, self._folder = command, folder
        self._left, self._names, self._lock = KILLS, count(), threading.Lock()
        self.holds: list[Hold] = []
        self.failures: list[BaseException] = []
        self.kills = 0

    def agents(self, pair: int) -> None:
        """Start one agent after the other for the slot of a pair, and kill each."""
        try:
            while self._more():
                agent = Agent(self._command, self._folder / f"agent-{next(self._names)}")
                try:
                    self._use(agent, pair)
                finally:
                    agent.kill()
                self.kills += 1
        except BaseException as failure:
            self.failures.append(failure)

    def _more(self) -> bool:
        with self._lock:
            self._left -= 1
            return self._left >= 0 and not self.failures

    def _use(self, agent: Agent, pair: int) -> None:
        arguments = {"label": f"race:p{pair}", "wait_seconds": 60}
        asked = agent.send("tools/call", name="borrow_slot", arguments=arguments)
        if random.random() < 0.2:  # killed while it asks or waits
            time.sleep(random.uniform(0, 0.1))
            return
        lent = agent.answer(asked)
        begun = time.monotonic()
        assert not lent["isError"], lent
        token = int(lent["structuredContent"]["token"])
        hold = Hold(f"s{pair}", token, "", begun, begun)
        self.holds.append(hold)
        until = begun + random.choice([0.0, random.uniform(0, 2 * TTL_S)])  # some live by renewals
        while True:
            now = time.monotonic()  # before the question: the answer is how long the lease lasts from then on at least
            held = agent.ask("tools/call", name="slot_status", arguments={})
            if held["isError"]:  # this machine stood still for too long, and the agent says so
                return
            for slot in held["structuredContent"]["slots"]:
                hold.end = max(hold.end, now + slot["seconds_left"] - 0.05)  # it is rounded
            if now >= until:
                return
            time.sleep(0.05)


def test_two_agents_for_one_slot_that_are_killed_never_hold_it_at_once(start_hub, redis_server: RedisServer, tmp_path):
    lender = start_hub(HUB_NODE_TIMEOUT="600", HUB_BORROW_TTL_SWEEP_SECONDS="0.1")
    for pair in range(PAIRS):
        register(lender, f"n{pair}", slots=[{"labelKey": f"race:p{pair}", "slotId": f"s{pair}"}])
    race = Race(Command(lender, tmp_path), tmp_path)
    threads = [threading.Thread(target=race.agents, args=(pair,)) for pair in range(PAIRS) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert race.failures == []
    by_slot: dict[str, list[Hold]] = defaultdict(list)
    for hold in sorted(race.holds, key=lambda each: each.token):
        by_slot[hold.slot].append(hold)
    overlaps = [pair for found in by_slot.values() for pair in pairwise(found) if pair[1].begin < pair[0].end]
    print(f"{race.kills} kills, {len(race.holds)} leases, {len(overlaps)} overlaps")
    assert overlaps == []
    assert race.kills == KILLS
    assert len({(hold.slot, hold.token) for hold in race.holds}) == len(race.holds) > KILLS / 2
