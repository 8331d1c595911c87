"""Notes that many processes write into one file while some of them are killed, one JSON object a line.

The kernel copies a write page by page: a reader may see the first part of the last line, and a writer who is killed in
between leaves such a part for good. Every note therefore begins a line of its own, and a part of one says nothing.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


class Notes:
    """The writing end; cheap, and kept open over a fork."""

    def __init__(self, path: Path | str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def write(self, **facts: Any) -> None:
        """Add one note."""
        os.write(self._file, f"\n{json.dumps(facts)}\n".encode())


def whole_notes(path: Path) -> list[dict[str, Any]]:
    """Return every note so far that was written to its end; none when there is no file yet."""
    found = []
    for line in path.read_bytes().split(b"\n") if path.exists() else ():
        try:
            found.append(json.loads(line))
        except ValueError:  # nothing, or a part
            continue
    return found
