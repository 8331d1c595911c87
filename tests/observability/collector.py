"""A collector of traces on loopback: takes what an exporter posts, and shows the spans."""

from __future__ import annotations

import gzip
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Span(NamedTuple):
    """The parts of a span that tests check."""

    name: str
    kind: int
    trace: str
    id: str
    parent: str
    facts: dict[str, Any]
    links: list[str]
    service: str
    error: bool


class Collector:
    """Listens on a port of its own until it is closed."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        found = self.spans

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                found.extend(_spans(gzip.decompress(body) if self.headers.get("content-encoding") == "gzip" else body))
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def named(self, name: str) -> list[Span]:
        """Return the spans of this name, in the order in which they came."""
        return [span for span in list(self.spans) if span.name == name]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _spans(body: bytes) -> list[Span]:
    found = []
    for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
        service = _facts(resource.resource.attributes).get("service.name", "")
        found += [
            Span(
                span.name, span.kind, span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex(),
                _facts(span.attributes), [link.trace_id.hex() for link in span.links], service, span.status.code == 2,
            )
            for scope in resource.scope_spans for span in scope.spans
        ]  # fmt: skip
    return found


def _facts(attributes: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in attributes}
