"""Any sequence of what nodes, borrowers, operators, sweepers and accidents do, beside a small model of the rules.

Every step runs real scripts on a real Redis; after every step lists, sessions, queues, indexes and the names of keys
must be what the model says. `HUB_MACHINE_EXAMPLES` makes it longer, and a failure is shortened, which takes minutes.
"""

from tests.machine.alone import assert_clean, timed

EXAMPLES = 310


@timed
def test_the_store_matches_the_model_after_every_step():
    assert_clean("queue", EXAMPLES, 20_000)
