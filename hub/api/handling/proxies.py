"""The address of a caller behind proxies: the header X-Forwarded-For is believed from trusted proxies only, and only
addresses in it count."""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from starlette.types import Scope

FORWARDED = "FORWARDED_ALLOW_IPS"  # the environment variable of uvicorn that declares trusted proxies
_HEADER = b"x-forwarded-for"


class Proxies:
    """The trusted proxies that FORWARDED_ALLOW_IPS lists: addresses and networks, or `*` for every peer."""

    def __init__(self, trusted: str) -> None:
        parts = [part.strip() for part in trusted.split(",")]
        self._any = "*" in parts
        self._networks = [network for part in parts if (network := _network(part)) is not None]

    def caller(self, scope: Scope) -> str | None:
        """Return the address of the caller: the first one from the right that is not a trusted proxy; None when no peer
        is known.

        The addresses further to the left were sent by the caller itself and may be anything. With `*` the peer that has
        connected is trusted, and no address behind it.
        """
        client = scope.get("client")
        found: str | None = client[0] if client else None
        if not self._any and not self._trusts(found):
            return found
        for text in reversed(_forwarded(scope)):
            address = _address(text)
            if address is None:
                return found
            found = address
            if self._any or not self._trusts(found):
                return found
        return found

    def _trusts(self, text: str | None) -> bool:
        try:
            address = ip_address(text or "")
        except ValueError:
            return False
        return any(address in network for network in self._networks)


def _forwarded(scope: Scope) -> list[str]:
    values = [value.decode("latin-1") for name, value in scope["headers"] if name == _HEADER]
    return [part.strip() for part in ",".join(values).split(",")] if values else []


def _address(text: str) -> str | None:
    """Return the address in a text that has it with or without a port; None for a text that is no address."""
    host = text[1:].partition("]")[0] if text.startswith("[") else text
    if host.count(":") == 1:
        host = host.partition(":")[0]
    try:
        return str(ip_address(host))
    except ValueError:
        return None


def _network(text: str) -> IPv4Network | IPv6Network | None:
    try:
        return ip_network(text, strict=False)
    except ValueError:
        return None
