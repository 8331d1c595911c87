"""Guessed secrets: addresses are counted and slowed down, but no caller that shows a known secret."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace

import httpx
import pytest

from hub.api.handling import wrong_secrets
from hub.api.handling.wrong_secrets import WrongSecrets
from hub.api.paths import SOCKETS
from hub.observability import metrics
from tests.world import PATIENCE_S, HubProcess, eventually

SECRETS = {"runner_secret": "runner-x", "node_secret": "node-x", "admin_secret": "admin-x"}
ADMIN = {"x-hub-secret": "admin-x"}


@pytest.fixture
def at_once(monkeypatch):
    """The third wrong secret of an address waits for longer than any test lasts."""
    monkeypatch.setattr(wrong_secrets, "FREE", 2)
    monkeypatch.setattr(wrong_secrets, "PER_S", 0.001)
    monkeypatch.setattr(wrong_secrets, "WAIT_MAX_S", 3600.0)


WRONG = [
    ("GET", "/sessions", {"x-hub-secret": "wrong"}),
    ("POST", "/node/heartbeat", {"x-hub-secret": "wrong"}),
    ("POST", "/session/borrow", {"x-hub-secret": "wrong"}),
    ("POST", "/v1/joblib/workers", {"authorization": "Bearer wrong"}),
    ("POST", "/v1/joblib/tasks/claim", {"authorization": "nonsense"}),
    ("POST", "/v1/joblib/workers", {"x-hub-secret": "wrong"}),
    ("POST", "/node/join", {"x-hub-secret": "wrong"}),
    ("GET", "/admin/tokens", {"authorization": "Bearer wrong"}),
]


@pytest.mark.parametrize(("method", "path", "headers"), WRONG, ids=str)
async def test_a_caller_who_guesses_secrets_is_delayed_and_one_who_knows_a_secret_is_not(
    make_api, at_once, method, path, headers
):
    async with make_api(**SECRETS, request_timeout_s=7200) as api:
        token = (await api.post("/admin/tokens", json={"user": "ann"}, headers=ADMIN)).json()["token"]
        for _ in range(2):
            assert (await api.request(method, path, headers=headers, json={})).status_code == 401
        waiting = asyncio.create_task(api.request(method, path, headers=headers, json={}))
        for _ in range(5):
            known = [
                await api.get("/sessions", headers=ADMIN),
                await api.post("/v1/joblib/workers", headers={"authorization": f"Bearer {token}"}),
            ]
            assert [answer.status_code for answer in known] == [200, 201]
            # Neither a known secret without the needed rights nor a call without a secret counts as a guess.
            for shown in ({"x-hub-secret": "runner-x"}, {"x-hub-secret": token}, {}):
                assert (await api.get("/audit", headers=shown)).status_code == 401
        assert not waiting.done()
        waiting.cancel()


async def test_guesses_from_one_address_do_not_delay_other_addresses(make_api, at_once, monkeypatch):
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "*")
    async with make_api(**SECRETS, request_timeout_s=7200) as api:
        for number in range(20):
            wrong = {"x-hub-secret": "wrong", "x-forwarded-for": f"198.51.100.{number}"}
            assert (await api.get("/sessions", headers=wrong)).status_code == 401


@pytest.mark.parametrize("now", [0.5, 1000.0])  # of a machine that was just started, too
def test_an_address_is_slowed_down_after_wrong_secrets_and_forgiven_in_time(now):
    found = WrongSecrets()
    early = [found.early_s("10.0.0.1", now) for _ in range(wrong_secrets.FREE + 2)]
    assert early[: wrong_secrets.FREE] == pytest.approx([0.0] * wrong_secrets.FREE, abs=1e-6)
    assert early[wrong_secrets.FREE :] == pytest.approx([1 / wrong_secrets.PER_S, 2 / wrong_secrets.PER_S])
    assert found.early_s("10.0.0.2", now) == 0.0
    for _ in range(10_000):
        last = found.early_s("10.0.0.1", now)
    assert last == wrong_secrets.WAIT_MAX_S
    assert found.early_s("10.0.0.1", now + 2 * wrong_secrets.WAIT_MAX_S) == 0.0


def test_an_ipv6_network_counts_as_one_address():
    found = WrongSecrets()
    early = [found.early_s(f"2001:db8::{number:x}", 1000.0) for number in range(wrong_secrets.FREE + 1)]
    assert early[-1] > 0
    assert found.early_s("2001:db8:0:1::1", 1000.0) == 0.0


def test_the_number_of_remembered_addresses_is_bounded(monkeypatch):
    monkeypatch.setattr(wrong_secrets, "ADDRESSES_MAX", 3)
    found = WrongSecrets()
    for number in range(9):
        found.early_s(f"10.0.0.{number}", 1000.0)
    assert len(found._due) == 3


def test_wrong_secrets_are_logged_at_most_once_a_minute(monkeypatch):
    said = []
    monkeypatch.setattr(wrong_secrets._log, "warning", lambda event, **facts: said.append((event, facts)))
    found = WrongSecrets()
    for second in range(121):
        found.early_s(f"10.0.0.{second % 2}", 1000.0 + second)
    assert said == [
        ("wrong secrets received", {"count": 1, "addresses": 1, "last": "10.0.0.0"}),
        ("wrong secrets received", {"count": 60, "addresses": 2, "last": "10.0.0.0"}),
        ("wrong secrets received", {"count": 60, "addresses": 2, "last": "10.0.0.0"}),
    ]


async def test_a_hub_under_attack_logs_it_once_and_serves_callers_who_know_a_secret(live_hub: HubProcess):
    async with live_hub.client("admin") as known, httpx.AsyncClient(base_url=live_hub.url, timeout=PATIENCE_S) as other:
        wrong = [
            asyncio.create_task(other.get("/sessions", headers={"x-hub-secret": f"guess-{number}"}))
            for number in range(wrong_secrets.FREE + 20)
        ]
        for _ in range(20):
            assert (await known.get("/sessions")).status_code == 200
        assert {answer.status_code for answer in await asyncio.gather(*wrong)} == {401}
        counted = (await known.get("/metrics")).text
    assert f"hub_wrong_secrets_total {wrong_secrets.FREE + 20}.0" in counted
    assert live_hub.log().count("wrong secrets received") == 1
    assert "guess-" not in live_hub.log()


def test_weak_secrets_are_logged_at_the_start(start_hub):
    long = "0123456789abcdef"
    weak = start_hub(HUB_RUNNER_SECRET=f"{long},short", HUB_NODE_SECRET=long, HUB_ADMIN_SECRET="")
    lines = [line for line in weak.log().splitlines() if " WARNING " in line]
    assert [line for line in lines if "short secret" in line and "HUB_RUNNER_SECRET" in line]
    assert not [line for line in lines if "short secret" in line and "HUB_RUNNER_SECRET" not in line]
    for event in ("no admin secret", "anonymous reads allowed"):
        assert len([line for line in lines if event in line]) == 1, event
    strong = {f"HUB_{role}_SECRET": long * 2 + role for role in ("RUNNER", "NODE", "ADMIN")}
    assert " WARNING " not in start_hub(**strong, HUB_ANONYMOUS_READS="false").log()


SHOWN = [
    *WRONG[:4],
    ("POST", "/console/session", {"x-hub-console": "1"}),
    ("POST", SOCKETS, {}),
]


async def _guess(api: httpx.AsyncClient, method: str, path: str, headers: dict[str, str]) -> None:
    """Show a wrong secret there, and hear that it is wrong."""
    if path == SOCKETS:
        opened = await api.get(path, params={"EIO": "4", "transport": "polling"})
        here = {"EIO": "4", "transport": "polling", "sid": json.loads(opened.text[1:])["sid"]}
        await api.post(path, params=here, content='40{"token":"wrong"}')
        assert (await api.get(path, params=here)).text.startswith("44")
        return
    body = {"secret": "wrong"} if path == "/console/session" else {}
    assert (await api.request(method, path, headers=headers, json=body)).status_code == 401


@pytest.mark.parametrize(("method", "path", "headers"), SHOWN, ids=str)
async def test_an_address_that_hangs_up_during_its_delay_still_owes_the_delay(
    make_api, at_once, monkeypatch, method, path, headers
):
    now, counted = [1_000_000.0], metrics.wrong_secrets._value.get
    monkeypatch.setattr(wrong_secrets, "time", SimpleNamespace(monotonic=lambda: now[0]))
    async with make_api(**SECRETS, request_timeout_s=7200) as api:

        async def hang_up() -> None:
            before = counted()
            waiting = asyncio.create_task(_guess(api, method, path, headers))
            await eventually(lambda: counted() > before)
            for _ in range(5):
                assert (await api.get("/sessions", headers=ADMIN)).status_code == 200
            assert not waiting.done()
            waiting.cancel()

        for _ in range(2):
            await _guess(api, method, path, headers)
        for _ in range(3):
            await hang_up()  # owes a thousand seconds each time
        now[0] += 2900
        await hang_up()  # the last hundred of them are owed still, and a thousand more
        now[0] += 2200
        await _guess(api, method, path, headers)
