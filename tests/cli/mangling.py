"""A hub whose every word is hostile: a proxy in front of one that adds to each text what a terminal would obey."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx

# Obeyed by some terminal, or shown otherwise than it is: C0, DEL, C1, marks of direction, ends of lines, tags.
EVIL = "\x1b]0;own\x07\r\x7f\x9b31m\u202egnp\u2066\u2028\u200b\U000e0041"
_PASSED_ON = ("content-type", "retry-after")


def mangled(value: Any) -> Any:
    """Return a document with more behind each text and each name that users choose."""
    match value:
        case str():
            return f"{value}{EVIL}"
        case list():
            return [mangled(each) for each in value]
        case dict():
            return {name: mangled(each) for name, each in value.items()}
    return value


class Mangling:
    """Listens at `url` until it is closed."""

    def __init__(self, hub: str) -> None:
        self._client = client = httpx.Client(base_url=hub, timeout=60)

        class Handler(BaseHTTPRequestHandler):
            def _pass_on(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                headers = {
                    name: text for name, text in self.headers.items() if name.lower() not in ("host", "connection")
                }
                with client.stream(self.command, self.path, content=body, headers=headers) as answer:
                    self.send_response(answer.status_code)
                    for name in _PASSED_ON:
                        if name in answer.headers:
                            self.send_header(name, answer.headers[name])
                    self.send_header("connection", "close")
                    self.end_headers()
                    if "event-stream" in answer.headers.get("content-type", ""):
                        self._stream(answer)
                    elif "json" in answer.headers.get("content-type", ""):
                        self.wfile.write(json.dumps(mangled(json.loads(answer.read()))).encode())
                    else:
                        self.wfile.write(answer.read())

            def _stream(self, answer: httpx.Response) -> None:
                try:
                    for line in answer.iter_lines():
                        if line.startswith("data:"):
                            line = f"data: {json.dumps(mangled(json.loads(line[5:])))}"
                        self.wfile.write(f"{line}\n".encode())
                except OSError:  # the reader has gone
                    pass

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _pass_on  # noqa: N815 - as the class above has them

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._client.close()
