"""Traces by OpenTelemetry, if `OTEL_*` variables ask for them: a span for each request and each pass of a sweep.

A task or ticket that waits is stored with the trace of its caller, so that later work on it links to that trace: see
`hub.api.handling.traces`. Without those variables OpenTelemetry is not imported. The extra `[otel]` installs it.
"""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from hub.errors import StartRefused

CLOSE_S = 3.0  # longest wait for the last spans to be sent when the hub stops
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_PROTOCOL = "http/protobuf"


def wanted(variables: Mapping[str, str]) -> bool:
    """Return whether the variables ask for traces; raises `StartRefused` if the hub cannot send them in that way."""
    options = {name: text.strip() for name, text in variables.items() if name.startswith("OTEL_") and text.strip()}
    exporter = options.get("OTEL_TRACES_EXPORTER", "otlp" if any(name in options for name in _ENDPOINTS) else "none")
    if exporter == "none" or options.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    if exporter != "otlp":
        raise StartRefused(f"OTEL_TRACES_EXPORTER is {exporter!r:.40}; it must be otlp or none.")
    protocol = next((options[name] for name in _PROTOCOLS if name in options), _PROTOCOL)
    if protocol != _PROTOCOL:
        raise StartRefused(f"OTEL_EXPORTER_OTLP_PROTOCOL is {protocol!r:.40}; the hub sends {_PROTOCOL}.")
    try:
        import opentelemetry.exporter.otlp.proto.http.trace_exporter
        import opentelemetry.sdk.trace.export  # noqa: F401
    except ImportError:
        raise StartRefused(
            "OTEL_* asks for traces, and OpenTelemetry is not installed; run: pip install 'capacity-hub[otel]'."
        ) from None
    return True


def _session() -> Any:
    """Return the HTTP session of the exporter. It reads only the head of an answer, because a body may have no end."""
    import requests

    def head_only(answer: Any, **_: Any) -> Any:
        head = requests.Response()
        head.status_code, head.reason, head.headers = answer.status_code, answer.reason, answer.headers
        head.raw = io.BytesIO()
        answer.close()
        return head

    session = requests.Session()
    session.hooks["response"].append(head_only)
    return session


class Tracing:
    """The tracer of this process. While traces are off, `on` is False and callers do nothing more."""

    def __init__(self) -> None:
        self.on = False
        self._provider: Any = None
        self._tracer: Any = None
        self._api: Any = None  # the module `opentelemetry.trace`, imported only where traces are on

    def begin(self) -> None:
        """Make and send spans from now on, if the environment asks for traces."""
        if self.on or not wanted(os.environ):
            return
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        named = "OTEL_SERVICE_NAME" in os.environ or "service.name=" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
        resource = Resource.create({} if named else {"service.name": "capacity-hub"})
        self.use(TracerProvider(resource=resource, shutdown_on_exit=False))
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(session=_session())))

    def use(self, provider: Any) -> None:
        """Make spans with this provider. It is not set as the global provider, so that libraries add no spans."""
        from opentelemetry import trace

        self._api, self._provider, self._tracer = trace, provider, provider.get_tracer("capacity-hub")
        self.on = True

    def end(self) -> None:
        """Send the remaining spans, for `CLOSE_S` at most, and make no more."""
        if not self.on:
            return
        self.on = False
        closing = threading.Thread(target=self._provider.shutdown, name="traces-close", daemon=True)
        closing.start()
        closing.join(CLOSE_S)

    @contextmanager
    def request(self, method: str, headers: Sequence[tuple[bytes, bytes]]) -> Iterator[None]:
        """Open a span while the block handles a request, as a child of the caller's. Call `answered` before its end."""
        with self._tracer.start_as_current_span(
            method, context=_parent(headers), kind=self._api.SpanKind.SERVER, record_exception=False,
            attributes={"http.request.method": method},
        ):  # fmt: skip
            yield

    @contextmanager
    def event(self, name: str, headers: Sequence[tuple[bytes, bytes]]) -> Iterator[None]:
        """Open a span while the block handles a client's event on a socket, as a child of the span in its headers."""
        if not self.on:
            yield
            return
        with self._tracer.start_as_current_span(
            f"socket {name}", context=_parent(headers), kind=self._api.SpanKind.SERVER, record_exception=False,
            set_status_on_exception=False, attributes={"hub.socket.event": name},
        ):  # fmt: skip
            yield

    def refused(self, code: str, *, failed: bool = False) -> None:
        """Note in the current span the code of a refusal; with `failed` mark it as a fault of the hub."""
        if self.on:
            span = self._api.get_current_span()
            span.set_attribute("hub.refused", code)
            if failed:
                span.set_status(self._api.Status(self._api.StatusCode.ERROR))

    def answered(self, method: str, route: str, code: int) -> None:
        """Note route and status code of the answer in the span of the current request."""
        span = self._api.get_current_span()
        span.update_name(f"{method} {route}")
        span.set_attributes({"http.route": route, "http.response.status_code": code})
        if code >= 500:
            span.set_status(self._api.Status(self._api.StatusCode.ERROR))

    def past(self, method: str, route: str, code: int, headers: Sequence[tuple[bytes, bytes]], since_ns: int) -> None:
        """Add the span of an answered request, for requests that are handled without an asyncio task of their own."""
        facts = {"http.request.method": method, "http.route": route, "http.response.status_code": code}
        self._tracer.start_span(
            f"{method} {route}", _parent(headers), self._api.SpanKind.SERVER, attributes=facts, start_time=since_ns
        ).end()

    @contextmanager
    def sweep(self, service: str) -> Iterator[None]:
        """Open a span while the block makes a pass of a sweep; call `facts` with the result before its end."""
        if not self.on:
            yield
            return
        with self._tracer.start_as_current_span(f"sweep {service}", attributes={"hub.sweep.service": service}):
            yield

    def facts(self, facts: Mapping[str, Any]) -> None:
        """Note the numbers of a pass in the current span."""
        if self.on:
            plain = {f"hub.sweep.{name}": fact for name, fact in facts.items() if isinstance(fact, str | int | float)}
            self._api.get_current_span().set_attributes(plain)

    def parent_text(self) -> str:
        """Return the current span as the text of a `traceparent` header, "" without a span."""
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        carrier: dict[str, str] = {}
        TraceContextTextMapPropagator().inject(carrier)
        return carrier.get("traceparent", "")

    def link(self, texts: Mapping[str, str]) -> None:
        """Link the current span to the spans in `texts`: subject -> `traceparent`. Each link names its subject."""
        span = self._api.get_current_span()
        for of, text in texts.items():
            context = self._api.get_current_span(_parent([(b"traceparent", text.encode())])).get_span_context()
            if context.is_valid:
                span.add_link(context, {"hub.of": of})


def _parent(headers: Sequence[tuple[bytes, bytes]]) -> Any:
    """Return the trace context in the headers of a caller, an empty context if there is none."""
    from opentelemetry.context import Context
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    names = (b"traceparent", b"tracestate")
    carrier = {name.decode(): value.decode("latin-1") for name, value in headers if name in names}
    return TraceContextTextMapPropagator().extract(carrier, Context())


tracing = Tracing()
