"""A receiver of hooks: an HTTP server that notes what it is sent, and answers as a test wants."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self


class Received(NamedTuple):
    """A request that the receiver was sent."""

    headers: dict[str, str]
    body: bytes
    path: str

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def said(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)
        return found


class Receiver:
    """`with Receiver() as there:`. `answer` returns the status for a request, None to hang until the test ends."""

    def __init__(self) -> None:
        self.heard: list[Received] = []
        self.answer: Callable[[Received], int | None] = lambda _: 200
        self.over = threading.Event()
        self._lock = threading.Lock()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                found = Received({name.lower(): value for name, value in self.headers.items()}, body, self.path)
                with receiver._lock:
                    receiver.heard.append(found)
                status = receiver.answer(found)
                if status is None:
                    receiver.over.wait()
                    return
                self.send_response(status)
                if 300 <= status < 400:
                    self.send_header("location", f"http://127.0.0.1:{receiver.port}/inside")
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, *_: Any) -> None:
                """A caller that went away is no error of a test."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self.port = self._server.server_port
        self.url = f"http://127.0.0.1:{self.port}/hook"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self._server.shutdown()
        self._server.server_close()

    def objects(self, member: str = "slotId") -> dict[str, list[str]]:
        """Return object -> types of its messages, in order, repeats of a message left out."""
        seen, found = set(), dict[str, list[str]]()
        for each in list(self.heard):
            if each.id not in seen:
                seen.add(each.id)
                found.setdefault(each.said["data"].get(member, ""), []).append(each.said["type"])
        return found
