"""What a Sentinel URL says: which Sentinels to ask for which service, and what to show them and the server they name.

    redis+sentinel://user:password@sentinel-1:26379,sentinel-2/service/0?sentinel_username=...&sentinel_password=...
    rediss+sentinel://...?ssl_ca_certs=/etc/ssl/ca.pem&ssl_certfile=...&ssl_keyfile=...

User and password before the @ are for the server; Sentinel has its own. With `rediss`, both are spoken to over TLS.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

SCHEMES: Final = ("redis+sentinel", "rediss+sentinel")
DEFAULT_PORT: Final = 26379
DEFAULT_SERVICE: Final = "mymaster"

_OWN: Final = {"sentinel_username": "username", "sentinel_password": "password"}
_TLS: Final = frozenset(
    {"ssl_ca_certs", "ssl_ca_path", "ssl_certfile", "ssl_keyfile", "ssl_password", "ssl_cert_reqs",
     "ssl_check_hostname"}
)  # fmt: skip
_HOST = re.compile(r"(?P<host>[^\s/@:,\[\]]+|\[[0-9A-Fa-f:.]+\])(?::(?P<port>[0-9]{1,5}))?")
_BOOLEANS: Final = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


@dataclass(frozen=True)
class SentinelUrl:
    """A Sentinel URL in its parts; `server` and `sentinel` are options of connections to the one and the other."""

    hosts: tuple[tuple[str, int], ...]
    service: str
    server: dict[str, Any]
    sentinel: dict[str, Any]


def is_sentinel(url: str) -> bool:
    """Whether Sentinels are to be asked where the server is."""
    return url.partition("://")[0].lower() in SCHEMES


def read_sentinel_url(url: str) -> SentinelUrl:
    """The parts of the URL; raises ValueError, which goes on from the URL's name and shows nothing secret."""
    parts = urlsplit(url)
    credentials, _, netloc = parts.netloc.rpartition("@")
    user, _, password = credentials.partition(":")
    service, _, database = parts.path.strip("/").partition("/")
    if database and not re.fullmatch(r"[0-9]{1,9}", database):
        raise ValueError("names a database that is no number")
    server = {"db": int(database or 0), **_named(username=unquote(user), password=unquote(password))}
    sentinel: dict[str, Any] = {}
    tls: dict[str, Any] = {}
    for name, value in _options(parts):
        if name in _OWN:
            sentinel |= _named(**{_OWN[name]: value})
        else:
            tls[name] = value
    if parts.scheme.startswith("rediss"):
        tls["ssl"] = True
    elif tls:
        raise ValueError(f"has options of TLS, which {parts.scheme}:// is without; it begins with rediss+sentinel://")
    hosts = tuple(_host(each) for each in netloc.split(","))
    return SentinelUrl(hosts, unquote(service) or DEFAULT_SERVICE, server | tls, sentinel | tls)


def _options(parts: SplitResult) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name not in _OWN and name not in _TLS:
            raise ValueError(f"has an option that is none of {', '.join(sorted({*_OWN, *_TLS}))}")
        if name != "ssl_check_hostname":
            found.append((name, value))
        elif value.lower() in _BOOLEANS:
            found.append((name, _BOOLEANS[value.lower()]))
        else:
            raise ValueError("has an ssl_check_hostname that is neither true nor false")
    return found


def _named(**options: str) -> dict[str, str]:
    return {name: value for name, value in options.items() if value}


def _host(text: str) -> tuple[str, int]:
    found = _HOST.fullmatch(text)
    port = int(found["port"] or DEFAULT_PORT) if found else 0
    if not found or not 0 < port < 65_536:
        raise ValueError("names no Sentinels as HOST:PORT, separated by commas")
    return found["host"].strip("[]"), port
