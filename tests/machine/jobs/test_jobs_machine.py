"""After every step of submitters, workers, operators and sweepers the store says of jobs what the rules say.

`HUB_MACHINE_EXAMPLES` makes it longer, and a failure is shortened.
"""

from tests.machine.alone import assert_clean, timed

EXAMPLES = 20


@timed
def test_the_jobs_in_the_store_match_the_model_after_every_step():
    assert_clean("jobs", EXAMPLES, 500)
