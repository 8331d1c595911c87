"""Runs a state machine of the tree it stands in.

`python -m tests.mutants.attempt queue|jobs|terms EXAMPLES [random]`, or `flight STEPS`. The last line is JSON:
what the machine found, or null, after how many steps and seconds. With `random` the examples are others each
time, and a failing one is shortened. Errors go to stderr whole, with the steps.

A machine needs a process of its own: Hypothesis draws some values from the constants of all modules that are loaded, so
beside other tests the same tree would play other steps each time.
"""

from __future__ import annotations

import itertools
import json
import logging
import shutil
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

from tests.machine.flight.rules import RULES
from tests.machine.flight.run import player, some_steps
from tests.machine.flight.scenarios import SCENARIOS
from tests.machine.jobs.machine import JobsMachine
from tests.machine.jobs.terms import TermsMachine
from tests.machine.run import Machine, run, run_jobs, run_terms
from tests.world import RedisServer


def main() -> None:
    if sys.argv[1] == "flight":
        print(json.dumps(_fly(int(sys.argv[2]))))
        return
    go, machine = {"jobs": (run_jobs, JobsMachine), "terms": (run_terms, TermsMachine)}.get(sys.argv[1], (run, Machine))
    folder = Path(tempfile.mkdtemp(prefix="hub-mutant-"))
    server = RedisServer(folder)
    server.start()
    started, found = time.monotonic(), None
    try:
        go(server, int(sys.argv[2]), shrink=sys.argv[3:] == ["random"])
    except BaseException as error:
        traceback.print_exc()
        found = _said(error)
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps({"found": found, "steps": machine.steps, "seconds": round(time.monotonic() - started, 1)}))


def _fly(most: int) -> dict[str, Any]:
    """Play the known scenarios, then random steps, until a rule is broken or `most` steps are played."""
    started, steps, found = time.monotonic(), 0, None
    logging.disable(logging.CRITICAL)
    known = (scenario.steps for scenario in SCENARIOS.values())
    chance = (tuple(some_steps(seed)) for seed in itertools.count(1))
    with player() as one:
        for given in itertools.chain(known, chance):
            played = one.play(given, RULES)
            steps += played.steps
            if played.broken or steps > most:
                found = played.broken and str(played.broken)
                break
    return {"found": found, "steps": steps, "seconds": round(time.monotonic() - started, 1)}


def _said(error: BaseException) -> str:
    """Return the text of an error; of several that Hypothesis put together, the first."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    text = str(error).strip() or type(error).__name__
    return text[:2000]


if __name__ == "__main__":
    main()
