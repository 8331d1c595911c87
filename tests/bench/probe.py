"""The speed of a core: a fixed piece of work, a few times in a hundred of its time, while something else is measured.

`python -m tests.bench.probe FILE` counts the pieces it has done in the first eight bytes of the file.
"""

from __future__ import annotations

import json
import mmap
import struct
import sys
import time

COUNT = struct.Struct("Q")
PAUSE_S = 0.012
_WORDS = {f"word-{number}": number for number in range(300)}


def piece() -> int:
    """Some 0.4 ms of what a Python server does."""
    return sum(sum(json.loads(json.dumps(_WORDS)).values()) for _ in range(8))


def main(path: str) -> None:
    """Wait until it is ended."""
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), COUNT.size) as shared:
        done = 0
        while True:
            piece()
            done += 1
            COUNT.pack_into(shared, 0, done)
            time.sleep(PAUSE_S)


if __name__ == "__main__":
    main(*sys.argv[1:])
