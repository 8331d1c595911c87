"""Any sequence of what nodes, borrowers, operators, sweepers and accidents do, beside a small model of the rules.

Every step runs real scripts on a real Redis; after every step lists, sessions, queues, indexes and the names of keys
must be what the model says. `HUB_MACHINE_EXAMPLES` makes it longer, and a failure is shortened, which takes minutes.
"""

import os

import pytest

from tests.machine.run import Machine, run

EXAMPLES = 310


@pytest.mark.timeout(3600 if "HUB_MACHINE_EXAMPLES" in os.environ else 600)
def test_the_store_matches_the_model_after_every_step(redis_server):
    given = os.environ.get("HUB_MACHINE_EXAMPLES")
    run(redis_server, int(given or EXAMPLES), shrink=given is not None)
    assert given or Machine.steps >= 20_000
