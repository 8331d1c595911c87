"""Handlers of tasks with slots at the top of a module, so that processes can import them."""

from __future__ import annotations

import os
from typing import Any

from hub.client.jobs import Task


def told(payload: dict[str, Any], task: Task) -> dict[str, Any]:
    """Returns what the environment and the task say of its slots."""
    names = ("HUB_SLOT_IDS", "HUB_SLOT_ID", "HUB_BUNDLE", "CUDA_VISIBLE_DEVICES", "HUB_LEASE_TOKEN")
    return {
        "environment": {name: os.environ[name] for name in names if name in os.environ},
        "slots": [[slot.id, slot.token, slot.label, slot.address, slot.attributes] for slot in task.slots],
    }
