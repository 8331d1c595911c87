"""Redis answers that it cannot serve: it is away, and the hub looks for the server anew over other connections."""

from __future__ import annotations

import contextlib
import gc
import socket
import threading

import pytest

from hub.core import Hub
from hub.errors import StoreUnavailable
from hub.store.connection import make_client
from hub.store.primary import Primary
from hub.store.store import SETTLE_MS, Store
from tests.replicas import Server
from tests.world import borrow, eventually, free_port, publish, settings_for, wait_until

LABEL = "gpu:a100"
MARK = "{hub}:"  # so that a server in cluster mode has every key in one slot


class Sick:
    """A server that is made to refuse everything with one word, and well again."""

    lines: tuple[str, ...] = ()

    def __init__(self, folder):
        self.server = Server(folder, "save ''", *self.lines)
        self.plain = self.server.client()
        self.url = f"redis://127.0.0.1:{self.server.port}"

    def says(self):
        """Return the first word of its answer to a write."""
        with socket.create_connection(("127.0.0.1", self.server.port)) as connection, connection.makefile("rb") as said:
            connection.sendall(f"SET {MARK}mark 1\r\n".encode())
            return said.readline().split()[0].decode()

    def connections(self):
        """Return the ids of the hub's connections."""
        return {each["id"] for each in self.plain.client_list() if each["name"] == "capacity-hub"}


class Alone(Sick):
    """A server that has no replica, and needs one to be written to."""

    word = "-NOREPLICAS"

    def fall_ill(self):
        self.plain.config_set("min-replicas-to-write", 1)

    def recover(self):
        self.plain.config_set("min-replicas-to-write", 0)


class Demoted(Sick):
    """A server that is a replica now."""

    word = "-READONLY"

    def fall_ill(self):
        self.plain.replicaof("127.0.0.1", free_port())

    def recover(self):
        self.plain.replicaof("NO", "ONE")


class Orphaned(Demoted):
    """A replica that has lost its primary, and serves nothing that may be old."""

    lines = ("replica-serve-stale-data no",)
    word = "-MASTERDOWN"

    def fall_ill(self):
        super().fall_ill()
        self.plain.config_set("replica-read-only", "no")


class Loading(Sick):
    """It reads what it has from its disk."""

    lines = ("enable-debug-command yes", "loading-process-events-interval-bytes 1024")
    word = "-LOADING"

    def fall_ill(self):
        self.plain.execute_command("DEBUG", "POPULATE", 3000, MARK + "many", 100)
        self.plain.config_set("key-load-delay", 20_000)  # microseconds: a minute, unless it is told otherwise
        threading.Thread(target=self._reload, daemon=True).start()
        wait_until(lambda: self.says() == self.word)

    def _reload(self):
        """By a connection that does not say it once more when it takes long: the second time loads over the first."""
        port = self.server.port
        with socket.create_connection(("127.0.0.1", port)) as connection, contextlib.suppress(OSError):
            connection.sendall(b"DEBUG RELOAD\r\n")
            connection.recv(64)

    def recover(self):
        self.plain.config_set("key-load-delay", 0)
        wait_until(lambda: self.says() == "+OK")


class Torn(Sick):
    """A server of a cluster in which no server has the keys of the hub."""

    word = "-CLUSTERDOWN"

    def __init__(self, folder):
        self.lines = (
            "cluster-enabled yes",
            f"cluster-port {free_port()}",
        )  # else 10,000 above its own, which may be taken
        super().__init__(folder)
        self.url = f"redis+cluster://127.0.0.1:{self.server.port}"
        self.plain.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        wait_until(lambda: self.says() == "+OK")
        self._slot = self.plain.execute_command("CLUSTER", "KEYSLOT", MARK)

    def fall_ill(self):
        self.plain.execute_command("CLUSTER", "DELSLOTS", self._slot)

    def recover(self):
        self.plain.execute_command("CLUSTER", "ADDSLOTS", self._slot)
        wait_until(lambda: self.says() == "+OK")


@pytest.fixture(params=[Alone, Demoted, Orphaned, Loading, Torn], ids=lambda kind: kind.word[1:])
def sick(request, tmp_path):
    found = request.param(tmp_path)
    yield found
    found.plain.close()
    found.server.kill()


@pytest.fixture
def _left_open():
    """Collect connections that redis-py leaves to the garbage collector: two tasks that notice the end of the
    notification connection may each make a new one.
    """
    yield
    gc.collect()


@pytest.mark.usefixtures("_left_open")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore:unclosed <StreamWriter:ResourceWarning")
async def test_while_the_server_cannot_serve_the_hub_clock_stands_still(sick, make_api):
    async with make_api(redis_url=sick.url, key_prefix=MARK) as api:
        hub = api._transport.app.app.state.serving.hub
        await publish(api, "n1", **{LABEL: ["s1", "s2"]})
        lease = (await borrow(api, LABEL)).json()
        await hub.clock.tick()
        connections, clock_ms = sick.connections(), hub.store.clock_ms
        assert connections
        sick.fall_ill()
        assert sick.says() == sick.word
        for _ in range(3):
            await hub.clock.tick()
            assert (hub.store.away, hub.store.clock_ms, hub.clock.away_since is None) == (True, clock_ms, False)
        refused = await borrow(api, LABEL)
        assert (refused.status_code, refused.json()["code"]) == (503, "store-unavailable")
        assert refused.headers["content-type"] == "application/problem+json"
        assert int(refused.headers["retry-after"]) >= 1
        sick.recover()

        async def back():
            await hub.clock.tick()
            return hub.clock.away_since is None

        await eventually(back)
        assert sick.connections().isdisjoint(connections)
        sick.plain.hincrby(hub.store.keys.store, "clock_ms", SETTLE_MS)
        await publish(api, "n1", **{LABEL: ["s1", "s2"]})
        assert (await borrow(api, LABEL)).json()["browserId"] == "s2"
        held = await api.get(f"/leases/s1/verify?token={lease['leaseToken']}")
        assert held.json()["valid"] is True


async def test_while_the_server_cannot_serve_no_node_and_no_lease_gets_older(tmp_path, make_api):
    """The time of a silence counts up to a second, and not at all when it was longer than two."""
    sick = Alone(tmp_path)
    try:
        async with make_api(redis_url=sick.url, key_prefix=MARK) as api:
            hub = api._transport.app.app.state.serving.hub
            await hub.clock.tick()
            sick.fall_ill()
            await hub.clock.tick()
            stood_ms = hub.store.clock_ms
            key, an_hour_ms = hub.store.keys.store, 3_600_000
            sick.recover()
            sick.plain.hincrby(key, "tick_ms", -an_hour_ms)  # for so long it could not
            await hub.clock.tick()
            assert hub.clock.away_since is None
            assert hub.store.clock_ms == stood_ms
    finally:
        sick.plain.close()
        sick.server.kill()


class Says:
    """Return what the Sentinels say."""

    in_cluster = False

    def __init__(self, port):
        self.port = port

    async def find(self):
        return "127.0.0.1", self.port

    async def close(self):
        """They have no connections."""


async def test_a_hub_whose_server_becomes_read_only_goes_to_the_new_primary(tmp_path):
    """A primary that needs a replica and has none keeps its connections open, and is asked about nevertheless."""
    sick, well = Alone(tmp_path), Server(tmp_path, "save ''")
    says = Says(sick.server.port)
    settings = settings_for("redis+sentinel://127.0.0.1:1/hub")
    primary = Primary(says)
    store = Store(make_client(settings.redis_url, settings, primary), "", primary)
    try:
        hub = Hub(store, settings)
        await store.open()
        await hub.clock.tick()
        before = store.generation
        sick.fall_ill()
        await hub.clock.tick()
        with pytest.raises(StoreUnavailable):
            await hub.pools.labels(0, 1)
        says.port = well.port

        async def moved():
            await hub.clock.tick()
            return hub.clock.away_since is None

        await eventually(moved)
        assert primary.address == ("127.0.0.1", well.port)
        assert store.generation != before
        with well.client() as plain:
            assert plain.hget("hub:store", "generation") == store.generation
        assert await hub.pools.labels(0, 1) == (0, [])
    finally:
        await store.close()
        sick.plain.close()
        for server in (sick.server, well):
            server.kill()
