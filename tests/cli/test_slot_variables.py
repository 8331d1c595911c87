"""The attributes of a slot are told to the command of `hub borrow`, and set no other variable."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from hub.client.slot_variables import LONGEST, slot_variables
from tests.cli.command import Command

TABLE = "import os, json; print(json.dumps(dict(os.environ)))"
ATTRIBUTES = {
    "index": 3,
    "vram": 80.5,
    "mig": False,
    "driver-version": "550.54",
    "uuids": ["GPU-1", "GPU-2"],
    "id": "x",
}


def seen(command: Command, *words: str, **environment: str) -> dict[str, str]:
    """Return the environment of a command that runs with a slot."""
    done = command("borrow", "gpu:a100", *words, "--", "python3", "-c", TABLE, **environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("names", [("label", "address"), ("labelKey", "endpoint")], ids=["neutral", "old"])
def test_attributes_of_a_slot_are_variables_of_the_command(
    names: tuple[str, str], command: Command, announce: Callable[..., None]
):
    slot = {names[0]: "gpu:a100", names[1]: "ssh://n1", "slotId": "s1", "cuda": 12, "attributes": ATTRIBUTES}
    announce("n1", slots=[slot])
    found = seen(command, HUB_SLOT_OF_AN_OUTER_BORROW="y")
    assert {name: text for name, text in found.items() if name.startswith("HUB_SLOT_")} == {
        "HUB_SLOT_ID": "s1", "HUB_SLOT_IDS": "s1", "HUB_SLOT_ENDPOINT": "ssh://n1", "HUB_SLOT_LABEL": "gpu:a100",
        "HUB_SLOT_POOL": "gpu:a100",
        "HUB_SLOT_NODE": "n1", "HUB_SLOT_CUDA": "12", "HUB_SLOT_INDEX": "3", "HUB_SLOT_VRAM": "80.5",
        "HUB_SLOT_MIG": "false", "HUB_SLOT_DRIVER_VERSION": "550.54", "HUB_SLOT_UUIDS": "GPU-1,GPU-2",
    }  # fmt: skip


def test_a_variable_of_the_user_is_filled_with_facts_of_the_slot(command: Command, announce: Callable[..., None]):
    announce("n1", slots=[{"label": "gpu:a100", "slotId": "s1", "attributes": ATTRIBUTES}])
    text = '{"gpu": "{index}", "of": "{Node}", "x": {}}'
    found = seen(command, "--env", "CUDA_VISIBLE_DEVICES={index}", "--env", f"FACTS={text}", "--env", "EMPTY=")
    assert (found["CUDA_VISIBLE_DEVICES"], found["EMPTY"]) == ("3", "")
    assert found["FACTS"] == '{"gpu": "3", "of": "n1", "x": {}}'


def test_a_fact_that_the_slot_does_not_have_is_named_before_the_command_runs(
    command: Command, announce: Callable[..., None]
):
    announce("n1", slots=[{"label": "gpu:a100", "slotId": "s1", "attributes": {"vram": 80}}])
    done = command("borrow", "gpu:a100", "--env", "CUDA_VISIBLE_DEVICES={index}", "--", "echo", "ran")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "hub: The slot s1 has no {index}, which --env names; it has endpoint, id, ids, label, node, pool, vram.\n"
    )
    assert command.ask("/sessions")["sessions"] == []


def of(**attributes: Any) -> dict[str, str]:
    """Return what attributes add to the variables of a slot, by whatever names and values a node gives them."""
    facts = {"id": "s1", "endpoint": "", "label": "a:b", "matched_label": "a:b", "node_id": None}
    every = slot_variables(SimpleNamespace(**facts, attributes={}))  # type: ignore[arg-type]
    found = slot_variables(SimpleNamespace(**facts, attributes=attributes))  # type: ignore[arg-type]
    assert {name: found[name] for name in every} == every
    return {name: text for name, text in found.items() if name not in every}


@pytest.mark.parametrize(
    ("attributes", "variables"),
    [
        ({"PATH": "/evil", "LD_PRELOAD": "x.so"}, {"HUB_SLOT_PATH": "/evil", "HUB_SLOT_LD_PRELOAD": "x.so"}),
        ({"a\nPATH": "x", "b=c": "y", "\0": "z"}, {"HUB_SLOT_A_PATH": "x", "HUB_SLOT_B_C": "y", "HUB_SLOT__": "z"}),
        ({"a": "x\nPATH=/evil", "b": "x\0y", "c": ["x", "y\r"], "d": "\ud800"}, {}),
        ({"id": "x", "ids": "y", "ID": "y", "endpoint": "z", "node": "n", "pool": "p", "label": "l"}, {}),
        ({"straße": "x", "größe": "y"}, {"HUB_SLOT_STRASSE": "x", "HUB_SLOT_GR_SSE": "y"}),
        ({"a-b": "first", "a.b": "second"}, {"HUB_SLOT_A_B": "first"}),
        ({"": "x", "a": "x" * (LONGEST + 1), "b": {"c": ["d"]}}, {"HUB_SLOT_": "x", "HUB_SLOT_B": '{"c": ["d"]}'}),
        (
            {"n": [1, None, [True]], "f": 1.5, "t": True},
            {"HUB_SLOT_N": "1,null,true", "HUB_SLOT_F": "1.5", "HUB_SLOT_T": "true"},
        ),
    ],
)
def test_no_name_and_no_value_of_a_node_sets_another_variable(attributes: dict[str, Any], variables: dict[str, str]):
    assert of(**attributes) == variables
