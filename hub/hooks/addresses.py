"""The addresses that hooks may have: public ones, and those of hosts that `HUB_HOOK_HOSTS` lists."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Collection
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import httpx

URL_MAX = 2_000  # characters
LOOK_UP_S = 4.0  # for the addresses of a name
_NAT64 = ip_network("64:ff9b::/96")  # an IPv4 address as a network without IPv4 reaches it
_PORTS = (None, *range(1, 65_536))
_PUBLIC = ip_network("2000::/3")


class BadAddress(ValueError):
    """The refusal of the address of a hook; its text is a sentence without a subject."""


def is_public(text: str) -> bool:
    """Return whether an address is one of the internet: not private, of this machine, of a group, or a way to such."""
    found: IPv4Address | IPv6Address = ip_address(text)
    if isinstance(found, IPv6Address):
        if found.ipv4_mapped is not None or found in _NAT64:
            found = IPv4Address(int(found) & 0xFFFFFFFF)
        elif found not in _PUBLIC or found.sixtofour is not None or found.teredo is not None:
            return False
    return found.is_global and not found.is_multicast and not found.is_reserved


def read_url(value: object) -> str:
    """Return the URL of a hook; raises ValueError for another value."""
    try:
        url = httpx.URL(value) if isinstance(value, str) and len(value) <= URL_MAX and value.isprintable() else None
    except (httpx.InvalidURL, ValueError):
        url = None
    if url is None or url.scheme not in ("http", "https") or not url.host or url.userinfo or url.port not in _PORTS:
        raise ValueError(f"must be a URL such as https://host/path, at most {URL_MAX} characters, without a password")
    return str(url.copy_with(fragment=None))


async def addresses_of(url: httpx.URL, allowed: Collection[str]) -> list[str]:
    """Return the addresses of the host of a URL; raises `BadAddress` when it has none, or one that hooks may not have.

    `allowed` are hosts that may have any.
    """
    host = url.raw_host.decode().lower().removesuffix(".")
    try:
        found = await look_up(host, url.port or {"http": 80, "https": 443}[url.scheme])
    except (OSError, UnicodeError):  # UnicodeError: a part of the name is longer than names may be
        raise BadAddress("has a host that no name server knows") from None
    if host not in allowed and url.netloc.decode().lower() not in allowed and not all(map(is_public, found)):
        raise BadAddress("has a private address, which HUB_HOOK_HOSTS does not allow for this host")
    return found


async def look_up(host: str, port: int) -> list[str]:
    """Return the addresses of a host; raises OSError when it has none."""
    async with asyncio.timeout(LOOK_UP_S):
        rows = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(row[4][0]) for row in rows))
