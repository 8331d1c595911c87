"""A hub behind TLS: whom its callers believe, whom it believes, and certificates that are replaced while it serves."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import ssl
import sys
from pathlib import Path

import httpx
import pytest

from hub.client import HubClient, NodeAgent, SyncHubClient
from hub.client.jobs import JobsClient, Worker
from hub.errors import HubError
from tests.certificates import Authority, Pair
from tests.cli.command import Command
from tests.world import PATIENCE_S, HubProcess, eventually, wait_until

PEOPLE = """
[[tokens]]
certificate = "ada"
user = "ada"

[[tokens]]
certificate = "rack-9"
node = "rack-9"

[[tokens]]
token = "bob-1"
user = "bob"
scopes = ["read"]
"""
MINE = "/v1/joblib/rooms/lab/jobs"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def start(start_hub, authority: Authority, tmp_path: Path):
    """Start a hub with a certificate of the authority, which it believes of its callers as well."""

    def begin(**environment: str) -> HubProcess:
        pair = authority.issue("hub")
        people = tmp_path / "tokens.toml"
        people.write_text(PEOPLE)
        return start_hub(
            HUB_TLS_CERT=str(pair.cert), HUB_TLS_KEY=str(pair.key), HUB_TLS_CLIENT_CA=str(authority.file),
            HUB_TOKENS_FILE=str(people), HUB_ANONYMOUS_READS="false", **environment,
        )  # fmt: skip

    return begin


@pytest.fixture
def trusting(authority: Authority, monkeypatch):
    """Set the variables by which clients find and trust the hub; with a name also a certificate for that name."""

    def tell(hub: HubProcess, name: str = "") -> dict[str, str]:
        told = {"HUB_URL": hub.url, "HUB_CA_FILE": str(authority.file)}
        if name:
            pair = authority.issue(name)
            told |= {"HUB_CERT_FILE": str(pair.cert), "HUB_KEY_FILE": str(pair.key)}
        for variable, value in told.items():
            monkeypatch.setenv(variable, value)
        return told

    return tell


def believing(authority: Authority | None, pair: Pair | None = None) -> ssl.SSLContext:
    """Return a context that trusts this authority, and shows this certificate if there is one."""
    context = ssl.create_default_context(cafile=authority.file if authority else None)
    if pair:
        context.load_cert_chain(pair.cert, pair.key)
    return context


def ask(hub: HubProcess, path: str, context: ssl.SSLContext, **headers: str) -> httpx.Response:
    """Send one request on a new connection and return its answer."""
    return httpx.get(hub.url + path, verify=context, headers=headers, timeout=PATIENCE_S)


def serial(hub: HubProcess) -> int:
    """Return the serial number of the certificate that a new connection is shown."""
    shown = ssl.get_server_certificate(("127.0.0.1", hub.port), timeout=PATIENCE_S)
    from cryptography import x509

    return x509.load_pem_x509_certificate(shown.encode()).serial_number


def test_only_clients_that_trust_the_authority_connect_and_plain_text_is_refused(start, authority, tmp_path):
    hub = start()
    assert ask(hub, "/health", believing(authority)).status_code == 200
    for context in (believing(None), believing(Authority(tmp_path, "stranger"))):
        with pytest.raises(httpx.ConnectError, match="certificate verify failed"):
            ask(hub, "/health", context)
    with pytest.raises(httpx.HTTPError):
        httpx.get(hub.url.replace("https", "http") + "/health", timeout=PATIENCE_S)
    old = believing(authority)
    with pytest.deprecated_call():
        old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    with pytest.raises(httpx.ConnectError):
        ask(hub, "/health", old)


def test_a_client_certificate_is_the_token_of_the_user_that_the_file_names(start, authority, tmp_path):
    hub = start()
    ada, eve = authority.issue("ada"), authority.issue("eve")
    assert ask(hub, MINE, believing(authority)).status_code == 401
    assert ask(hub, MINE, believing(authority, ada)).status_code == 200
    assert ask(hub, MINE, believing(authority, eve)).status_code == 401
    # What is shown beside it decides: a wrong token is not made good, and no other one is made more of.
    assert ask(hub, MINE, believing(authority, ada), authorization="Bearer nonsense").status_code == 401
    assert ask(hub, MINE, believing(authority, ada), **{"x-hub-secret": "nonsense"}).status_code == 401
    assert ask(hub, MINE, believing(authority, ada), authorization="Bearer bob-1").status_code == 200
    with httpx.Client(base_url=hub.url, verify=believing(authority, ada), timeout=PATIENCE_S) as client:
        job = {"category": "modifiers", "name": "Mine", "schema": {}}
        assert client.put(MINE, json=job).status_code == 201
        assert client.put(MINE, json=job, headers={"authorization": "Bearer bob-1"}).status_code == 403
        # A user that is taken out of the file is refused from then on, also on an open connection.
        (tmp_path / "tokens.toml").write_text(PEOPLE.replace('certificate = "ada"', 'certificate = "eve"'))
        hub.signal(signal.SIGHUP)
        wait_until(lambda: client.get(MINE).status_code == 401)
    assert ask(hub, MINE, believing(authority, eve)).status_code == 200
    for wrong in (Authority(tmp_path, "stranger").issue("ada", "false"), authority.issue("ada", "old", days=-1)):
        with pytest.raises(httpx.HTTPError):
            ask(hub, MINE, believing(authority, wrong))


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_replaced_certificate_is_served_after_sighup_and_no_connection_is_cut(start, authority, tmp_path, workers):
    hub = start(HUB_WORKERS=workers)
    wait_until(lambda: hub.log().count("Application startup complete") == int(workers))
    first = serial(hub)
    with httpx.Client(base_url=hub.url, verify=believing(authority), timeout=PATIENCE_S) as client:
        assert client.get("/health").status_code == 200
        (tmp_path / "hub.pem").write_text("no certificate\n")
        hub.signal(signal.SIGHUP)
        wait_until(lambda: hub.log().count("certificate rejected") == int(workers))
        assert serial(hub) == first
        authority.issue("hub")
        hub.signal(signal.SIGHUP)
        wait_until(lambda: hub.log().count("certificate loaded") == int(workers))
        assert {serial(hub) for _ in range(8)}.isdisjoint({first})
        assert client.get("/health").status_code == 200
    assert ask(hub, "/health", believing(authority)).status_code == 200
    authority.issue("other")
    shutil.copy(tmp_path / "other.key", tmp_path / "hub.key")
    hub.signal(signal.SIGHUP)
    wait_until(lambda: hub.log().count("certificate rejected") == 2 * int(workers))
    assert ask(hub, "/health", believing(authority)).status_code == 200


async def test_agents_and_borrowers_of_the_sdk_trust_the_authority_they_are_given(start, trusting, monkeypatch):
    hub = start()
    trusting(hub)
    monkeypatch.setenv("HUB_NODE_SECRET", hub.node_secret)
    monkeypatch.setenv("HUB_RUNNER_SECRET", hub.runner_secret)
    async with NodeAgent("rack-7", pools={"gpu:a100": 1}):
        async with HubClient() as client, client.borrow("gpu:a100", wait=PATIENCE_S) as slot:
            assert slot.node_id == "rack-7"

        def borrow() -> str | None:
            with SyncHubClient() as client, client.borrow("gpu:a100", wait=PATIENCE_S) as slot:
                return slot.node_id

        assert await asyncio.to_thread(borrow) == "rack-7"
    monkeypatch.delenv("HUB_CA_FILE")
    async with HubClient() as client:
        with pytest.raises(HubError, match="certificate verify failed"):
            async with client.borrow("gpu:a100"):
                raise AssertionError("never lent")


async def test_a_node_known_by_its_certificate_speaks_only_for_itself(start, trusting, authority, monkeypatch):
    hub = start()
    trusting(hub, "rack-9")
    monkeypatch.setenv("HUB_RUNNER_SECRET", hub.runner_secret)
    async with (
        NodeAgent("rack-9", pools={"gpu:a100": 1}),
        HubClient() as client,
        client.borrow("gpu:a100", wait=PATIENCE_S) as slot,
    ):
        assert slot.node_id == "rack-9"
    async with httpx.AsyncClient(
        base_url=hub.url, verify=believing(authority, authority.issue("rack-9")), timeout=PATIENCE_S
    ) as caller:
        assert (await caller.post("/node/heartbeat", json={"nodeId": "rack-9"})).status_code == 200
        assert (await caller.post("/node/heartbeat", json={"nodeId": "rack-7"})).status_code == 403


async def test_workers_and_submitters_are_known_by_their_certificate_on_sockets_too(start, trusting):
    trusting(start(), "ada")
    worker = Worker(socket=True)

    @worker.job("analysis", "Square", room="lab")
    async def square(payload, task):
        pass

    async with worker, JobsClient() as jobs:
        await eventually(lambda: worker._socket.connected)
        task = await jobs.submit("lab:analysis:Square", {"n": 12}, "lab")
        assert (await jobs.wait_for(task, timeout=PATIENCE_S)).status == "completed"


def test_commands_take_the_authority_from_the_environment_or_the_file(start, trusting, tmp_path):
    hub = start()
    told = trusting(hub)
    command = Command(hub, tmp_path)
    try:
        assert command("nodes", **told).returncode == 0
        unknown = command("nodes")
        assert unknown.returncode == 1
        assert "certificate verify failed" in unknown.stderr
        (tmp_path / ".env").write_text(f"HUB_CA_FILE={told['HUB_CA_FILE']}\n")
        command.environment.pop("DISABLE_DOTENV")
        assert command("nodes", cwd=tmp_path).returncode == 0
        gone = command("nodes", cwd=tmp_path, HUB_CA_FILE="/no/such.pem")
        assert (gone.returncode, gone.stderr) == (
            1,
            "hub: HUB_CA_FILE=/no/such.pem cannot be used: No such file or directory.\n",
        )
        agent = command.start("agent", "--node", "rack-7", "--slots", "gpu:a100=1", **told)
        wait_until(lambda: "rack-7" in command("nodes", **told).stdout)
        lent = command("borrow", "gpu:a100", "--wait", "30", "--", sys.executable, "-c", "print('lent')", **told)
        assert (lent.returncode, lent.stdout) == (0, "lent\n")
        agent.signal(signal.SIGTERM)
        assert agent.end() == 0
    finally:
        command.close()


def test_unusable_tls_files_stop_the_start_with_one_sentence(authority, tmp_path, redis_server):
    pair, other = authority.issue("hub"), authority.issue("other")
    locked = authority.issue("hub", "locked", password="s3cret")
    command = Command(None, tmp_path)
    command.environment |= {"HUB_REDIS_URL": redis_server.url, "HUB_PORT": "0"}
    for words, why in {
        ("--tls-cert", "/no/such.pem"): "HUB_TLS_CERT=/no/such.pem cannot be read: No such file or directory.",
        ("--tls-cert", str(pair.cert)): "cannot be used",
        ("--tls-cert", str(pair.cert), "--tls-key", str(other.key)): "KEY_VALUES_MISMATCH",
        ("--tls-cert", str(locked.cert), "--tls-key", str(locked.key)): "the key is encrypted",
        ("--tls-key", str(pair.key)): "HUB_TLS_KEY is set and HUB_TLS_CERT is not",
        ("--tls-client-ca", str(authority.file)): "HUB_TLS_CLIENT_CA is set and HUB_TLS_CERT is not",
        (
            "--tls-cert",
            str(pair.cert),
            "--tls-key",
            str(pair.key),
            "--tls-client-ca",
            str(pair.key),
        ): "HUB_TLS_CLIENT_CA",
    }.items():
        done = command("serve", *words)
        last = done.stderr.splitlines()[-1]
        assert (done.returncode, last.startswith("hub: "), why in last) == (1, True, True), done.stderr


def test_a_hub_warns_of_secrets_in_plain_text_beyond_this_machine(start_hub, redis_server, tmp_path):
    elsewhere = socket.gethostbyname(socket.gethostname())
    quiet = start_hub()
    assert "no tls" not in quiet.log()
    loud = start_hub(HUB_HOST="0.0.0.0")
    wait_until(lambda: "no tls" in loud.log())
    command = Command(loud, tmp_path)
    assert command("nodes").stderr == ""
    if not elsewhere.startswith("127."):
        done = command("nodes", "--url", f"http://{elsewhere}:{loud.port}")
        assert done.returncode == 0
        assert done.stderr == (
            f"hub: Secrets travel to {elsewhere} in plain text; use an address that begins with https://.\n"
        )
    assert os.environ.get("HUB_CA_FILE") is None
