"""Drivers by name: those shipped here, and those that installed packages offer."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points

from hub.fleet.driver import Driver
from hub.fleet.tables import PoolTable
from hub.fleet.templates import did_you_mean

GROUP = "capacity_hub.drivers"
SHIPPED = {
    "chromium": "hub.fleet.chromium:ChromiumDriver",
    "command": "hub.fleet.commands:CommandDriver",
    "gpu": "hub.fleet.gpu:GpuDriver",
    "playwright": "hub.fleet.playwright:PlaywrightDriver",
    "process": "hub.fleet.commands:ProcessDriver",
}


def driver_named(name: str) -> type[Driver[PoolTable]]:
    """Return the class of a driver; raises ValueError for a name that none has, or one that cannot be loaded."""
    others = {each.name: each for each in entry_points(group=GROUP)}
    try:
        if name in SHIPPED:
            module, _, attribute = SHIPPED[name].partition(":")
            found = getattr(import_module(module), attribute)
        elif name in others:
            found = others[name].load()
        else:
            raise ValueError(f"there is no driver {name!r}; {did_you_mean(name, sorted({*SHIPPED, *others}))}")
    except (ImportError, AttributeError) as error:
        raise ValueError(f"the driver {name!r} cannot be loaded: {error}") from None
    if not (isinstance(found, type) and issubclass(found, Driver)):
        raise ValueError(f"the driver {name!r} is no subclass of hub.fleet.driver.Driver")
    return found
