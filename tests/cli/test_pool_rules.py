"""`hub pool set`, `rules` and `unset`, and what `hub borrow` does before a rule ends its lease."""

from __future__ import annotations

import pytest

from tests.cli.command import Command, register
from tests.world import HubProcess

POOL = "gpu:a100"


@pytest.fixture(autouse=True)
def node(own_hub: HubProcess) -> None:
    """A node with a slot."""
    register(own_hub, "n1", pools={POOL: 1})


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_a_rule_is_set_shown_changed_and_removed(own_command: Command):
    done = own_command("pool", "set", "gpu:*", "--max-hold", "4h", "--idle", "30m", "--ttl", "60s", "--warn", "60s")
    assert done.stdout == (
        "gpu:*: held for at most 4 h, ended after 30 min unused, lent for 1 min; holders are told 1 min before.\n"
    )
    assert rows(own_command("pool", "rules", "--wide").stdout)[1][:7] == ["gpu:*", "4", "h", "30", "min", "1", "min"]
    assert own_command.json("pool", "set", "gpu:*", "--idle", "none")["idleSeconds"] is None
    assert own_command.json("pool", "rules")["rules"][0]["maxHoldSeconds"] == 14_400
    assert own_command("pool", "unset", "gpu:*").stdout == "gpu:* has no rule now.\n"
    assert own_command("pool", "rules").stdout.startswith("No pool has a rule")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["gpu:*"], "Say what to change"),
        (["gpu:*", "--idle", "soon"], "is not a time"),
        (["gpu:*", "--idle", "10s", "--warn", "10s"], "warnSeconds must be less"),
        (["g pu", "--idle", "10s"], "'g pu' must be 1 to 200"),
    ],
    ids=str,
)
def test_what_is_no_rule_is_refused_in_a_sentence(own_command: Command, words: list[str], said: str):
    done = own_command("pool", "set", *words)
    assert done.returncode in (1, 2)
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_borrow_says_that_a_rule_ends_its_lease_and_signals_its_command(own_command: Command):
    assert own_command("pool", "set", "gpu:*", "--max-hold", "8s", "--warn", "5s").returncode == 0
    heard = "trap 'echo heard' USR1; while :; do sleep 0.1; done"
    running = own_command.start("borrow", POOL, "--signal-ending", "--", "sh", "-c", heard)
    running.until_out("heard")
    assert "it is held for as long as the rule of its pool allows" in running.err
    assert "max-hold, in" in own_command("lease", "ls", "--wide").stdout
    assert running.end() != 0
    assert "ends by a rule of its pool, and the command was stopped" in running.err
