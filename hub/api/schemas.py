"""What the OpenAPI document says of endpoints beside what their models say."""

from __future__ import annotations

from typing import Any

from hub.api.requests import Body

_TEXT = {"type": "string"}
PROBLEM = {
    "type": "object",
    "required": ["type", "title", "status", "code", "instance"],
    "properties": {
        "type": _TEXT,
        "title": _TEXT,
        "status": {"type": "integer"},
        "code": _TEXT,
        "detail": _TEXT,
        "instance": _TEXT,
        "traceId": _TEXT,
    },
}
_WORDS = {
    400: "What was sent cannot be used; `detail` says what would be right.",
    401: "The secret is missing or wrong.",
    404: "No such thing.",
    405: "The path does not take this method.",
    408: "The request took too long to arrive.",
    409: "The grant, or whatever else this is about, is over.",
    413: "The body is too large.",
    422: "The Idempotency-Key was used with another request.",
    503: "Not now; `Retry-After` says when to try again.",
}
REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"description": words, "content": {"application/problem+json": {"schema": PROBLEM}}}
    for status, words in _WORDS.items()
}


def refused(status: int, words: str) -> dict[int | str, dict[str, Any]]:
    """The OpenAPI description of a refusal that few endpoints have."""
    return {status: {"description": words, "content": {"application/problem+json": {"schema": PROBLEM}}}}


def body(shape: type[Body] | dict[str, Any], *, required: bool = True) -> dict[str, Any]:
    """The OpenAPI addition for a JSON body."""
    schema = shape if isinstance(shape, dict) else shape.shown()
    return {"requestBody": {"required": required, "content": {"application/json": {"schema": schema}}}}


def query(**parameters: str) -> dict[str, Any]:
    """The OpenAPI addition for optional query parameters: name=type."""
    listed = [{"name": name, "in": "query", "schema": {"type": kind}} for name, kind in parameters.items()]
    return {"parameters": listed}


def preference() -> dict[str, Any]:
    """The OpenAPI addition for `Prefer: wait=N`."""
    schema = {"type": "string", "examples": ["wait=20"]}
    return {"parameters": [{"name": "Prefer", "in": "header", "schema": schema}]}
