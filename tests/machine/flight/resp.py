"""The part of the Redis protocol that is needed to tell one command, or one answer, from the next."""

from __future__ import annotations

_AGGREGATES = {ord("*"): 1, ord("~"): 1, ord(">"): 1, ord("%"): 2, ord("|"): 2}
_BLOBS = (ord("$"), ord("!"), ord("="))


def end_of(data: bytes | bytearray, start: int = 0) -> int:
    """Return where the value that begins at `start` ends, -1 when it is not complete yet."""
    line = data.find(b"\r\n", start)
    if line < 0:
        return -1
    kind, after = data[start], line + 2
    if kind in _BLOBS:
        length = int(data[start + 1 : line])
        end = after if length < 0 else after + length + 2
        return end if end <= len(data) else -1
    if kind in _AGGREGATES:
        for _ in range(max(0, int(data[start + 1 : line])) * _AGGREGATES[kind]):
            after = end_of(data, after)
            if after < 0:
                return -1
    return after


def words(command: bytes) -> list[bytes]:
    """Return the parts of a command, which is an array of blobs."""
    count, found, at = int(command[1 : command.find(b"\r\n")]), [], command.find(b"\r\n") + 2
    for _ in range(count):
        line = command.find(b"\r\n", at)
        length = int(command[at + 1 : line])
        found.append(command[line + 2 : line + 2 + length])
        at = line + 2 + length + 2
    return found
