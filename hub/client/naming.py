"""The name by which a program calls itself when it borrows, unless it is given one."""

from __future__ import annotations

import getpass
import os
import socket
import sys
from pathlib import Path

NAME_MAX = 200  # characters, as the hub takes them


def own_name(program: str = "") -> str:
    """Return `user@host:program` of this process; `program` stands for the one that it runs."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a user id without a name
        user = str(os.getuid())
    name = f"{user}@{socket.gethostname()}:{program or _program()}"
    return "".join(each for each in name if each.isprintable())[:NAME_MAX]


def _program() -> str:
    path = Path(sys.argv[0] if sys.argv else "")
    return (path.parent.name if path.stem == "__main__" else path.name) or "python"
