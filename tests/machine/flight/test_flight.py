"""Messages in flight: any call may be held back, doubled, or carried out late by a hub that stood still, on a store
that lost its last second, was wiped, restarted, failed over or failed back.

Three whole hubs share two servers, whose clocks differ by hours, in this process; agents, borrowers and workers speak
HTTP to any of them, and believe what they were told until they are told otherwise. After every step the rules
of `World` hold; at the end all come to rest, and nothing is left over. `HUB_FLIGHT_STEPS` makes it longer; seeds
are printed.
"""

import gc
import logging
import os
from collections import Counter

import pytest

from tests.machine.flight.rules import RULES
from tests.machine.flight.run import player, some_steps, told
from tests.machine.flight.scenarios import SCENARIOS

# A connection that is cut while one task reads it and another unsubscribes is made anew by both: redis-py leaves one of
# the two to the garbage collector. So does a client that is cut off while it connects.
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed (transport )?<(StreamWriter|socket|_SelectorSocket):ResourceWarning"),
    pytest.mark.filterwarnings("ignore:loop is closed:ResourceWarning"),
]
STEPS = 1_200
HAPPENS = (  # also in so few steps
    "lent together", "set aside", "renew all", "return all", "claimed with slots", "trained", "lent to a team",
    "recalled",
)  # fmt: skip
SHORTEN = 200  # tries to find fewer steps that break the same rule


@pytest.fixture(scope="module")
def stage():
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)  # a dozen hubs a second say that their store is gone
    with player() as one:
        yield one
    gc.collect()
    logging.disable(before)


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_known_scenarios_of_delayed_messages_break_no_rule(stage, name):
    scenario = SCENARIOS[name]
    played = stage.play(scenario.steps, RULES)
    assert played.broken is None, told(played)
    what, _, times = scenario.reached.rpartition(" ")
    assert played.heard[what] >= int(times or 0), f"what was to be tried was not: {dict(played.heard)}"


@pytest.mark.timeout(7200)
def test_random_steps_with_delayed_messages_break_no_rule(stage):
    wanted, steps, seed = int(os.environ.get("HUB_FLIGHT_STEPS", STEPS)), 0, int(os.environ.get("HUB_FLIGHT_SEED", 1))
    heard: Counter[str] = Counter()
    while steps < wanted:
        played = stage.play(some_steps(seed), RULES)
        steps += played.steps
        heard += played.heard
        if played.broken:
            shorter = stage.shorten(played.done, played.broken.rule, rest=played.resting, tries=SHORTEN)
            pytest.fail(f"seed {seed}, after {steps} steps: {told(played, shorter)}")
        seed += 1
    print(f"{steps} steps, seeds up to {seed - 1}: {dict(heard)}")
    assert all(heard[what] for what in HAPPENS), f"something that was to be tried was not: {dict(heard)}"
