"""Checks of addresses: whether one is of this machine, and whether a URL sends a password in plain text."""

from __future__ import annotations

import re
from ipaddress import ip_address
from urllib.parse import urlsplit

_PASSWORD = re.compile(r"(^|&)(sentinel_)?password=", re.IGNORECASE)


def is_loopback(host: str) -> bool:
    """Return whether a host name or address always means this machine."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def has_password_in_plain_text(redis_url: str) -> bool:
    """Return whether a connection to this URL of Redis would send a password over a network without TLS."""
    parts = urlsplit(redis_url)
    credentials, _, hosts = parts.netloc.rpartition("@")
    if not parts.scheme.startswith("redis") or parts.scheme.startswith("rediss"):
        return False
    if ":" not in credentials and not _PASSWORD.search(parts.query):
        return False
    return not all(is_loopback(_without_port(host)) for host in hosts.split(","))


def _without_port(host: str) -> str:
    return host.partition("]")[0] if host.startswith("[") else host.partition(":")[0]
