"""A small HTTP server for a slot: GET answers its process id, its slot, and the words that POST has told it."""

from __future__ import annotations

import json
import os
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

WORDS: list[str] = []


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = json.dumps({"pid": os.getpid(), "slot": sys.argv[2], "words": WORDS}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        WORDS.append(self.rfile.read(int(self.headers["content-length"])).decode())
        self.do_GET()

    def log_message(self, format: str, *args: object) -> None:
        pass


if __name__ == "__main__":
    if os.path.exists(os.environ.get("TEST_BROKEN", "")):
        sys.exit("the disk is full")
    HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
