"""Where the Lua files are."""

from pathlib import Path

_INSTALLED, _CHECKOUT = (Path(__file__).resolve().parents[up] / "lua" for up in (2, 3))


def folder() -> Path:
    """Return where the Lua files are: inside the package when installed, at the top of a checkout otherwise."""
    return _INSTALLED if _INSTALLED.is_dir() else _CHECKOUT
