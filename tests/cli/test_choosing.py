"""Choosing among slots on the command line: `--where`, `--any-of`, `--prefer`, and what shows attributes."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable

import pytest

from tests.cli.command import Command
from tests.world import wait_until

SLOTS = [
    {
        "label": "gpu:a100:eu",
        "slotId": "big",
        "attributes": {"vram": 80, "features": ["nvlink", "mig"]},
        "warm": ["r1"],
    },
    {"label": "gpu:a100:eu", "slotId": "small", "attributes": {"vram": 40, "features": []}},
    {"label": "gpu:t4", "slotId": "old", "attributes": {"vram": 16, "model": "T4"}},
    {"label": "cpu:large", "slotId": "plain"},
]


@pytest.fixture(autouse=True)
def node(announce: Callable[..., None]) -> None:
    """A node with slots of several kinds."""
    announce("n1", slots=SLOTS)


def rows(text: str) -> list[list[str]]:
    return [re.split(r" {2,}", line) for line in text.splitlines()]


@pytest.mark.parametrize(
    ("words", "slot"),
    [
        (["gpu", "--where", "vram >= 80"], "big"),
        (["gpu", "--where", "vram < 40"], "old"),
        (["gpu:a100", "--where", "!('nvlink' in features)"], "small"),
        (["gpu:a100", "--prefer", "r2", "--prefer", "r1"], "big"),
        (["gpu:h100", "--wait-for-pool", "--any-of", "gpu where vram >= 80", "--any-of", "cpu:large"], "big"),
        (["gpu:t4", "--where", "vram >= 80", "--any-of", "cpu:large"], "plain"),
        (["--any-of", "gpu:h100", "--any-of", "gpu where vram < 40"], "old"),
    ],
    ids=" ".join,
)
def test_a_borrow_gets_a_slot_that_suits(words: list[str], slot: str, command: Command):
    done = command("borrow", *words, "--", "sh", "-c", "echo $HUB_SLOT_ID $HUB_SLOT_VRAM")
    vram = {each["slotId"]: each.get("attributes", {}).get("vram", "") for each in SLOTS}[slot]
    assert (done.returncode, done.stdout) == (0, f"{slot} {vram}".rstrip() + "\n"), done.stderr


@pytest.mark.parametrize(
    ("where", "hint"),
    [("vrm >= 40", "did you mean vram?"), ("vram >= 100", "vram >= 100: ")],
)
def test_a_borrow_that_no_slot_suits_says_why(where: str, hint: str, command: Command):
    done = command("borrow", "gpu", "--where", where, "--", "true")
    assert (done.returncode, done.stdout) == (75, "")
    assert hint in done.stderr


def test_a_borrow_that_waits_in_vain_is_told_why_while_it_waits(command: Command):
    waiting = command.start("borrow", "gpu", "--where", "vram >= 100", "--wait", "60")
    waiting.until_err("number 1 in the queue, how long it takes is not known. But vram >= 100: ")
    waiting.signal(signal.SIGTERM)
    assert waiting.end() == 1


@pytest.mark.parametrize(
    ("words", "sentence", "shown", "mark"),
    [
        (["--where", "vram >= 40 &&& ecc"], "where: expected an attribute", "vram >= 40 &&& ecc", 14),
        (["--any-of", "gpu:h100 where vram >> 3"], "where: expected a number", "gpu:h100 where vram >> 3", 22),
    ],
)
def test_a_mistake_in_an_expression_is_one_sentence_with_a_mark_below_its_place(
    words: list[str], sentence: str, shown: str, mark: int, lone_command: Command
):
    done = lone_command("borrow", "gpu:a100", *words, "--", "true")
    said, text, place = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (2, "")
    assert said.startswith(f"hub: {sentence}")
    assert (text, place) == (f"  {shown}", f"  {' ' * (mark - 1)}^")
    problem = lone_command("borrow", "gpu:a100", *words, "--json")
    assert (json.loads(problem.stderr)["code"], problem.returncode) == ("usage", 2)


def test_a_label_of_one_segment_needs_an_expression(lone_command: Command):
    done = lone_command("borrow", "gpu", "--", "true")
    assert (done.returncode, "'gpu' is no label" in done.stderr, "--where" in done.stderr) == (2, True, True)


def test_the_attributes_of_a_label_are_listed_with_their_values(command: Command):
    done = command("pool", "attributes", "gpu")
    assert (done.returncode, done.stderr) == (0, "")
    assert rows(done.stdout) == [
        ["NAME", "TYPE", "VALUE", "SLOTS", "FREE"],
        ["features", "list", '"mig"', "1", "1"],
        ["features", "list", '"nvlink"', "1", "1"],
        ["model", "text", '"T4"', "1", "1"],
        ["vram", "number", "16", "1", "1"],
        ["vram", "number", "40", "1", "1"],
        ["vram", "number", "80", "1", "1"],
    ]
    listed = command.json("pool", "attributes", "gpu:t4")
    assert (listed["slots"], [each["name"] for each in listed["attributes"]]) == (1, ["model", "vram"])
    assert command("pool", "attributes", "cpu:large").stdout == "No slot of cpu:large has attributes.\n"


def test_slots_are_shown_with_their_attributes_and_what_is_warm(command: Command):
    shown = {row[0]: row for row in rows(command("node", "show", "n1").stdout)}
    assert shown["SLOT"][-2:] == ["ATTRIBUTES", "WARM"]
    assert shown["big"][-2:] == ["features=mig,nvlink vram=80", "r1"]
    assert shown["plain"][-2:] == ["-", "-"]
    listed = {row[0]: row for row in rows(command("slot", "ls").stdout)}
    assert listed["old"][-2:] == ["model=T4 vram=16", "-"]


def test_the_queue_shows_what_tickets_want(command: Command):
    command.start("borrow", "gpu", "--where", "vram >= 80").until_out("TOKEN")
    words = ["--any-of", "gpu:a100 where vram > 60", "--prefer", "r1", "--wait", "60"]
    waiting = command.start("borrow", "gpu", "--where", "vram >= 80", *words)
    wait_until(lambda: command.ask("/queue")["waiting"] == 1, why=lambda: waiting.err)
    head, *places = rows(command("queue").stdout)
    wants = "gpu where vram >= 80, or gpu:a100 where vram > 60"
    assert head[-1] == "WANTS"
    assert [(place[0], place[-1]) for place in places] == [("gpu", wants), ("gpu:a100", wants)]
    ticket = command.ask("/queue")["labels"][0]["tickets"][0]["ticket"]
    assert wants in command("queue", "show", ticket).stdout
    waiting.signal(signal.SIGTERM)
    waiting.end()


def test_the_demand_for_what_suits_is_counted(command: Command):
    command.start("borrow", "gpu", "--where", "vram >= 80").until_out("TOKEN")
    assert command.json("autoscale", "gpu:a100:eu", "--where", "vram >= 80")["free"] == 0
    assert command.json("autoscale", "gpu:a100:eu", "--where", "vram >= 40")["free"] == 1


def test_an_agent_lends_slots_with_attributes(command: Command):
    facts = ["--attribute", "vram=24", "--attribute", "model=L4", "--attribute", 'ports=["sdi"]', "--warm", "r9"]
    agent = command.start("agent", "--node", "n2", "--slots", "card:l4=2", *facts)
    agent.until_err("node announced")
    slots = command.ask("/nodes/n2")["slotList"]
    assert [slot["browserId"] for slot in slots] == ["n2-card.l4-1", "n2-card.l4-2"]
    assert slots[0]["attributes"] == {"model": "L4", "ports": ["sdi"], "vram": 24}
    assert slots[0]["warm"] == ["r9"]
    agent.signal(signal.SIGTERM)
    assert agent.end() == 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--slots", "a:b=1", "--attribute", "a b=1"], "no reserved words of CEL; not 'a b'"),
        (["--slots", "a:b=1", "--attribute", 'a={"b": 1}'], "a must be a number, a text"),
        (["--slots", "a:b=1", "--attribute", "a=1", "--attribute", "a=2"], "--attribute names 'a' twice."),
        (["--slots", "a:b=1", "--warm", "two words"], "not 'two words'"),
        (["--attribute", "a=1"], "say --slots LABEL=N as well."),
        (["--fleet", "fleet.toml", "--warm", "r1"], "--fleet says what is lent"),
    ],
    ids=str,
)
def test_an_agent_refuses_attributes_that_no_hub_takes(words: list[str], sentence: str, lone_command: Command):
    done = lone_command("agent", "--node", "n2", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert sentence in done.stderr
