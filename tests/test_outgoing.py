"""Proxies: which one leads to an address, and what programs of the hub make of variables that cannot be read."""

from __future__ import annotations

import asyncio
import itertools
import os
import subprocess
import sys

import pytest

from hub.client import HubClient, SyncHubClient
from hub.errors import HubError, HubUnavailable
from hub.outgoing import proxy_of
from hub.recovery.webhook import Webhook
from tests.world import PATIENCE_S, HubProcess, eventually

PROXY = "http://10.0.0.5:3128"
VARIABLES = [
    name
    for pair in (("http_proxy", "HTTP_PROXY"), ("https_proxy", "HTTPS_PROXY"), ("all_proxy", "ALL_PROXY"))
    for name in pair
]
UNREADABLE = [
    "socks://127.0.0.1:1080", "socks4://h:1", "://", "http://", "http://h:port", "http://h:99999", "ftp://h",
    "http://[::1", "h:0",
]  # fmt: skip
ODD_NO_PROXY = [
    "[::1]", "::1", "10.0.0.0/8", "10.0.0.0/99", "[fe80::/10]", "*.example", ".example", ",,", "%%%", "[", "a b",
    "host:port",
]  # fmt: skip
LOOPBACK = ["127.0.0.1", "localhost", "[::1]", "a.localhost", "127.8.9.1"]


@pytest.mark.parametrize(
    ("url", "environ", "proxy"),
    [
        ("http://hub.example", {}, None),
        ("http://hub.example", {"http_proxy": PROXY}, PROXY),
        ("http://hub.example", {"HTTP_PROXY": PROXY}, PROXY),
        ("http://hub.example", {"https_proxy": PROXY}, None),
        ("https://hub.example", {"https_proxy": PROXY}, PROXY),
        ("https://hub.example", {"ALL_PROXY": PROXY}, PROXY),
        ("http://hub.example", {"http_proxy": "", "ALL_PROXY": PROXY}, None),
        ("http://hub.example", {"http_proxy": "10.0.0.5:3128"}, PROXY),
        ("http://hub.example", {"HTTP_PROXY": PROXY, "REQUEST_METHOD": "GET"}, None),
        *[(f"http://{host}:8080", {"all_proxy": PROXY}, None) for host in LOOPBACK],
        *[
            ("http://10.1.2.3:8080", {"all_proxy": PROXY, "no_proxy": entry}, expected)
            for entry, expected in [
                ("10.1.2.3", None), ("10.0.0.0/8", None), ("[10.0.0.0/8]", None), ("11.0.0.0/8", PROXY), ("*", None),
                ("10.1.2.3:8080", None), ("10.1.2.3:80", PROXY), ("10.0.0.0/99", PROXY), ("", PROXY),
                ("x, 10.1.2.3 ", None),
            ]
        ],
        *[
            ("https://hub.eu.example", {"ALL_PROXY": PROXY, "NO_PROXY": entry}, expected)
            for entry, expected in [
                ("hub.eu.example", None), ("example", None), (".example", None), ("*.eu.example", None),
                ("EU.Example", None), ("b.eu.example", PROXY), ("ample", PROXY), ("hub.eu.example:443", None),
                ("hub.eu.example:80", PROXY),
            ]
        ],
        ("http://[fd00::7]:8080", {"all_proxy": PROXY, "no_proxy": "fd00::/8"}, None),
        ("http://[fd00::7]:8080", {"all_proxy": PROXY, "no_proxy": "[fd00::7]"}, None),
    ],
)  # fmt: skip
def test_the_environment_decides_which_proxy_leads_to_an_address(url, environ, proxy):
    assert proxy_of(url, environ) == proxy


@pytest.mark.parametrize(("name", "value"), [*itertools.product(VARIABLES, UNREADABLE)])
def test_an_unreadable_proxy_is_refused_with_the_name_of_its_variable(name, value):
    scheme = "https" if "https" in name.lower() else "http"
    with pytest.raises(HubError) as refused:
        proxy_of(f"{scheme}://hub.example", {name: value})
    said = str(refused.value)
    assert said.startswith(f"{name} cannot be used: ")
    assert said.count("\n") == 0
    assert said.endswith(".")
    assert proxy_of(f"{scheme}://127.0.0.1:8080", {name: value}) is None


@pytest.mark.parametrize("entry", ODD_NO_PROXY)
def test_unreadable_entries_of_no_proxy_are_ignored(entry):
    assert proxy_of("http://hub.test", {"all_proxy": PROXY, "no_proxy": entry}) == PROXY


def test_the_refusal_of_a_proxy_shows_no_password():
    with pytest.raises(HubError) as refused:
        proxy_of("http://hub.example", {"http_proxy": "socks://me:hunter2@h:1"})
    assert "hunter2" not in str(refused.value)


@pytest.fixture(params=["unreadable", "odd"])
def spoiled(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """An environment whose proxies cannot be used, or whose exceptions cannot be read."""
    chosen = dict.fromkeys(VARIABLES, UNREADABLE[0] if request.param == "unreadable" else "http://127.0.0.1:9")
    chosen["NO_PROXY"] = "[::1],10.0.0.0/8,[fe80::/10],%%%"
    for name, value in chosen.items():
        monkeypatch.setenv(name, value)
    return chosen


@pytest.fixture
def hub(start_hub) -> HubProcess:
    return start_hub()


def run(hub: HubProcess, spoiled: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **spoiled, "HUB_URL": hub.url, "HUB_RUNNER_SECRET": hub.runner_secret}
    environment |= {"HUB_NODE_SECRET": hub.node_secret, "HUB_ADMIN_SECRET": hub.admin_secret, "DISABLE_DOTENV": "1"}
    return subprocess.run(
        [sys.executable, *words], env=environment, capture_output=True, text=True, timeout=2 * PATIENCE_S, check=False
    )


async def test_clients_of_a_hub_on_this_machine_use_no_proxy(hub, spoiled):
    with SyncHubClient(hub.url, hub.runner_secret) as client:
        assert await asyncio.to_thread(client.pools)
    async with HubClient(hub.url, hub.runner_secret) as client:
        assert await client.pools()
    for words in (["-m", "hub.cli", "status"], ["-m", "hub.cli", "nodes"], ["-m", "hub.cli", "events"]):
        done = await asyncio.to_thread(run, hub, spoiled, *words)
        assert "Traceback" not in done.stderr
        assert done.returncode in (0, 1), done.stderr


def test_a_client_of_a_remote_hub_names_the_wrong_proxy_variable(monkeypatch):
    monkeypatch.setenv("http_proxy", "socks://h:1")
    for make in (SyncHubClient, HubClient):
        with pytest.raises(HubError, match=r"^http_proxy cannot be used"):
            make("http://hub.example", "s")
    done = subprocess.run(
        [sys.executable, "-m", "hub.cli", "status", "--url", "http://hub.example"],
        capture_output=True, text=True, timeout=2 * PATIENCE_S, check=False,
        env={**os.environ, "http_proxy": "socks://h:1", "DISABLE_DOTENV": "1"},
    )  # fmt: skip
    assert "Traceback" not in done.stderr
    assert "http_proxy cannot be used" in done.stderr
    assert done.stderr.count("\n") <= 2


async def test_an_alert_that_a_wrong_proxy_keeps_from_being_posted_is_logged(monkeypatch, caplog):
    monkeypatch.setenv("https_proxy", "socks://h:1")
    webhook = Webhook("https://hooks.example/x")
    webhook.post({"source": "orders", "level": "critical"})
    await eventually(lambda: any("https_proxy cannot be used" in str(record.msg) for record in caplog.records))
    await webhook.close()


def test_a_proxy_that_cannot_be_reached_counts_as_a_hub_that_is_away(monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with SyncHubClient("http://hub.example", "s", timeout=0.1) as client, pytest.raises(HubUnavailable):
        client.pools()
