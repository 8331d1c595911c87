"""The URL of a cluster: the servers to ask for the others, and the credentials and options for all of them.

    redis+cluster://user:password@node-1:6379,node-2:6379
    rediss+cluster://...?ssl_ca_certs=/etc/ssl/ca.pem&ssl_certfile=...&ssl_keyfile=...

A hub lives in one slot of a cluster, and so on one shard: its prefix has a hash tag, and all of its keys have that.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from hub.settings.servers import read_credentials, read_hosts, read_options

SCHEMES: Final = ("redis+cluster", "rediss+cluster")
DEFAULT_PORT: Final = 6379
DEFAULT_PREFIX: Final = "{hub}:"

_TAG = re.compile(r"\{[^}]+\}")


@dataclass(frozen=True)
class ClusterUrl:
    """The URL of a cluster in its parts; `server` are options of connections to its servers."""

    hosts: tuple[tuple[str, int], ...]
    server: dict[str, Any]


def is_cluster(url: str) -> bool:
    """Return whether the URL is that of a cluster."""
    return url.partition("://")[0].lower() in SCHEMES


def has_tag(prefix: str) -> bool:
    """Return whether the prefix keeps all keys in one slot of a cluster."""
    return _TAG.search(prefix) is not None


def read_cluster_url(url: str) -> ClusterUrl:
    """Return the parts of the URL; raises ValueError, whose text goes on from the URL's name and holds no secret."""
    parts = urlsplit(url)
    if parts.path.strip("/") not in ("", "0"):
        raise ValueError("names a database, and a cluster has none but 0")
    _, tls = read_options(parts)
    return ClusterUrl(read_hosts(parts, DEFAULT_PORT, "servers"), {**read_credentials(parts), **tls})


def prefix_for(url: str | None, prefix: str) -> str:
    """Return the prefix that is set, or `{hub}:` in a cluster, where one is needed."""
    return DEFAULT_PREFIX if url and not prefix and is_cluster(url) else prefix
