"""A journal of the beginning and end of handlers, in one file for any number of processes."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

from tests.notes import Notes, whole_notes


class Journal:
    """A file of lines, each written at once; `begin` and `end` are a handler's first and last words."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._notes = Notes(path)

    def write(self, word: str, record: object, pid: int | None = None) -> None:
        """Add a line, of this process or of one that cannot do so any more."""
        self._notes.write(word=word, record=str(record), pid=pid or os.getpid())

    def lines(self) -> list[tuple[str, str, int]]:
        """Return every line so far."""
        return [(note["word"], note["record"], note["pid"]) for note in whole_notes(self.path)]

    def begun(self) -> Counter[str]:
        """Return how often a handler has begun, by record."""
        return Counter(record for word, record, _ in self.lines() if word == "begin")

    def overlaps(self) -> list[str]:
        """Return records on which a handler began while another one, not killed by then, was at work."""
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
