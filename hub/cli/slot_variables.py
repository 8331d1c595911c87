"""The environment variables that tell a command about its slot."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from typer import BadParameter

from hub.cli.answers import plain
from hub.cli.inputs import Pair, shown
from hub.client import Slot
from hub.errors import HubError

PREFIX = "HUB_SLOT_"
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
    found = {"ID": slot.id, "ENDPOINT": slot.endpoint, "LABEL": slot.label, "POOL": slot.matched_label}
    found["NODE"] = slot.node_id or ""
    for name, value in slot.attributes.items():
        if (text := plain(value)).isprintable() and len(text) <= LONGEST:
            found.setdefault(re.sub(r"[^A-Z0-9]", "_", name.upper()), text)
    return {PREFIX + name: text for name, text in found.items()}


def filled(wanted: Sequence[Pair], slot: Slot, variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of the user, with `{index}` replaced by HUB_SLOT_INDEX; raises `HubError` without that."""

    def fact(place: re.Match[str]) -> str:
        if (text := variables.get(PREFIX + place[1].upper())) is None:
            known = ", ".join(sorted(name.removeprefix(PREFIX).lower() for name in variables))
            raise HubError(f"The slot {slot.id} has no {place[0]}, which --env names; it has {known}.")
        return text

    return {name: re.sub(r"\{(\w+)\}", fact, text) for name, text in wanted}
