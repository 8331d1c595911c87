"""Where the Lua files are."""

from pathlib import Path

_INSTALLED = Path(__file__).resolve().parent.parent / "lua"
_CHECKOUT = Path(__file__).resolve().parent.parent.parent / "lua"


def folder() -> Path:
    """Where the Lua files are: inside the package when installed, at the top of a checkout otherwise."""
    return _INSTALLED if _INSTALLED.is_dir() else _CHECKOUT
