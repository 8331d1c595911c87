"""A Redis Cluster of real servers that a test may stop, kill, fail over, and move a slot in."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from pathlib import Path
from typing import Any

from redis.backoff import NoBackoff
from redis.crc import key_slot
from redis.exceptions import RedisError
from redis.retry import Retry

from tests.replicas import Server
from tests.world import free_port, wait_until

SHARDS = 3
TIMEOUT_MS = 1500  # a server that is silent for so long is taken to be down
BATCH = 100  # keys that move in one go
ONCE: dict[str, Any] = {"socket_timeout": 1, "retry": Retry(NoBackoff(), 0)}  # a server that stands still is asked


class RedisCluster:
    """Three primaries, each with a replica."""

    def __init__(self, folder: Path) -> None:
        quick = ("save ''", "repl-diskless-sync yes", "repl-diskless-sync-delay 0", "cluster-enabled yes",
                 "cluster-config-file nodes.conf", f"cluster-node-timeout {TIMEOUT_MS}")  # fmt: skip
        self.servers = [Server(folder, *quick, f"cluster-port {free_port()}") for _ in range(2 * SHARDS)]
        addresses = [f"127.0.0.1:{each.port}" for each in self.servers]
        tool = shutil.which("redis-cli")
        assert tool, "the tests need redis-cli on the PATH"
        command = [tool, "--cluster", "create", *addresses, "--cluster-replicas", "1", "--cluster-yes"]
        subprocess.run(command, check=True, capture_output=True, timeout=60)
        wait_until(self.is_whole, 60)
        self.url = f"redis+cluster://{','.join(addresses)}"

    def is_whole(self) -> bool:
        """Return whether every server knows of every slot and every replica, and every primary has its replica."""
        return all(self._knows_all(each) for each in self.servers)

    def _knows_all(self, server: Server) -> bool:
        with contextlib.suppress(RedisError), server.client(**ONCE) as client:
            state = client.cluster("INFO")
            replication = client.info("replication")
            linked = (
                replication["master_link_status"] == "up" if replication["role"] == "slave"
                else replication["connected_slaves"] >= 1
            )  # fmt: skip
            replicas = [node for node in client.cluster("NODES").values() if node["master_id"] != "-"]
            slots_ok = state["cluster_state"] == "ok" and state["cluster_slots_ok"] == "16384"
            return slots_ok and linked and len(replicas) == SHARDS
        return False

    def nodes(self, by: Server | None = None) -> dict[str, Any]:
        """Return by address what one server, `by` or any that runs, knows of all servers."""
        for server in [by] if by else self.servers:
            with contextlib.suppress(RedisError), server.client(**ONCE) as client:
                found: dict[str, Any] = client.cluster("NODES")
                return found
        raise AssertionError("no server of the cluster answers")

    def owner(self, key: str) -> Server:
        """Return the primary that most of the servers take for the owner of a key."""
        slot = key_slot(key.encode())
        said = []
        for server in self.servers:
            with contextlib.suppress(AssertionError):
                said += [
                    (int(node["epoch"]), int(address.rpartition(":")[2]))
                    for address, node in self.nodes(server).items()
                    if any(int(first[0]) <= slot <= int(first[-1]) for first in node["slots"])
                ]
        port = max(set(said), key=said.count)[1]
        return next(server for server in self.servers if server.port == port)

    def another(self, than: Server) -> Server:
        """Return a primary of another shard."""
        ports = [int(address.rpartition(":")[2]) for address, node in self.nodes().items() if node["slots"]]
        return next(server for server in self.servers if server.port in ports and server is not than)

    def replica_of(self, primary: Server) -> Server:
        """Return its replica."""
        known = self.nodes(primary)
        own = next(node["node_id"] for node in known.values() if "myself" in node["flags"])
        port = next(int(at.rpartition(":")[2]) for at, node in known.items() if node["master_id"] == own)
        return next(server for server in self.servers if server.port == port)

    def fail_over(self, key: str) -> None:
        """A planned failover of the shard that owns a key; returns when its replica owns the slot."""
        before = self.owner(key)
        with self.replica_of(before).client() as client:
            client.cluster("FAILOVER")
        self.wait_for_another(key, before)

    def wait_for_another(self, key: str, before: Server) -> None:
        """Wait until most of the servers say that another one owns a key."""
        wait_until(lambda: self.owner(key) is not before, 60)

    def begin_move(self, key: str) -> Move:
        """Let the slot of a key begin to move to another shard."""
        source = self.owner(key)
        return Move(self, key_slot(key.encode()), source, self.another(source))

    def stop(self) -> None:
        """End them all."""
        for each in self.servers:
            each.kill()


class Move:
    """A slot on its way from one shard to another."""

    def __init__(self, cluster: RedisCluster, slot: int, source: Server, target: Server) -> None:
        self.slot, self.source, self.target = slot, source, target
        self._cluster = cluster
        known = cluster.nodes(source)
        self._ids = {server: known[f"127.0.0.1:{server.port}"]["node_id"] for server in (source, target)}
        with target.client() as client:
            client.cluster("SETSLOT", slot, "IMPORTING", self._ids[source])
        with source.client() as client:
            client.cluster("SETSLOT", slot, "MIGRATING", self._ids[target])

    def carry(self, at_most: int | None = None) -> int:
        """Move keys, all that there are or so many of them; returns how many it were."""
        moved = 0
        with self.source.client() as client:
            while at_most is None or moved < at_most:
                keys = client.cluster(
                    "GETKEYSINSLOT", self.slot, BATCH if at_most is None else min(BATCH, at_most - moved)
                )
                if not keys:
                    break
                client.migrate("127.0.0.1", self.target.port, keys, 0, 5000)
                moved += len(keys)
        return moved

    def carry_key(self, key: str) -> None:
        """Move one key."""
        with self.source.client() as client:
            assert client.migrate("127.0.0.1", self.target.port, [key], 0, 5000) == "OK"

    def end(self) -> None:
        """Give the slot to the target, and tell every server."""
        for server in (self.target, self.source, *self._cluster.servers):
            with contextlib.suppress(RedisError), server.client(socket_timeout=5) as client:
                client.cluster("SETSLOT", self.slot, "NODE", self._ids[self.target])
