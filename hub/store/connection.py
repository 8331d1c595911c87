"""Clients of Redis, and the checks that a server must pass before the hub uses it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialBackoff
from redis.exceptions import AuthenticationError, NoPermissionError, RedisError, ResponseError
from redis.exceptions import ConnectionError as RedisConnectionError

from hub.errors import StartRefused, StoreUnavailable
from hub.observability.logs import get_logger
from hub.settings import Settings, mask_url
from hub.settings.cluster import has_tag, is_cluster, read_cluster_url
from hub.settings.sentinel import is_sentinel, read_sentinel_url
from hub.store.cluster import cluster
from hub.store.embedded import EmbeddedRedis, find_server
from hub.store.faults import StoreMoved, StoreMoves, StoreTooNew, is_away
from hub.store.library import LAST_USED, library
from hub.store.loading import call
from hub.store.packing import packed
from hub.store.primary import Primary, located_client
from hub.store.sentinel import sentinels
from hub.store.store import Store

OLDEST = (7, 0)  # the first version of Redis with SINTERCARD and functions
_log = get_logger("hub.store")


def make_client(url: str, settings: Settings, primary: Primary | None = None) -> Redis:
    """Return a client that connects on first use, and whose texts keep bytes that are not UTF-8.

    With `primary`, each new connection checks that it leads to the server that `primary` knows. Where the URL names
    Sentinels or a cluster, connections go to the address that those give.
    """
    options = _options(settings)
    pooled: dict[str, Any] = {"max_connections": 16, "timeout": settings.redis_timeout_s or None}
    if primary is not None:
        options["redis_connect_func"] = primary.greet
    if is_sentinel(url):
        server = read_sentinel_url(url).server
        return located_client(server, options | pooled, primary or make_primary(url, settings))
    if is_cluster(url):
        server = read_cluster_url(url).server
        return located_client(server, options | pooled, primary or make_primary(url, settings))
    if url.startswith("unix://"):
        options.pop("socket_connect_timeout")
    return Redis.from_pool(packed(BlockingConnectionPool.from_url(url, **pooled, **options)))


def make_primary(url: str, settings: Settings) -> Primary:
    """Return the `Primary` for a URL; where the URL names Sentinels or a cluster, it asks those for the address."""
    if is_sentinel(url):
        return Primary(sentinels(url, _options(settings)))
    return Primary(cluster(url, _options(settings), settings.key_prefix) if is_cluster(url) else None)


def _options(settings: Settings) -> dict[str, Any]:
    return {
        "decode_responses": True,
        "encoding_errors": "surrogateescape",
        "socket_timeout": settings.redis_timeout_s or None,
        "socket_connect_timeout": settings.redis_connect_timeout_s or None,
        "health_check_interval": 0,
        # A command whose connection was cut is sent once more at once; after a timeout it is not sent again.
        "retry": Retry(ExponentialBackoff(cap=0.2, base=0.05), 1, supported_errors=(RedisConnectionError,)),
        "client_name": "capacity-hub",
    }


@asynccontextmanager
async def open_store(settings: Settings, *, opened: bool = True) -> AsyncIterator[Store]:
    """Yield the store that the settings name, and close it on leaving. Raises `StartRefused` in one sentence, and
    `StoreMoved`. With `opened=False` the store need not exist: it is not opened, and takes only plain commands.
    """
    if settings.redis_url:
        async with _connected(settings.redis_url, settings, opened) as store:
            yield store
    elif settings.grant_replicas:
        raise StartRefused(
            "HUB_GRANT_REPLICAS needs a Redis with replicas; name it in HUB_REDIS_URL, or leave it at 0."
        )
    elif find_server():
        embedded = EmbeddedRedis(settings.data_dir)
        url = await embedded.start()
        try:
            async with _connected(url, settings, opened) as store:
                yield store
        finally:
            await embedded.stop()
    else:
        from fakeredis import FakeAsyncRedis  # imported here, because only this fallback needs it

        _log.warning("store in memory", why="no redis-server or valkey-server on the PATH: nothing outlives this hub")
        client = FakeAsyncRedis(decode_responses=True, encoding_errors="surrogateescape")
        store = Store(client, settings.key_prefix)
        await store.open()
        yield store


@asynccontextmanager
async def _connected(url: str, settings: Settings, opened: bool) -> AsyncIterator[Store]:
    primary = make_primary(url, settings)
    client = make_client(url, settings, primary)
    store = Store(client, settings.key_prefix, primary)
    try:
        await _checked(client, store, settings, mask_url(url), opened)
        yield store
    finally:
        await store.close()


async def _checked(client: Redis, store: Store, settings: Settings, shown: str, opened: bool) -> None:
    try:
        await check_server(client, settings, shown)
        if opened:
            await store.open()
    except StoreMoved:
        raise
    except (StoreTooNew, StoreMoves) as error:
        raise StartRefused(f"Redis at {shown}: {error}") from None
    except (StoreUnavailable, RedisError, OSError) as error:  # the connection was lost after the check
        why = str(error.__cause__ or error).rstrip(".") or type(error).__name__
        raise StartRefused(f"Redis at {shown} does not answer: {why}.") from None


async def check_server(client: Redis, settings: Settings, shown: str) -> None:
    """Raise `StartRefused`, in one sentence, for a server on which the hub cannot work; log a warning where a restart
    or a failover would lose leases. `shown` is the URL without its password.
    """
    try:
        info: dict[str, Any] = await client.info()
    except (AuthenticationError, NoPermissionError) as error:
        raise StartRefused(f"Redis at {shown} does not let the hub in: {error}.") from None
    except (RedisError, OSError) as error:
        why = str(error).rstrip(".") or type(error).__name__
        raise StartRefused(f"Redis at {shown} does not answer: {why}.") from None
    except (TypeError, ValueError) as error:  # the URL has an option that redis-py does not take
        raise StartRefused(f"Redis at {shown} cannot be asked, for its URL holds what is not known: {error}.") from None
    version = tuple(int(part) for part in re.findall(r"\d+", str(info.get("redis_version", "0")))[:2])
    if version < OLDEST:
        raise StartRefused(f"Redis at {shown} is version {info.get('redis_version')}; the hub needs 7.0 or later.")
    policy = str(info.get("maxmemory_policy", "noeviction"))
    if policy != "noeviction":
        raise StartRefused(
            f"Redis at {shown} may drop the hub's keys (maxmemory-policy {policy}); set it to noeviction."
        )
    if int(info.get("cluster_enabled", 0)) and not has_tag(settings.key_prefix):
        raise StartRefused(
            f"Redis at {shown} is a cluster; set HUB_KEY_PREFIX to a hash tag such as {{hub}}: to keep keys together."
        )
    if int(info.get("cluster_enabled", 0)) and not is_cluster(settings.redis_url or ""):
        raise StartRefused(
            f"Redis at {shown} is a server of a cluster, and keys move in it; name the cluster: "
            "HUB_REDIS_URL=redis+cluster://host:port,host:port."
        )
    try:
        await client.eval("return 1", 0)
    except (NoPermissionError, ResponseError) as error:
        raise StartRefused(f"Redis at {shown} does not run scripts for the hub: {error}.") from None
    try:
        await call(client, library(), ("FCALL", library().function(LAST_USED), 0))
    except (NoPermissionError, ResponseError) as error:
        if is_away(error) and not isinstance(error, NoPermissionError):
            raise  # the server knows functions, but is out of memory or a replica
        raise StartRefused(
            f"Redis at {shown} does not keep functions for the hub ({error}); allow it the commands FUNCTION and FCALL."
        ) from None
    await _warn(
        client, info, shown, may_move=is_sentinel(settings.redis_url or "") or is_cluster(settings.redis_url or "")
    )


async def _warn(client: Redis, info: dict[str, Any], shown: str, *, may_move: bool) -> None:
    """Log a warning when the server saves nothing to disk, and when a failover may lose leases."""
    if not int(info.get("aof_enabled", 0)) and not await _saves(client):
        _log.warning("store not persisted", redis=shown, why="neither an append-only file nor snapshots are on")
    if may_move and "min_slaves_good_slaves" not in info:  # INFO has it when min-replicas-to-write is set
        why = "min-replicas-to-write is 0: a primary without its replicas goes on taking leases, which a failover loses"
        _log.warning("failover may lose leases", redis=shown, why=why)


async def _saves(client: Redis) -> bool:
    try:
        return bool((await client.config_get("save")).get("save"))
    except (NoPermissionError, ResponseError):
        return True  # a managed server forbids CONFIG: take it that it saves
