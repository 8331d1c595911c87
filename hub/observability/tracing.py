"""Traces, where `OTEL_*` asks for them: a span per request and per pass of a sweeper, none for a command of Redis.

What waits is kept with the trace it came from, so that its worker is linked to it: see `hub.api.handling.traces`.
Without those variables nothing here is imported or done; the exporter is that of the extra `[otel]`, over HTTP.
"""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from hub.errors import StartRefused

CLOSE_S = 3.0  # for the last spans to be sent when the hub stops
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_PROTOCOL = "http/protobuf"


def wanted(variables: Mapping[str, str]) -> bool:
    """Return whether the environment asks for traces; raises `StartRefused` where they cannot be made as asked."""
    said = {name: text.strip() for name, text in variables.items() if name.startswith("OTEL_") and text.strip()}
    exporter = said.get("OTEL_TRACES_EXPORTER", "otlp" if any(name in said for name in _ENDPOINTS) else "none")
    if exporter == "none" or said.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    if exporter != "otlp":
        raise StartRefused(f"OTEL_TRACES_EXPORTER is {exporter!r:.40}; it must be otlp or none.")
    protocol = next((said[name] for name in _PROTOCOLS if name in said), _PROTOCOL)
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
    """Return what the exporter sends with: nothing is read of an answer but its head, however long it may be."""
    import requests

    def heard(answer: Any, **_: Any) -> Any:
        head = requests.Response()
        head.status_code, head.reason, head.headers = answer.status_code, answer.reason, answer.headers
        head.raw = io.BytesIO()
        answer.close()
        return head

    session = requests.Session()
    session.hooks["response"].append(heard)
    return session


class Tracing:
    """The tracer of this process; `on` is the only thing that is read where traces are off."""

    def __init__(self) -> None:
        self.on = False
        self._provider: Any = None
        self._tracer: Any = None

    def begin(self) -> None:
        """Send spans from now on, where the environment asks for them."""
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
        """Make spans with this provider. It is not the global one: spans of other libraries are not wanted."""
        self._provider, self._tracer = provider, provider.get_tracer("capacity-hub")
        self.on = True

    def end(self) -> None:
        """Send the spans that are left; a collector that is away delays this only briefly."""
        if not self.on:
            return
        self.on = False
        closing = threading.Thread(target=self._provider.shutdown, name="traces-close", daemon=True)
        closing.start()
        closing.join(CLOSE_S)

    @contextmanager
    def request(self, method: str, headers: Sequence[tuple[bytes, bytes]]) -> Iterator[None]:
        """Open a span around the handling of a request, below that of its caller. `answered` says how it ended."""
        from opentelemetry.trace import SpanKind

        with self._tracer.start_as_current_span(
            method, context=_parent(headers), kind=SpanKind.SERVER, record_exception=False,
            attributes={"http.request.method": method},
        ):  # fmt: skip
            yield

    @contextmanager
    def event(self, name: str, headers: Sequence[tuple[bytes, bytes]]) -> Iterator[None]:
        """Open a span around an event of a client on a socket with these headers, below the trace that they name."""
        if not self.on:
            yield
            return
        from opentelemetry.trace import SpanKind

        with self._tracer.start_as_current_span(
            f"socket {name}", context=_parent(headers), kind=SpanKind.SERVER, record_exception=False,
            set_status_on_exception=False, attributes={"hub.socket.event": name},
        ):  # fmt: skip
            yield

    def refused(self, code: str, *, failed: bool = False) -> None:
        """Note in the current span that its work was refused, and why; with `failed` by a fault of the hub."""
        if self.on:
            from opentelemetry.trace import Status, StatusCode, get_current_span

            span = get_current_span()
            span.set_attribute("hub.refused", code)
            if failed:
                span.set_status(Status(StatusCode.ERROR))

    def answered(self, method: str, route: str, code: int) -> None:
        """Note the answer of the request in its span."""
        from opentelemetry.trace import Status, StatusCode, get_current_span

        span = get_current_span()
        span.update_name(f"{method} {route}")
        span.set_attributes({"http.route": route, "http.response.status_code": code})
        if code >= 500:
            span.set_status(Status(StatusCode.ERROR))

    def past(self, method: str, route: str, code: int, headers: Sequence[tuple[bytes, bytes]], since_ns: int) -> None:
        """Add a span for a request that is over, for requests that have no task of their own."""
        from opentelemetry.trace import SpanKind

        facts = {"http.request.method": method, "http.route": route, "http.response.status_code": code}
        self._tracer.start_span(
            f"{method} {route}", _parent(headers), SpanKind.SERVER, attributes=facts, start_time=since_ns
        ).end()

    @contextmanager
    def sweep(self, service: str) -> Iterator[None]:
        """Open a span around a pass of a sweeper; `facts` says what it did."""
        if not self.on:
            yield
            return
        with self._tracer.start_as_current_span(f"sweep {service}", attributes={"hub.sweep.service": service}):
            yield

    def facts(self, facts: Mapping[str, Any]) -> None:
        """Note what the current pass did."""
        if self.on:
            from opentelemetry.trace import get_current_span

            plain = {f"hub.sweep.{name}": fact for name, fact in facts.items() if isinstance(fact, str | int | float)}
            get_current_span().set_attributes(plain)

    def parent_text(self) -> str:
        """Return the current span as `traceparent`, '' without one."""
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        carrier: dict[str, str] = {}
        TraceContextTextMapPropagator().inject(carrier)
        return carrier.get("traceparent", "")

    def link(self, texts: Mapping[str, str]) -> None:
        """Link the current span to those of these `traceparent`s, named by their subjects."""
        from opentelemetry.trace import get_current_span

        span = get_current_span()
        for of, text in texts.items():
            context = get_current_span(_parent([(b"traceparent", text.encode())])).get_span_context()
            if context.is_valid:
                span.add_link(context, {"hub.of": of})


def _parent(headers: Sequence[tuple[bytes, bytes]]) -> Any:
    """Return the trace context that a caller sent, an empty one without."""
    from opentelemetry.context import Context
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    names = (b"traceparent", b"tracestate")
    carrier = {name.decode(): value.decode("latin-1") for name, value in headers if name in names}
    return TraceContextTextMapPropagator().extract(carrier, Context())


tracing = Tracing()
