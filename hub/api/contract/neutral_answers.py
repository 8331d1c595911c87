"""Answers in neutral names (`slotId` for `browserId`): for callers that ask for them, members are renamed while the
answer is sent."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import orjson
from fastapi.routing import APIRoute
from starlette.types import Message, Scope, Send

from hub.api.contract.neutral import Put, Twins
from hub.api.contract.unknown_members import UnknownMember, find
from hub.api.handling.problems import MEDIA_TYPE as PROBLEM
from hub.api.shapes import neutral

ASKED: Final = neutral.MEDIA_TYPE.encode()
_JSON, _PROBLEM = b"application/json", PROBLEM.encode()
_CONTRACT: Final = Path(__file__).with_name("openapi.json")


class NeutralAnswers:
    """The functions that rename the members of answers, by endpoint and status; they are made from the contract at the
    first use."""

    def __init__(self, routes: Callable[[], Iterable[APIRoute]]) -> None:
        self._routes = routes
        self._ways: dict[Any, dict[int, Put | None]] | None = None
        self._problem: Put | None = None
        self._bodies: dict[Any, Any] = {}
        self._schemas: dict[str, Any] = {}

    def unknown(self, endpoint: Any, document: Any) -> UnknownMember | None:
        """Return the first member of a body that its operation does not have; None when there is none, and for a route
        outside the contract."""
        if self._ways is None:
            self._learn()
        schema = self._bodies.get(endpoint)
        return None if schema is None else find(schema, document, self._schemas)

    def put(self, endpoint: Any, status: int, kind: bytes, body: bytes) -> bytes | None:
        """Return the body of an answer in neutral names; None for an answer that is not part of the contract."""
        if self._ways is None:
            self._learn()
        if kind == _PROBLEM:
            return _written(self._put_problem, body)
        ways = (self._ways or {}).get(endpoint)
        return None if ways is None or status not in ways else _written(ways[status], body)

    def _put_problem(self, problem: dict[str, Any]) -> Any:
        return neutral.problem(self._problem(problem) if self._problem is not None else problem)

    def _learn(self) -> None:
        said = orjson.loads(_CONTRACT.read_bytes())
        self._schemas = said["components"]["schemas"]
        twins = Twins(said["components"]["schemas"])
        self._problem = twins.put({"$ref": "#/components/schemas/Problem"})
        self._ways = {
            route.endpoint: {
                int(status): twins.put(each["content"]["application/json"]["schema"])
                for status, each in said["paths"][route.path_format][method.lower()]["responses"].items()
                if status < "300" and "application/json" in each.get("content", {})
            }
            for route in self._routes()
            for method in route.methods or ()
        }
        self._bodies = {
            route.endpoint: body["schema"]
            for route in self._routes()
            for method in route.methods or ()
            if (taken := said["paths"][route.path_format][method.lower()].get("requestBody"))
            if (body := taken["content"].get("application/json"))
        }


def _written(put: Put | None, body: bytes) -> bytes:
    if put is None:
        return body
    return json.dumps(put(json.loads(body)), ensure_ascii=False, separators=(",", ":")).encode()


class NeutralWriter:
    """A `send` for one request that puts its JSON answers into neutral names, and passes on all others."""

    def __init__(self, answers: NeutralAnswers, scope: Scope, send: Send) -> None:
        self._answers, self._scope, self._send = answers, scope, send
        self._start: Message | None = None
        self._kind = b""
        self._body = b""

    async def __call__(self, message: Message) -> None:
        """Keep the messages of a JSON answer until it is complete, and send it then; pass on any other message at
        once."""
        if message["type"] == "http.response.start":
            self._kind = next((value for name, value in message["headers"] if name == b"content-type"), b"")
            if self._kind in (_JSON, _PROBLEM):
                self._start = message
                return
        elif self._start is not None:
            self._body += message.get("body", b"")
            if message.get("more_body", False):
                return
            await self._whole(self._start)
            return
        await self._send(message)

    async def _whole(self, start: Message) -> None:
        self._start, body = None, self._body
        if body:
            put = self._answers.put(self._scope.get("endpoint"), start["status"], self._kind, body)
            if put is not None:
                body, kind = put, ASKED if self._kind == _JSON else self._kind
                kept = [each for each in start["headers"] if each[0] not in (b"content-type", b"content-length")]
                length = str(len(body)).encode()
                headers = [(b"content-type", kind), (b"content-length", length), (b"vary", b"Accept")]
                start = {**start, "headers": [*kept, *headers]}
        await self._send(start)
        await self._send({"type": "http.response.body", "body": body, "more_body": False})
