"""What handlers write down of their beginning and end, in one file for any number of processes."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path


class Journal:
    """A file of lines, each written at once; `begin` and `end` are a handler's first and last words."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def write(self, word: str, record: object, pid: int | None = None) -> None:
        """Add a line, of this process or of one that cannot do so any more."""
        os.write(self._file, f"{word} {record} {pid or os.getpid()}\n".encode())

    def lines(self) -> list[tuple[str, str, int]]:
        """Every line so far."""
        found = (line.split() for line in self.path.read_text().splitlines())
        return [(word, record, int(pid)) for word, record, pid in found]

    def begun(self) -> Counter[str]:
        """How often a handler has begun, by record."""
        return Counter(record for word, record, _ in self.lines() if word == "begin")

    def overlaps(self) -> list[str]:
        """Records on which somebody began while somebody was at it who had not been killed by then."""
        found, running, dead = [], {}, set()
        for word, record, pid in self.lines():
            if word == "killed":
                dead.add(pid)
            elif word == "begin":
                if record in running and running[record] not in dead:
                    found.append(record)
                running[record] = pid
            elif word == "end":
                running.pop(record, None)
        return found

    def empty(self) -> None:
        """Begin anew."""
        os.truncate(self.path, 0)
