"""The environment variables that tell a command about its slot."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from typer import BadParameter

from hub.cli.inputs import Pair, shown
from hub.client import Slot
from hub.client.bundle import Held, slots_of
from hub.client.slot_variables import PREFIX, bundle_variables, slot_variables
from hub.errors import HubError


def read_variable(text: str) -> Pair:
    """Return the name and the text of `NAME=TEXT`; raises `BadParameter` where NAME is not that of a variable."""
    name, equals, value = text.partition("=")
    if not equals or not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
        raise BadParameter(f"{shown(text)} is not NAME=TEXT, such as CUDA_VISIBLE_DEVICES={{index}}.")
    return Pair(name, value)


def variables_of(held: Held) -> dict[str, str]:
    """Return the variables of a slot, or of a bundle."""
    return slot_variables(held) if isinstance(held, Slot) else bundle_variables(held.id, slots_of(held))


def filled(wanted: Sequence[Pair], slots: Sequence[Slot]) -> dict[str, str]:
    """Return the variables of the user, with `{index}` replaced by HUB_SLOT_INDEX, of a bundle by those of all slots.

    Raises `HubError` for a slot without that.
    """
    each = [(slot, slot_variables(slot)) for slot in slots]
    return {
        name: re.sub(r"\{(\w+)\}", lambda place: ",".join(_fact(*one, place) for one in each), text)
        for name, text in wanted
    }


def _fact(slot: Slot, variables: Mapping[str, str], place: re.Match[str]) -> str:
    if (text := variables.get(PREFIX + place[1].upper())) is None:
        known = ", ".join(sorted(name.removeprefix(PREFIX).lower() for name in variables))
        raise HubError(f"The slot {slot.id} has no {place[0]}, which --env names; it has {known}.")
    return text
