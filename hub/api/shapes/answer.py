"""The type of answers that endpoints return. Its type parameter is the shape of the document, from which the contract
is made."""

from __future__ import annotations

from typing import Any, Generic, TypeVar, get_args, get_origin, get_type_hints

from starlette.responses import Response

from hub.wire import to_json

T_co = TypeVar("T_co", covariant=True)


class Answer(Response, Generic[T_co]):
    """A response with a JSON document, or without a body for None."""

    def __init__(self, document: T_co, status: int = 200, *, run: str = "") -> None:
        """Encode the document. The run that the call belonged to, if any, is named in the header `Correlation-Id`."""
        super().__init__(b"" if document is None else to_json(document), status)
        if run:
            # Encoded here: a run id may hold text that Starlette's latin-1 headers do not take.
            self.raw_headers.append((b"correlation-id", run.encode("utf-8", "replace")))

    def init_headers(self, headers: Any = None) -> None:
        """Write the two headers of a JSON document; Starlette would compute them anew for each response."""
        if self.body:
            self.raw_headers = [(b"content-length", b"%d" % len(self.body)), (b"content-type", b"application/json")]
        else:
            self.raw_headers = []


def answered(endpoint: Any) -> Any:
    """Return the shape of an endpoint's answer, by the endpoint's signature; None for an answer without a document."""
    found = get_type_hints(endpoint, include_extras=True)["return"]
    shape = get_args(found)[0] if get_origin(found) is Answer else None
    return None if shape is type(None) else shape
