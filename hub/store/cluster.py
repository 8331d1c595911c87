"""A Redis Cluster: finding the server that has the hub's keys.

The hub keeps all keys in one hash slot, and talks to the primary of that hash slot with a plain client. A client that
follows redirections could run a script on a server to which the keys are still moving: the script would find no list
there and begin a second one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from redis.asyncio import Redis
from redis.crc import key_slot
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError

from hub.settings.cluster import read_cluster_url
from hub.store.cancelling import cancel_all
from hub.store.primary import ANSWER_S, ASKED_WITH

Address = tuple[str, int]


@dataclass(frozen=True)
class _View:
    """One server's view of the cluster: who owns the hub's hash slot, since which epoch, and all primaries."""

    by: str  # the id of that server
    epoch: int  # the configuration epoch of the owner: of two views the one with the higher epoch is the later one
    owner: Address | None
    primaries: frozenset[str]  # ids of the primaries that own any hash slot
    servers: frozenset[Address]


class Cluster:
    """The finder of the primary that owns the hub's hash slot.

    A majority of the cluster's primaries must answer. Fewer may not know of a failover that the others agreed on, and
    then hubs could lend from two servers that both believe they own the hash slot.
    """

    in_cluster = True

    def __init__(self, named: tuple[Address, ...], slot: int, connect: Callable[[Address], Redis], tls: bool) -> None:
        self._named = named
        self._slot = slot
        self._connect = connect
        self._tls = tls
        self._clients: dict[Address, Redis] = {}

    async def find(self) -> Address:
        """Ask all known servers; return the address of the primary by the latest view. Raises ConnectionError."""
        views: list[_View] = []
        asked: set[Address] = set()
        asking: set[asyncio.Task[_View | None]] = set()
        try:
            while True:
                new = {*self._named, *self._clients, *(each for view in views for each in view.servers)} - asked
                asking |= {asyncio.create_task(self._ask(address)) for address in new}
                asked |= new
                if not asking:
                    break
                done, asking = await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
                views += [view for each in done if (view := each.result()) is not None]
                if (owner := _agreed(views)) is not None:
                    await self._keep({address for view in views for address in view.servers})
                    return owner
        finally:
            await cancel_all(list(asking))
        raise RedisConnectionError(
            f"{len(views)} of {len(asked)} servers of the cluster answer, and no majority of its primaries says who "
            f"owns slot {self._slot}"
        )

    async def close(self) -> None:
        """Close the connections to all servers."""
        await self._keep(set())

    async def _ask(self, address: Address) -> _View | None:
        client = self._clients.get(address) or self._clients.setdefault(address, self._connect(address))
        try:
            async with asyncio.timeout(ANSWER_S):
                nodes = await client.execute_command("CLUSTER NODES")  # type: ignore[no-untyped-call]
                return self._read(nodes, address)
        except (RedisError, OSError, TimeoutError, ValueError, LookupError):  # the server is gone, or in no cluster
            return None

    def _read(self, nodes: Mapping[str, Any], asked: Address) -> _View:
        by, owner, epoch, primaries, servers = "", None, -1, set(), set()
        for shown, node in nodes.items():
            flags = node["flags"].split(",")
            address = asked if "myself" in flags else self._address(shown, node["hostname"])
            if "myself" in flags:
                by = node["node_id"]
            if not {"noaddr", "handshake", "fail"} & set(flags):
                servers.add(address)
            if "master" in flags and node["slots"]:
                primaries.add(node["node_id"])
                if any(int(first[0]) <= self._slot <= int(first[-1]) for first in node["slots"]):
                    owner, epoch = address, int(node["epoch"])
        return _View(by, epoch, owner, frozenset(primaries), frozenset(servers))

    def _address(self, shown: str, hostname: str) -> Address:
        host, _, port = shown.rpartition(":")
        return (hostname if self._tls and hostname else host, int(port))  # a certificate names a host

    async def _keep(self, servers: set[Address]) -> None:
        """Close the connections to servers that neither `servers` nor the URL names; if `servers` is empty, to all."""
        gone = self._clients.keys() - servers - (set(self._named) if servers else set())
        await asyncio.gather(*(self._clients.pop(address).aclose() for address in gone))


def _agreed(views: list[_View]) -> Address | None:
    """Return the owner of the hash slot by the latest view, None until most of the primaries it names have answered."""
    latest = max(views, key=lambda view: view.epoch, default=None)
    if latest is None or len(latest.primaries & {view.by for view in views}) * 2 <= len(latest.primaries):
        return None
    return latest.owner


def cluster(url: str, options: Mapping[str, Any], prefix: str) -> Cluster:
    """Return the finder for the cluster of a URL and the hash slot of a prefix; raises ValueError for a bad URL."""
    named = read_cluster_url(url)
    asked = {key: options[key] for key in ASKED_WITH} | {"decode_responses": True} | named.server

    def connect(address: Address) -> Redis:
        return Redis(host=address[0], port=address[1], **asked)

    return Cluster(named.hosts, key_slot(prefix.encode()), connect, bool(named.server.get("ssl")))
