"""After every step of submitters, workers, operators and sweepers the store says of jobs what the rules say.

`HUB_MACHINE_EXAMPLES` makes it longer, and a failure is shortened.
"""

import os

import pytest

from tests.machine.jobs.machine import JobsMachine
from tests.machine.run import run_jobs

EXAMPLES = 20


@pytest.mark.timeout(3600 if "HUB_MACHINE_EXAMPLES" in os.environ else 600)
def test_the_jobs_in_the_store_match_the_model_after_every_step(redis_server):
    given = os.environ.get("HUB_MACHINE_EXAMPLES")
    run_jobs(redis_server, int(given or EXAMPLES), shrink=given is not None)
    assert given or JobsMachine.steps >= 500
