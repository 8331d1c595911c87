"""The environment variables that tell a command about its slot."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from typer import BadParameter

from hub.cli.answers import plain
from hub.cli.inputs import Pair, shown
from hub.client import Slot
from hub.client.bundle import Held, slots_of
from hub.errors import HubError

PREFIX = "HUB_SLOT_"
BUNDLE = "HUB_BUNDLE"
LONGEST = 4096  # characters of a value; a command with too large an environment cannot be started


def read_variable(text: str) -> Pair:
    """Return the name and the text of `NAME=TEXT`; raises `BadParameter` where NAME is not that of a variable."""
    name, equals, value = text.partition("=")
    if not equals or not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
        raise BadParameter(f"{shown(text)} is not NAME=TEXT, such as CUDA_VISIBLE_DEVICES={{index}}.")
    return Pair(name, value)


def slot_variables(slot: Slot) -> dict[str, str]:
    """Return HUB_SLOT_ID and the like, and HUB_SLOT_VRAM for an attribute `vram`; unsafe characters become `_`.

    A node chooses the names of attributes, so none of them sets a variable without the prefix, or one of every slot.
    """
    found = {"ID": slot.id, "IDS": slot.id, "ENDPOINT": slot.endpoint, "LABEL": slot.label}
    found |= {"POOL": slot.matched_label, "NODE": slot.node_id or ""}
    for name, value in slot.attributes.items():
        if (text := plain(value)).isprintable() and len(text) <= LONGEST:
            found.setdefault(re.sub(r"[^A-Z0-9]", "_", name.upper()), text)
    return {PREFIX + name: text for name, text in found.items()}


def variables_of(held: Held) -> dict[str, str]:
    """Return the variables of a slot; of a bundle those of its first slot, the ids of all, and which GPUs they are.

    CUDA_VISIBLE_DEVICES is set where each slot has an `index`, on one node: on two it would name the wrong ones.
    """
    slots = slots_of(held)
    found = slot_variables(slots[0])
    if isinstance(held, Slot):
        return found
    found |= {PREFIX + "IDS": ",".join(slot.id for slot in slots), BUNDLE: held.id}
    indexes = [slot_variables(slot).get(PREFIX + "INDEX") for slot in slots]
    if None not in indexes and len({slot.node_id for slot in slots}) == 1:
        found["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, indexes))
    return found


def of_no_slot(variable: str) -> bool:
    """Return whether a variable of this process is another one than those of the slots of an outer borrow."""
    return not variable.startswith(PREFIX) and variable != BUNDLE


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
