"""HTTP/1.1 on a raw socket: one connection, and the answers that come back on it."""

from __future__ import annotations

import json
import socket
from typing import Any

from tests.world import PATIENCE_S


class Wire:
    """A connection to a hub of this machine."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
        self._left = b""

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def answer(self, *, head_only: bool = False) -> tuple[int, Any] | None:
        """(status, JSON) of the next answer; None when the connection was closed."""
        while b"\r\n\r\n" not in self._left:
            more = self.socket.recv(65536)
            if not more:
                return None
            self._left += more
        head, _, self._left = self._left.partition(b"\r\n\r\n")
        if head_only:
            return int(head.split()[1]), head.lower()
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        while len(self._left) < length:
            self._left += self.socket.recv(65536)
        body, self._left = self._left[:length], self._left[length:]
        return int(head.split()[1]), json.loads(body) if body else None
