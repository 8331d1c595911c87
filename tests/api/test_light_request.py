"""A light request reads what Starlette's own reads."""

from __future__ import annotations

import pytest
from starlette.requests import ClientDisconnect, Request
from starlette.types import Message, Scope

from hub.api import pipeline
from hub.api.handling.browsers import first_of
from hub.api.handling.light_request import LightRequest
from hub.store.callers import until_ms

HEADERS = [
    (b"x-hub-secret", b"first"),
    (b"x-hub-secret", b"second"),
    (b"x-run-id", "ä".encode()),
    (b"accept", b"*/*"),
]


async def nowhere(message: Message) -> None:
    """Nothing is answered here."""


def both(messages: list[Message], query: bytes = b"") -> tuple[LightRequest, Request]:
    """Return the same request as a light one and as one of Starlette."""
    scope: Scope = {"type": "http", "method": "POST", "path": "/", "headers": HEADERS, "query_string": query}

    def receive_of(left: list[Message]):  # type: ignore[no-untyped-def]
        async def receive() -> Message:
            return left.pop(0)

        return receive

    light = LightRequest(scope, receive_of(list(messages)), nowhere, first_of(HEADERS))
    return light, Request(scope, receive_of(list(messages)))


@pytest.mark.parametrize("name", ["x-hub-secret", "x-run-id", "accept", "x-other"])
def test_the_first_of_two_equal_headers_counts(name: str) -> None:
    light, plain = both([])
    assert light.headers.get(name) == plain.headers.get(name)
    assert light.headers.getlist(name) == plain.headers.getlist(name)
    assert (name in light.headers) == (name in plain.headers)


@pytest.mark.parametrize("query", [b"", b"runId=r%201&runId=r2"])
def test_the_light_request_reads_the_query_as_starlette_does(query: bytes) -> None:
    light, plain = both([], query)
    assert light.query_params == plain.query_params
    assert light.query_params.get("runId") == plain.query_params.get("runId")


@pytest.mark.parametrize(
    "messages",
    [
        [{"type": "http.request"}],
        [{"type": "http.request", "body": b"{}"}],
        [{"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.request", "body": b"}"}],
    ],
)
async def test_a_body_is_complete_however_it_is_split(messages: list[Message]) -> None:
    light, plain = both(messages)
    assert await light.body() == await plain.body()
    assert await light.body() == await plain.body()  # asked again, nothing is waited for


async def test_a_caller_who_hangs_up_while_sending_the_body_is_noticed() -> None:
    light, _ = both([{"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.disconnect"}])
    with pytest.raises(ClientDisconnect):
        await light.body()


@pytest.mark.parametrize("headers", [[b"wait=3"], [b"respond-async", b"wait=3"], [b"wait=3", b"respond-async, wait=9"]])
def test_the_wait_is_read_from_any_of_several_prefer_headers(headers):
    scope: Scope = {"type": "http", "headers": [(b"prefer", value) for value in headers]}
    with pipeline._until(scope, 1000):
        assert until_ms() == 4000
