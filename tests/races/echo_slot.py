"""A slot that notes which lease each byte is from: `python echo_slot.py PORT LEDGER`. It may be killed at any time.

In each round it reads from old leases first and takes new connections last. So a byte of a lease that is noted after
the first byte of a later lease arrived after it: no delay of this process makes it look late.
"""

from __future__ import annotations

import contextlib
import json
import select
import socket
import sys


class Connection:
    """One connection, and the token of its lease once its head was read."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock, self.token, self.head = sock, 0, b""

    def read(self) -> bytes | None:
        """Return what has arrived, None when the connection is over."""
        try:
            return self.sock.recv(65_536) or None
        except BlockingIOError:
            return b""
        except OSError:
            return None

    def answer(self, piece: bytes) -> None:
        """Answer a whole head with the start of a WebSocket, and anything else with itself."""
        if not self.token:
            self.head += piece
            if not self.head.endswith(b"\r\n\r\n"):
                return
            self.token = int(self.head.lower().partition(b"x-hub-lease-token: ")[2].partition(b"\r\n")[0])
            piece = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
        with contextlib.suppress(OSError):
            self.sock.send(piece)


def main(port: int, ledger: str) -> None:
    """Serve for ever."""
    server = socket.create_server(("127.0.0.1", port))
    open_now: list[Connection] = []
    newest = 0
    with open(ledger, "a") as notes:
        while True:
            select.select([server, *(each.sock for each in open_now)], [], [])
            for each in sorted(open_now, key=lambda one: one.token or sys.maxsize):
                piece = each.read()
                if piece is None:
                    each.sock.close()
                    open_now.remove(each)
                elif piece:
                    each.answer(piece)
                    if each.token:
                        notes.write(json.dumps({"token": each.token, "bytes": len(piece), "newest": newest}) + "\n")
                        notes.flush()
                        newest = max(newest, each.token)
            if select.select([server], [], [], 0)[0]:
                sock = server.accept()[0]
                sock.setblocking(False)
                open_now.append(Connection(sock))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
