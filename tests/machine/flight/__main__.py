"""`python -m tests.machine.flight --seed 1 --worlds 200`: random worlds; what breaks is shortened and printed."""

from __future__ import annotations

import argparse
import logging
import time
from collections import Counter

from tests.machine.flight.rules import RULES
from tests.machine.flight.run import player, some_steps


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--worlds", type=int, default=200)
    parser.add_argument("--rules", default="")
    parser.add_argument("--without", default="")
    parser.add_argument("--shorten", type=int, default=0)
    parser.add_argument("--stop", action="store_true")
    chosen = parser.parse_args()
    logging.disable(logging.CRITICAL)
    rules = (set(chosen.rules.split(",")) if chosen.rules else RULES) - set(chosen.without.split(","))
    steps, found, heard, began = 0, Counter(), Counter(), time.monotonic()
    with player() as one:
        for seed in range(chosen.seed, chosen.seed + chosen.worlds):
            played = one.play(some_steps(seed), rules)
            steps += played.steps
            heard += played.heard
            if played.broken:
                found[played.broken.rule] += 1
                print(f"seed {seed}, after {steps} steps in all ({played.at} here): {played.broken}", flush=True)
                if chosen.shorten:
                    shorter = one.shorten(played.done, played.broken.rule, rest=played.resting, tries=chosen.shorten)
                    print(*(f"    {step}," for step in shorter), sep="\n", flush=True)
                if chosen.stop:
                    break
    print(f"{steps} steps in {time.monotonic() - began:.0f} s: {dict(found)}; answered: {dict(heard)}")


if __name__ == "__main__":
    main()
