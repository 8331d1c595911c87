"""Frames of a WebSocket as its client sends them, masked with zeros."""

from __future__ import annotations

PING = b"\x89\x80" + bytes(4)


def frame(text: str) -> bytes:
    """Return a text message."""
    data = text.encode()
    if len(data) < 126:
        size = bytes([0x80 | len(data)])
    elif len(data) < 65_536:
        size = b"\xfe" + len(data).to_bytes(2, "big")
    else:
        size = b"\xff" + len(data).to_bytes(8, "big")
    return b"\x81" + size + bytes(4) + data
