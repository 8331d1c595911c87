"""The URL of a Redis Cluster: some of its servers, which name all others, and credentials and options for them all.

    redis+cluster://user:password@node-1:6379,node-2:6379
    rediss+cluster://...?ssl_ca_certs=/etc/ssl/ca.pem&ssl_certfile=...&ssl_keyfile=...

All keys of a hub are in one hash slot, and so on one shard, because its prefix has a hash tag.
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
    """The parts of the URL of a cluster: hosts with ports, and `server`, the options of connections to its servers."""

    hosts: tuple[tuple[str, int], ...]
    server: dict[str, Any]


def is_cluster(url: str) -> bool:
    """Return whether the URL is that of a cluster."""
    return url.partition("://")[0].lower() in SCHEMES


def has_tag(prefix: str) -> bool:
    """Return whether the prefix has a hash tag, which keeps all keys in one hash slot of a cluster."""
    return _TAG.search(prefix) is not None


def read_cluster_url(url: str) -> ClusterUrl:
    """Return the parts of a URL. Raises ValueError with the end of a sentence on the URL, without secrets."""
    parts = urlsplit(url)
    if parts.path.strip("/") not in ("", "0"):
        raise ValueError("names a database, and a cluster has none but 0")
    _, tls = read_options(parts)
    return ClusterUrl(read_hosts(parts, DEFAULT_PORT, "servers"), {**read_credentials(parts), **tls})


def prefix_for(url: str | None, prefix: str) -> str:
    """Return the prefix that is set, or `{hub}:` when none is and the URL is of a cluster, which needs a hash tag."""
    return DEFAULT_PREFIX if url and not prefix and is_cluster(url) else prefix
