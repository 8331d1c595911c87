"""Every setting of the hub, and the code that reads settings from the environment and `.env`."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hub.settings.knobs import BadSetting, Knob, mask_url
    from hub.settings.model import Settings, load_settings, own_variables
    from hub.settings.sources import read_environment

__all__ = ["BadSetting", "Knob", "Settings", "load_settings", "mask_url", "own_variables", "read_environment"]

_HOMES = {
    "knobs": ("BadSetting", "Knob", "mask_url"),
    "model": ("Settings", "load_settings", "own_variables"),
    "sources": ("read_environment",),
}


def __getattr__(name: str) -> Any:
    """Import the module of a name when it is first used, so that commands without settings save 0.2 s."""
    for module, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
