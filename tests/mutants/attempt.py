"""Runs a state machine of the tree it stands in: `python -m tests.mutants.attempt line|jobs EXAMPLES`.

The last line it prints is a JSON object: what the machine found, or null, after how many steps and seconds.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.machine.jobs.machine import JobsMachine
from tests.machine.run import Machine, run, run_jobs
from tests.world import RedisServer


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="hub-mutant-"))
    server = RedisServer(folder)
    server.start()
    started, found = time.monotonic(), None
    try:
        (run_jobs if sys.argv[1] == "jobs" else run)(server, int(sys.argv[2]), shrink=False)
    except BaseException as error:
        found = _first_line(error)
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)
    steps = JobsMachine.steps if sys.argv[1] == "jobs" else Machine.steps
    print(json.dumps({"found": found, "steps": steps, "seconds": round(time.monotonic() - started, 1)}))


def _first_line(error: BaseException) -> str:
    """What the machine said, or what the error is, where Hypothesis has put several together."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:200]


if __name__ == "__main__":
    main()
