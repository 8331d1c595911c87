"""The folder of the Lua files."""

from pathlib import Path

_INSTALLED, _CHECKOUT = (Path(__file__).resolve().parents[up] / "lua" for up in (2, 3))


def folder() -> Path:
    """Return the folder of the Lua files: in the package when that is installed, at the top of a checkout otherwise."""
    return _INSTALLED if _INSTALLED.is_dir() else _CHECKOUT
