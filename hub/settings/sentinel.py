"""The URL of Redis Sentinels: the Sentinels, the service to ask them for, and credentials for both kinds of server.

    redis+sentinel://user:password@sentinel-1:26379,sentinel-2/service/0?sentinel_username=...&sentinel_password=...
    rediss+sentinel://...?ssl_ca_certs=/etc/ssl/ca.pem&ssl_certfile=...&ssl_keyfile=...

User and password before the @ are for the Redis server; those for Sentinel are options. `rediss` uses TLS for both.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from hub.settings.servers import named, read_credentials, read_hosts, read_options

SCHEMES: Final = ("redis+sentinel", "rediss+sentinel")
DEFAULT_PORT: Final = 26379
DEFAULT_SERVICE: Final = "mymaster"

_OWN: Final = {"sentinel_username": "username", "sentinel_password": "password"}


@dataclass(frozen=True)
class SentinelUrl:
    """The parts of a Sentinel URL; `server` and `sentinel` are the options of connections to each kind of server."""

    hosts: tuple[tuple[str, int], ...]
    service: str
    server: dict[str, Any]
    sentinel: dict[str, Any]


def is_sentinel(url: str) -> bool:
    """Return whether the URL is that of Sentinels."""
    return url.partition("://")[0].lower() in SCHEMES


def read_sentinel_url(url: str) -> SentinelUrl:
    """Return the parts of a URL. Raises ValueError with the end of a sentence on the URL, without secrets."""
    parts = urlsplit(url)
    service, _, database = parts.path.strip("/").partition("/")
    if database and not re.fullmatch(r"[0-9]{1,9}", database):
        raise ValueError("names a database that is no number")
    own, tls = read_options(parts, _OWN)
    server = {"db": int(database or 0), **read_credentials(parts), **tls}
    sentinel = {**named(**{_OWN[name]: value for name, value in own.items()}), **tls}
    return SentinelUrl(
        read_hosts(parts, DEFAULT_PORT, "Sentinels"), unquote(service) or DEFAULT_SERVICE, server, sentinel
    )
