"""The parts of a URL with several servers: hosts, credentials, and the options of TLS."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, Final
from urllib.parse import SplitResult, parse_qsl, unquote

TLS: Final = frozenset(
    {"ssl_ca_certs", "ssl_ca_path", "ssl_certfile", "ssl_keyfile", "ssl_password", "ssl_cert_reqs",
     "ssl_check_hostname"}
)  # fmt: skip
_HOST = re.compile(r"(?P<host>[^\s/@:,\[\]]+|\[[0-9A-Fa-f:.]+\])(?::(?P<port>[0-9]{1,5}))?")
_BOOLEANS: Final = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


def read_hosts(parts: SplitResult, default_port: int, what: str) -> tuple[tuple[str, int], ...]:
    """Return hosts and ports of a URL; raises ValueError, which calls them `what`."""
    return tuple(_host(each, default_port, what) for each in parts.netloc.rpartition("@")[2].split(","))


def read_credentials(parts: SplitResult) -> dict[str, str]:
    """Return user and password of a URL, as options of a connection; empty ones are left out."""
    user, _, password = parts.netloc.rpartition("@")[0].partition(":")
    return named(username=unquote(user), password=unquote(password))


def read_options(parts: SplitResult, own: Collection[str] = ()) -> tuple[dict[str, str], dict[str, Any]]:
    """Return the options of a URL whose names are in `own`, and those of TLS; raises ValueError for any other.

    The options of TLS include `ssl` when the scheme begins with `rediss`; with another scheme they are refused.
    """
    mine: dict[str, str] = {}
    tls: dict[str, Any] = {}
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name in own:
            mine[name] = value
        elif name not in TLS:
            raise ValueError(f"has an option that is none of {', '.join(sorted({*own, *TLS}))}")
        elif name != "ssl_check_hostname":
            tls[name] = value
        elif value.lower() in _BOOLEANS:
            tls[name] = _BOOLEANS[value.lower()]
        else:
            raise ValueError("has an ssl_check_hostname that is neither true nor false")
    if parts.scheme.startswith("rediss"):
        tls["ssl"] = True
    elif tls:
        secure = parts.scheme.replace("redis", "rediss", 1)
        raise ValueError(f"has options of TLS, which {parts.scheme}:// is without; it begins with {secure}://")
    return mine, tls


def named(**options: str) -> dict[str, str]:
    """Return the options that have a value."""
    return {name: value for name, value in options.items() if value}


def _host(text: str, default_port: int, what: str) -> tuple[str, int]:
    found = _HOST.fullmatch(text)
    port = int(found["port"] or default_port) if found else 0
    if not found or not 0 < port < 65_536:
        raise ValueError(f"names no {what} as HOST:PORT, separated by commas")
    return found["host"].strip("[]"), port
