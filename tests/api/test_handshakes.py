"""TLS handshakes that do not end: they are counted, have a time limit, and shut no other client out."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
from pathlib import Path

import httpx
import pytest

from hub.api.serving.handshakes import HANDSHAKE_S
from tests.api.wires import Wire
from tests.certificates import Authority
from tests.world import PATIENCE_S, HubProcess, wait_until

FEW = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (300, 300))"
STALLED = 320
OWN = 5  # descriptors that a hub may open meanwhile for itself
THREE_BYTES = b"\x16\x03\x01"  # a TLS record begins with them


@pytest.fixture
def trusting(tmp_path: Path) -> ssl.SSLContext:
    """How a client connects that believes the authority of the hub."""
    authority = Authority(tmp_path)
    authority.issue("hub")
    return ssl.create_default_context(cafile=authority.file)


@pytest.fixture
def hub(start_hub, trusting, tmp_path: Path) -> HubProcess:
    return start_hub(before=FEW, HUB_TLS_CERT=str(tmp_path / "hub.pem"), HUB_TLS_KEY=str(tmp_path / "hub.key"))


def open_one(hub: HubProcess, source: str) -> socket.socket:
    return socket.create_connection(("127.0.0.1", hub.port), PATIENCE_S, (source, 0))


def status(hub: HubProcess, trusting: ssl.SSLContext, source: str) -> int:
    """Return the status of an answer on a new connection from this address."""
    with httpx.Client(transport=httpx.HTTPTransport(verify=trusting, local_address=source), timeout=PATIENCE_S) as one:
        return one.get(hub.url + "/health").status_code


def descriptors(hub: HubProcess) -> int:
    return len(os.listdir(f"/proc/{hub.process.pid}/fd"))


def ended(connection: socket.socket) -> bool:
    """Return whether the hub ends it before patience does."""
    with contextlib.suppress(ConnectionError):
        while connection.recv(65_536):
            pass
    return True


@pytest.mark.parametrize("addresses", [1, 4], ids=["of one address", "of four addresses"])
@pytest.mark.parametrize("said", [b"", THREE_BYTES], ids=["that say nothing", "of three bytes"])
def test_stalled_tls_handshakes_free_their_places_and_refuse_no_other_client(hub, trusting, said, addresses):
    before = descriptors(hub)
    with contextlib.ExitStack() as stack:
        for number in range(STALLED):
            held = stack.enter_context(open_one(hub, f"127.0.0.{2 + number % addresses}"))
            with contextlib.suppress(ConnectionError):
                held.sendall(said)
            if number % 40 == 39:
                assert [status(hub, trusting, f"127.0.0.{2 + other}") for other in (0, 7)] == [200, 200]
        assert descriptors(hub) < 300
        wait_until(lambda: descriptors(hub) <= before + OWN)  # while the clients hold on to theirs
    assert ("too many connections from one address" in hub.log()) == (addresses == 1)
    assert "Traceback" not in hub.log()


def test_a_tls_handshake_has_a_time_limit_even_if_it_never_begins(hub, trusting):
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        trusting.wrap_bio(incoming, outgoing, server_hostname="localhost").do_handshake()
    for said in (b"", THREE_BYTES, outgoing.read()):
        with open_one(hub, "127.0.0.1") as connection:
            connection.settimeout(HANDSHAKE_S + PATIENCE_S)
            connection.sendall(said)
            assert ended(connection)


def test_a_broken_or_abandoned_tls_handshake_frees_its_place(hub, trusting):
    before = descriptors(hub)
    for said in (b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x00\x02no", b"\0" * 100_000):
        with open_one(hub, "127.0.0.1") as connection, contextlib.suppress(ConnectionError):
            connection.sendall(said)
            assert ended(connection)
    for said in (b"", THREE_BYTES) * 20:
        with open_one(hub, "127.0.0.1") as connection:
            connection.sendall(said)
    wait_until(lambda: descriptors(hub) <= before + OWN)
    assert status(hub, trusting, "127.0.0.1") == 200
    assert "Traceback" not in hub.log()


def test_data_that_arrives_with_the_end_of_a_tls_handshake_is_read(hub, trusting):
    with Wire(hub.port) as wire:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = trusting.wrap_bio(incoming, outgoing, server_hostname="localhost")
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                for byte in outgoing.read():  # each byte in a piece of its own
                    wire.send(bytes((byte,)))
                incoming.write(wire.socket.recv(65_536))
        tls.write(b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        wire.send(outgoing.read())  # the last of the handshake and a request at once
        said = b""
        while b"\r\n\r\n" not in said:
            try:
                said += tls.read()
            except ssl.SSLWantReadError:
                incoming.write(wire.socket.recv(65_536))
    assert said.startswith(b"HTTP/1.1 200")
