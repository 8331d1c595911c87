"""Which process speaks for a node, as it says so itself: `incarnation`, `number` and `term` in bodies and queries."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from hub.api import bodies
from hub.errors import InvalidValue
from hub.nodes.models import DRAIN_DEADLINE_MAX_S, Caller, DrainCall, check_incarnation

NUMBER_MAX = 2**53
_TERM = re.compile(r"[0-9]{1,19}")


def incarnation(said: Mapping[str, Any]) -> str:
    """What the process calls itself, '' when it does not say; raises `InvalidValue`."""
    given = said.get("incarnation")
    return "" if given is None else check_incarnation(given)


def caller(said: Mapping[str, Any]) -> Caller:
    """Who tells the hub of slots, and with which number, that counts only beside an incarnation."""
    name, number = incarnation(said), said.get("number")
    if number is None:
        return Caller(name)
    checked = bodies.whole_number(number, "number", 0, NUMBER_MAX)
    return Caller(name, str(checked) if name else "")


def term(said: Mapping[str, Any]) -> str:
    """The term the hub gave to this incarnation, '' before that; raises `InvalidValue`."""
    given = said.get("term")
    if given is None:
        return ""
    if not _is_term(given):
        raise InvalidValue("term must be what the hub answered to the registration, as text", member="term")
    return str(given)


def drain_call(said: Mapping[str, Any]) -> DrainCall | None:
    """The last drain or undrain the node was told of, None when there was none; raises `InvalidValue`."""
    given = said.get("drainCall")
    if given is None:
        return None
    number = given.get("number") if isinstance(given, dict) else None
    if not isinstance(given, dict) or not isinstance(given.get("on"), bool) or not _is_term(number):
        wanted = "drainCall must be what the hub answered to a beat: an object with on, number and leftMs"
        raise InvalidValue(wanted, member="drainCall")
    left_ms = given.get("leftMs")
    if left_ms is not None:
        left_ms = bodies.whole_number(left_ms, "leftMs", 0, DRAIN_DEADLINE_MAX_S * 1000)
    return DrainCall(given["on"], str(number), left_ms)


def _is_term(value: Any) -> bool:
    return isinstance(value, str) and _TERM.fullmatch(value) is not None
