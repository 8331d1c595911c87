"""After every step needs and limits of jobs keep their rules, and in the end all tasks have run.

`HUB_MACHINE_EXAMPLES` makes it longer, and a failure is shortened.
"""

from tests.machine.alone import assert_clean, timed

EXAMPLES = 20


@timed
def test_needs_and_limits_keep_their_rules_after_every_step():
    assert_clean("terms", EXAMPLES, 500)
