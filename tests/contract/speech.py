"""Check messages over Socket.IO, and events of the stream, against the contract."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from jsonschema_rs import Draft202012Validator

from hub.api.publish import SPOKEN
from tests.contract.checking import closed

SPEECH: dict[str, Any] = json.loads(SPOKEN.read_bytes())


@cache
def _validator(message: str) -> Draft202012Validator:
    components = SPEECH["components"]
    payload = components["messages"][message]["payload"]
    return Draft202012Validator({**closed(payload), "components": {"schemas": closed(components["schemas"])}})


def check_heard(message: str, payload: Any) -> None:
    """Fail unless the contract tells of this message, and of all that is in it."""
    assert message in SPEECH["components"]["messages"], f"the contract does not name {message}"
    faults = [f"{message}: {fault.message}" for fault in _validator(message).iter_errors(payload)]
    assert not faults, (faults, payload)


def check_acknowledged(message: str, answer: Any) -> None:
    """Fail unless the contract tells that clients may say this, and of what they were answered."""
    operation = SPEECH["operations"][message]
    assert operation["action"] == "receive", f"the contract does not say that {message} is taken"
    if not isinstance(answer, str):
        check_heard("done", answer)
