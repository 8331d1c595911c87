"""The type of answers that endpoints return. Its type parameter is the shape of the document, from which the contract
is made."""

from __future__ import annotations

from typing import Any, Generic, TypeVar, get_args, get_origin, get_type_hints

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from hub.api.shapes.neutral import BEFORE, CONTENT_TYPE, NEUTRAL
from hub.wire import to_json

T_co = TypeVar("T_co", covariant=True)
_JSON = b"application/json"


class Answer(Response, Generic[T_co]):
    """A response with a JSON document, or without a body for None. The document is written when the answer is sent:
    then the names that the caller asks for are known."""

    def __init__(self, document: T_co, status: int = 200, *, run: str = "") -> None:
        """Make an answer. The run that the call belonged to, if any, is named in the header `Correlation-Id`."""
        self.document, self.status_code, self.background = document, status, None
        # Encoded here: a run id may hold text that Starlette's latin-1 headers do not take.
        self.raw_headers = [(b"correlation-id", run.encode("utf-8", "replace"))] if run else []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        document: Any = self.document
        headers, body = self.raw_headers, b""
        if document is not None:
            kind = _JSON
            if (neutral := scope.get(NEUTRAL)) is not None and self.status_code in neutral.answers:
                document, kind = neutral.rename(self.status_code, document), CONTENT_TYPE
                before = scope.get(BEFORE, b"")
                headers = [(name, before + text if name == b"location" else text) for name, text in headers]
                headers.append((b"vary", b"Accept"))
            body = to_json(document)
            headers = [(b"content-length", b"%d" % len(body)), (b"content-type", kind), *headers]
        await send({"type": "http.response.start", "status": self.status_code, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def answered(endpoint: Any) -> Any:
    """Return the shape of an endpoint's answer, by the endpoint's signature; None for an answer without a document."""
    found = get_type_hints(endpoint, include_extras=True)["return"]
    shape = get_args(found)[0] if get_origin(found) is Answer else None
    return None if shape is type(None) else shape
