"""What a setting names in Python, as MODULE:NAME."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

from hub.errors import StartRefused


def import_named(named: str, default: str, where: str) -> Any:
    """The object, called `default` where only the module is named; raises `StartRefused`, which begins with `where`."""
    module, _, name = named.partition(":")
    name = name or default
    # What is started by its script finds only what is installed; people keep the module where they start the hub.
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        found = getattr(importlib.import_module(module), name, None)
    except (Exception, SystemExit) as error:
        said = " ".join(f"{type(error).__name__}: {error}".split()).rstrip(".: ")
        raise StartRefused(f"{where}: {module} cannot be imported: {said}.") from error
    if found is None:
        raise StartRefused(f"{where}: the module {module} has no `{name}`.")
    return found
