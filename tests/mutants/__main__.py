"""`make mutants`: plants each mistake in a copy of the project and lets the state machine look for it that covers it,
or the test that is there for it.

Exits 1 when one is not found within a few times the steps of the test itself, when the text it replaces is not there
any more, or when a machine finds something in the project as it is. Words of its description as arguments choose some.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.machine.flight.test_flight import STEPS
from tests.machine.jobs.test_jobs_machine import EXAMPLES as JOBS_EXAMPLES
from tests.machine.jobs.test_terms_machine import EXAMPLES as TERMS_EXAMPLES
from tests.machine.test_machine import EXAMPLES
from tests.mutants.in_bundles import BUNDLES
from tests.mutants.in_flight import FLIGHT
from tests.mutants.in_holders import HOLDERS
from tests.mutants.in_holds import HOLDS
from tests.mutants.in_jobs import TASKS
from tests.mutants.in_matching import MATCHING
from tests.mutants.in_rules import RULES
from tests.mutants.in_served_caps import SERVED
from tests.mutants.in_spilling import SPILLING
from tests.mutants.in_task_terms import TERMS
from tests.mutants.in_teams import TEAMS
from tests.mutants.in_usage import USAGE
from tests.mutants.mistakes import MISTAKES, Mistake

TOP = Path(__file__).parent.parent.parent
AT_ONCE = 2
BUDGET = {"queue": 3 * EXAMPLES, "jobs": 24 * JOBS_EXAMPLES, "terms": 6 * TERMS_EXAMPLES, "flight": 8 * STEPS}
QUEUE = (*BUNDLES, *TEAMS, *MISTAKES, *HOLDS, *SERVED, *MATCHING, *HOLDERS, *RULES, *USAGE)
OF_MACHINE = {"flight": FLIGHT, "jobs": TASKS, "terms": TERMS, "queue": QUEUE}
EVERY = (*FLIGHT, *TASKS, *TERMS, *QUEUE, *SPILLING)
REGRESSIONS = "tests/capacity/queue/test_regressions.py"
MOST_S = 1200  # for one attempt; the whole budget takes a few minutes


def attempt(mistake: Mistake | None, machine: str = "queue") -> dict[str, Any]:
    """Run a machine in a copy of the project with this mistake, or with none; return what it finds."""
    machine = next((name for name, mistakes in OF_MACHINE.items() if mistake in mistakes), machine)
    with tempfile.TemporaryDirectory(prefix="hub-mutants-") as name:
        tree = Path(name)
        for part in ("hub", "lua", "tests"):
            shutil.copytree(TOP / part, tree / part)
        if mistake:
            path = tree / mistake.path
            text = path.read_text() if path.exists() else ""
            if text.count(mistake.old) != 1:
                return {"broken": f"its text is there {text.count(mistake.old)} times"}
            path.write_text(text.replace(mistake.old, mistake.new))
            if mistake.test or mistake.file:
                shutil.copy(TOP / "pyproject.toml", tree)
                return _test(tree, mistake)
        return _run(tree, machine)


def _test(tree: Path, mistake: Mistake) -> dict[str, Any]:
    started = time.monotonic()
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:xdist", mistake.file or REGRESSIONS]
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    done = subprocess.run([*command, "-k", mistake.test], cwd=tree, env=environment, text=True, capture_output=True)
    if done.returncode not in (0, 1):
        return {"broken": done.stdout[-500:]}
    found = re.search(r"^FAILED \S+::(\S+)", done.stdout, re.MULTILINE)
    seconds = round(time.monotonic() - started, 1)
    return {"found": found[1] if found else None, "steps": 1, "seconds": seconds}


def _run(tree: Path, machine: str) -> dict[str, Any]:
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    command = [sys.executable, "-m", "tests.mutants.attempt", machine, str(BUDGET[machine])]
    process = subprocess.Popen(
        command, cwd=tree, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        said, _ = process.communicate(timeout=MOST_S)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)  # so that it ends its Redis
        process.communicate()
        return {"broken": f"no end after {MOST_S} s"}
    try:
        answer: dict[str, Any] = json.loads(said.splitlines()[-1])
        return answer
    except (IndexError, ValueError):
        return {"broken": said[-500:]}


def row(mistake: Mistake | None, result: dict[str, Any]) -> tuple[bool, str]:
    """Return whether this is as it should be, and the line that says so."""
    what = f"{mistake.script}: {mistake.why}" if mistake else "the project as it is"
    if "broken" in result:
        return False, f"BROKEN    {'':>7} {'':>7}  {what}: {result['broken']}"
    found = result["found"]
    good = (found is not None) == (mistake is not None)
    word = ("found" if found else "SURVIVED") if mistake else ("FAILED" if found else "passed")
    line = f"{word:<9} {result['steps']:>7} {result['seconds']:>6}s  {what}"
    return good, line if good and not os.environ.get("VERBOSE") else f"{line}\n{'':>28}{found}"


def main() -> int:
    words = sys.argv[1:]
    chosen = [each for each in EVERY if not words or any(word in each.script or word in each.why for word in words)]
    print(f"{'':<9} {'steps':>7} {'time':>7}  mistake", flush=True)
    for machine in (name for name in BUDGET if set(OF_MACHINE[name]) & {each for each in chosen if not each.test}):
        sound, line = row(None, attempt(None, machine))
        print(line, flush=True)
        if not sound:
            return 1
    bad = 0
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for mistake, result in zip(chosen, pool.map(attempt, chosen), strict=True):
            good, line = row(mistake, result)
            bad += not good
            print(line, flush=True)
    print(f"{len(chosen)} mistakes, {bad} not as they should be" if bad else f"all {len(chosen)} mistakes found")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
