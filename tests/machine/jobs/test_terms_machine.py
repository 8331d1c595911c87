"""After every step needs and limits of jobs keep their rules, and in the end all tasks have run.

`HUB_MACHINE_EXAMPLES` makes it longer, and a failure is shortened.
"""

import os

import pytest

from tests.machine.jobs.terms import TermsMachine
from tests.machine.run import run_terms

EXAMPLES = 20


@pytest.mark.timeout(3600 if "HUB_MACHINE_EXAMPLES" in os.environ else 600)
def test_needs_and_limits_keep_their_rules_after_every_step(redis_server):
    given = os.environ.get("HUB_MACHINE_EXAMPLES")
    run_terms(redis_server, int(given or EXAMPLES), shrink=given is not None)
    assert given or TermsMachine.steps >= 500
