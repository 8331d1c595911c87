"""A Redis Cluster: who knows which of its servers the hub's keys are on.

The hub keeps everything in one slot, and speaks to the primary of that slot with a plain client. A client that follows
redirections would carry a script on to a server that is only just getting the keys: it would find no list there and
begin a second one.
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
    """What one server knows of the cluster: who owns the slot, since which epoch, and which primaries own any."""

    by: str  # the id of that server
    epoch: int  # of the owner's claim: the higher one is the later one
    owner: Address | None
    primaries: frozenset[str]  # their ids
    servers: frozenset[Address]


class Cluster:
    """The shard that owns one slot. A majority of the primaries must answer: fewer cannot know of a failover that the
    others agreed on, and two servers that both own the slot would both be lent from.
    """

    in_cluster = True

    def __init__(self, named: tuple[Address, ...], slot: int, connect: Callable[[Address], Redis], tls: bool) -> None:
        self._named = named
        self._slot = slot
        self._connect = connect
        self._tls = tls
        self._clients: dict[Address, Redis] = {}

    async def find(self) -> Address:
        """Return the primary of the slot by the server that knows the latest change."""
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
        """Let go of the connections."""
        await self._keep(set())

    async def _ask(self, address: Address) -> _View | None:
        client = self._clients.get(address) or self._clients.setdefault(address, self._connect(address))
        try:
            async with asyncio.timeout(ANSWER_S):
                nodes = await client.execute_command("CLUSTER NODES")  # type: ignore[no-untyped-call]
                return self._read(nodes, address)
        except (RedisError, OSError, TimeoutError, ValueError, LookupError):  # it is gone, or is of no cluster
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
        return (hostname if self._tls and hostname else host, int(port))  # a certificate is of a name

    async def _keep(self, servers: set[Address]) -> None:
        """Hang up on servers that are not of the cluster any more."""
        gone = self._clients.keys() - servers - (set(self._named) if servers else set())
        await asyncio.gather(*(self._clients.pop(address).aclose() for address in gone))


def _agreed(views: list[_View]) -> Address | None:
    """Return the owner of the slot, once a majority of the primaries that the latest view names has answered."""
    latest = max(views, key=lambda view: view.epoch, default=None)
    if latest is None or len(latest.primaries & {view.by for view in views}) * 2 <= len(latest.primaries):
        return None
    return latest.owner


def cluster(url: str, options: Mapping[str, Any], prefix: str) -> Cluster:
    """Return the cluster that the URL names, and the slot of a prefix in it; raises ValueError where it is none."""
    named = read_cluster_url(url)
    asked = {key: options[key] for key in ASKED_WITH} | {"decode_responses": True} | named.server

    def connect(address: Address) -> Redis:
        return Redis(host=address[0], port=address[1], **asked)

    return Cluster(named.hosts, key_slot(prefix.encode()), connect, bool(named.server.get("ssl")))
