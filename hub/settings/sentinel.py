"""The URL of Sentinels: which Sentinels to ask for which service, and the credentials for them and the server.

    redis+sentinel://user:password@sentinel-1:26379,sentinel-2/service/0?sentinel_username=...&sentinel_password=...
    rediss+sentinel://...?ssl_ca_certs=/etc/ssl/ca.pem&ssl_certfile=...&ssl_keyfile=...

User and password before the @ are for the server; Sentinel has its own. With `rediss`, both are spoken to over TLS.
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
    """A Sentinel URL in its parts; `server` and `sentinel` are options of connections to the one and the other."""

    hosts: tuple[tuple[str, int], ...]
    service: str
    server: dict[str, Any]
    sentinel: dict[str, Any]


def is_sentinel(url: str) -> bool:
    """Return whether Sentinels are to be asked where the server is."""
    return url.partition("://")[0].lower() in SCHEMES


def read_sentinel_url(url: str) -> SentinelUrl:
    """Return the parts of the URL; raises ValueError, whose text goes on from the URL's name and holds no secret."""
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
