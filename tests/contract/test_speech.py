"""Everything that scripts tell sockets, and that sockets take, is in the contract; `tests/joblib` and `tests/api` hold
what they hear against it.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hub.api.sockets import rooms
from tests.contract.speech import SPEECH, check_heard

TOP = Path(__file__).parents[2]


def named(action: str) -> set[str]:
    return {
        name for name, each in SPEECH["operations"].items()
        if each["action"] == action and each["channel"]["$ref"] != "#/channels/events"
    }  # fmt: skip


def test_every_event_that_scripts_send_is_in_the_contract():
    scripts = (script.read_text() for script in (TOP / "lua").rglob("*.lua"))
    told = {name for text in scripts for name in re.findall(r"events\.emit\('(\w+)'", text)}
    assert named("send") == told


def test_every_message_that_sockets_accept_is_in_the_contract():
    taken = set(re.findall(r"\(\"(\w+)\", self\._(?:join|leave)", Path(rooms.__file__).read_text()))
    assert named("receive") == taken


def test_every_message_and_member_has_a_description_and_an_example():
    components = SPEECH["components"]
    lacking = [name for name, each in components["messages"].items() if not (each["summary"] and each["examples"])]
    for name, schema in components["schemas"].items():
        lacking += [name] if not schema.get("description") else []
        for member, said in schema["properties"].items():
            if not (said.get("description", "").endswith(".") and said.get("examples", [None])[0] is not None):
                lacking.append(f"{name}.{member}")
    assert lacking == []


@pytest.mark.parametrize(
    ("message", "payload"), [("unheard", {}), ("jobs_invalidate", {"more": 1}), ("task_available", {"job_name": "a"})]
)
def test_the_check_finds_a_message_that_is_not_in_the_contract(message, payload):
    with pytest.raises(AssertionError):
        check_heard(message, payload)
