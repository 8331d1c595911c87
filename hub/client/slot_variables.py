"""The environment variables that tell a command, or the process of a task, about its slots."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from hub.client.slot import LentSlot

PREFIX = "HUB_SLOT_"
BUNDLE = "HUB_BUNDLE"
LONGEST = 4096  # characters of a value; a command with too large an environment cannot be started


def plain(value: Any) -> str:
    """Return the value of an attribute as text: `80`, `true`, `nvlink,ecc`."""
    if isinstance(value, list):
        return ",".join(map(plain, value))
    return value if isinstance(value, str) else json.dumps(value)


def slot_variables(slot: LentSlot) -> dict[str, str]:
    """Return HUB_SLOT_ID and the like, and HUB_SLOT_VRAM for an attribute `vram`; unsafe characters become `_`.

    A node chooses the names of attributes, so none of them sets a variable without the prefix, or one of every slot.
    """
    found = {"ID": slot.id, "IDS": slot.id, "ENDPOINT": slot.endpoint, "LABEL": slot.label}
    found |= {"POOL": slot.matched_label, "NODE": slot.node_id or ""}
    for name, value in slot.attributes.items():
        if (text := plain(value)).isprintable() and len(text) <= LONGEST:
            found.setdefault(re.sub(r"[^A-Z0-9]", "_", name.upper()), text)
    return {PREFIX + name: text for name, text in found.items()}


def bundle_variables(bundle: str, slots: Sequence[LentSlot]) -> dict[str, str]:
    """Return the variables of the first slot of a bundle, the ids of all, and which GPUs they are.

    CUDA_VISIBLE_DEVICES is set where each slot has an `index`, on one node: on two it would name the wrong ones.
    """
    found = slot_variables(slots[0]) | {PREFIX + "IDS": ",".join(slot.id for slot in slots), BUNDLE: bundle}
    indexes = [slot_variables(slot).get(PREFIX + "INDEX") for slot in slots]
    if None not in indexes and len({slot.node_id for slot in slots}) == 1:
        found["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, indexes))
    return found


def of_no_slot(variable: str) -> bool:
    """Return whether a variable of this process is another one than those of the slots of an outer borrow."""
    return not variable.startswith(PREFIX) and variable != BUNDLE


@contextmanager
def told_of(slots: Sequence[LentSlot]) -> Iterator[None]:
    """Let the environment of this process tell of the slots of a task within the block."""
    if not slots:
        yield
        return
    before = dict(os.environ)
    inherited = {name: text for name, text in before.items() if of_no_slot(name)}  # else of an outer borrow
    own = {**bundle_variables(slots[0].bundle or "", slots), "HUB_LEASE_TOKEN": slots[0].token}
    _become(inherited | own)
    try:
        yield
    finally:
        _become(before)


def _become(wanted: Mapping[str, str]) -> None:
    for name in os.environ.keys() - wanted.keys():
        del os.environ[name]
    os.environ.update(wanted)
