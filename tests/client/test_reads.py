"""Looking at a hub: the paths, queries and addresses that a client asks, for asyncio and for threads."""

from __future__ import annotations

import httpx
import pytest

from hub.client import HubClient
from tests.client.both import Kind
from tests.client.fake_hub import FakeHub, problem


async def test_reads_request_the_paths_and_queries_they_are_given(kind: Kind) -> None:
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.raw_path.decode())
        return problem(404, "not-found") if "gone" in asked[-1] else httpx.Response(200, json={"total": 0})

    async with kind("http://hub", transport=httpx.MockTransport(answer)) as client:
        await client.nodes(state="stale", limit=5)
        await client.node("n/1 ä")
        await client.pools(offset=10)
        await client.pool("gpu:a100")
        await client.sessions(node="n1")
        await client.session("s1")
        await client.verify("s1", "77")
        with pytest.raises(Exception, match="told not-found"):
            await client.session("gone")
    assert asked == [
        "/nodes?detail=1&limit=5&cursor=0&state=stale",
        "/nodes/n%2F1%20%C3%A4",
        "/pools?limit=100&offset=10",
        "/pools/gpu%3Aa100",
        "/sessions?limit=100&offset=0&node=n1",
        "/sessions/s1",
        "/leases/s1/verify?token=77",
        "/sessions/gone",
    ]


async def test_the_client_reads_its_address_and_secret_from_the_environment(
    hub: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HUB_URL", "http://elsewhere:99/api/v1/")
    monkeypatch.setenv("HUB_RUNNER_SECRET", "from-env")
    async with HubClient(transport=hub.transport()) as client:
        await client.pools()
    assert hub.seen[0].path == "/api/v1/pools"
    assert hub.seen[0].headers["host"] == "elsewhere:99"
    assert hub.seen[0].headers["x-hub-secret"] == "from-env"
