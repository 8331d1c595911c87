"""RFC 9457 problem documents: this module alone turns a refusal into an answer."""

from __future__ import annotations

import math
import secrets
from collections.abc import Mapping
from http import HTTPStatus
from typing import cast

import orjson
from fastapi import Request
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from hub.api.paths import PROBLEMS, is_ours, read_id
from hub.api.shapes import neutral
from hub.api.shapes.problems import DetailShape, ProblemShape, ValidationFaultShape
from hub.capacity.nodes.asking import NodeRefused, NodeSilent
from hub.errors import (
    ForeignKey,
    HubError,
    Internal,
    Malformed,
    MethodNotAllowed,
    NotFound,
    StoreFault,
    StoreUnavailable,
    TooLarge,
    Unauthorized,
    UnknownReply,
)
from hub.observability import metrics
from hub.observability.logs import get_logger
from hub.store.faults import is_away

MEDIA_TYPE = "application/problem+json"
_SHOWN = (
    *("reason", "member", "ticket", "position", "estimatedWaitSeconds", "browserId", "hint"),
    *("expected", "host", "heardMs", "silentInMs", "holder", "sinceUtc", "part", "published"),
)
_FAILED = "The hub failed on this request."
_log = get_logger("hub.api")


def problem(error: HubError, path: str) -> ProblemShape:
    """Return the problem document of a refusal. It has no members without a value."""
    document = ProblemShape(
        type=f"https://httpstatuses.com/{error.status}",
        title=_title(error.status),
        status=error.status,
        code=error.code,
    )
    if detail := _detail(error):
        document["detail"] = detail
    document["instance"] = path
    if not isinstance(error, TooLarge):
        document["traceId"] = secrets.token_hex(8)
    document.update(cast(ProblemShape, {name: value for name, value in error.facts.items() if name in _SHOWN}))
    return document


def answer(error: HubError, scope: Scope) -> Response:
    """Return the whole response to a refusal, with `Retry-After` where a later attempt may succeed; in neutral names
    for a call that asks for them."""
    headers = {}
    if error.retry_after_s is not None:
        headers["retry-after"] = str(max(1, math.ceil(error.retry_after_s)))
    path = read_id(scope["path"])
    is_neutral = neutral.NEUTRAL in scope
    if is_ours(path):
        return _answer_of_jobs(error, headers, is_neutral)
    if isinstance(error, Unauthorized):
        headers["www-authenticate"] = "x-hub-secret"
    return _problem_response(problem(error, path), error.status, headers, is_neutral)


async def refuse(refusal: HubError, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a request with a refusal; the request may also be the handshake of a WebSocket."""
    response = answer(refusal, scope)
    if scope["type"] == "http":
        await response(scope, receive, send)
        return
    head = {"type": "websocket.http.response.start", "status": response.status_code, "headers": response.raw_headers}
    await send(head)
    await send({"type": "websocket.http.response.body", "body": response.body})


def _answer_of_jobs(error: HubError, headers: dict[str, str], is_neutral: bool) -> Response:
    """Return the response of the jobs API to a refusal: FastAPI's own bodies for 401 and for a body that does not
    validate, else a problem document of at most four members."""
    if isinstance(error, Unauthorized):
        headers["www-authenticate"] = "Bearer"
        return Response(
            orjson.dumps(DetailShape(detail=error.detail or "Unauthorized")), 401, headers, "application/json"
        )
    if isinstance(error, Malformed):
        return Response(
            orjson.dumps(ValidationFaultShape(detail=error.facts["errors"])), 422, headers, "application/json"
        )
    document = {"type": f"{PROBLEMS}/{error.code}", "title": _title(error.status), "status": error.status}
    if detail := _detail(error):
        document["detail"] = detail
    return _problem_response(document, error.status, headers, is_neutral)


def _problem_response(
    document: Mapping[str, object], status: int, headers: dict[str, str], is_neutral: bool
) -> Response:
    if is_neutral:
        document, headers["vary"] = neutral.problem(document), "Accept"
    return Response(orjson.dumps(document), status, headers, MEDIA_TYPE)


async def on_hub_error(request: Request, error: Exception) -> Response:
    """Return the response to an exception that a route has raised; count and log it when it is a failure of the hub."""
    if isinstance(error, HubError):
        note_failure(error, error, request.scope)
        return answer(error, request.scope)
    return answer(as_hub_error(error), request.scope)


async def on_http_error(request: Request, error: Exception) -> Response:
    """Return the response to a refusal by the router: the path is unknown, or does not take the method."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    path = read_id(request.scope["path"])
    if is_ours(path) and isinstance(error, HTTPException):
        return Response(orjson.dumps({"detail": error.detail}), status, error.headers, "application/json")
    if status == 405:
        refusal = answer(MethodNotAllowed(f"{path} does not take {request.method}"), request.scope)
        refusal.headers.update(getattr(error, "headers", None) or {})
        return refusal
    if status == 404:
        return answer(NotFound(f"There is nothing at {path}; GET /docs shows what there is"), request.scope)
    return answer(Internal(), request.scope)


def as_hub_error(error: Exception) -> HubError:
    """Return the error that the caller is told instead of an unforeseen failure, whose text is kept from the caller."""
    return StoreUnavailable("Redis does not answer.") if is_away(error) else Internal(_FAILED)


def note_failure(refusal: HubError, error: Exception, scope: Scope) -> None:
    """Count and log a failure that is answered with 500. The caller is not told the cause, so the log must have it."""
    if refusal.status == 500 and not isinstance(refusal, NodeSilent | NodeRefused):  # the failure is the node's
        metrics.unhandled.inc()
        trace = None if isinstance(refusal, ForeignKey) else error  # the message says everything
        _log.error(
            "request failed", path=read_id(scope["path"]), method=scope["method"], why=str(error), exc_info=trace
        )


def _detail(error: HubError) -> str | None:
    return _FAILED if isinstance(error, StoreFault | UnknownReply) else error.detail


def _title(status: int) -> str:
    return {413: "Payload Too Large", 422: "Unprocessable Content"}.get(status) or HTTPStatus(status).phrase
