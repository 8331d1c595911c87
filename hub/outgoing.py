"""HTTP clients of every part of the hub, made here and nowhere else, and the proxy that leads to an address.

The environment names proxies for programs of all kinds. httpx reads all of it for every client, and raises on the first
entry that it does not know, also for a hub on this machine, which no proxy can reach.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.util import find_spec
from ipaddress import ip_address, ip_network
from ssl import SSLContext
from typing import Any
from urllib.parse import SplitResult, urlsplit

import httpx

from hub.errors import HubError

_KNOWN = ("http", "https", "socks5", "socks5h")


def async_client(url: str, **options: Any) -> httpx.AsyncClient:
    """Return a client for calls to `url`; raises `HubError` in one sentence for a proxy that cannot be used."""
    return httpx.AsyncClient(**options_for(url, options))


def options_for(url: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a client for calls to `url`, with those that are given.

    A given transport has its own way to the hub. Without TLS no certificates are read: that takes longer than a call.
    """
    options = {"trust_env": False, **given}
    if options.get("transport") is None:
        if "proxy" not in options:
            options["proxy"] = proxy_of(url)
        if not isinstance(options.get("verify"), SSLContext):
            options["verify"] = url.lower().startswith("https:") and httpx.create_ssl_context()
    return options


def proxy_of(url: str, environ: Mapping[str, str] | None = None) -> str | None:
    """Return the URL of the proxy that leads to `url`, None where the call goes straight there.

    Entries of NO_PROXY are names, addresses and networks; those that are none of these are ignored.
    """
    environ = os.environ if environ is None else environ
    parts = urlsplit(url)
    if is_of_this_machine(url) or (found := _named(parts.scheme.lower(), environ)) is None:
        return None
    no_proxy = environ.get("no_proxy", environ.get("NO_PROXY", ""))
    return None if any(_leads_past(entry, parts) for entry in no_proxy.split(",")) else _checked(*found)


def is_of_this_machine(url: str) -> bool:
    """Return whether the URL names this machine by a loopback name."""
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost" or host.lower().endswith(".localhost")


def _named(scheme: str, environ: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the variable that names a proxy for a scheme, and what it says; an empty one names none."""
    for name in (f"{scheme}_proxy", f"{scheme}_proxy".upper(), "all_proxy", "ALL_PROXY"):
        if name == "HTTP_PROXY" and "REQUEST_METHOD" in environ:  # of a CGI program: a header of its caller
            continue
        if name in environ:
            return (name, value) if (value := environ[name].strip()) else None
    return None


def _leads_past(entry: str, url: SplitResult) -> bool:
    """Return whether an entry of NO_PROXY says that no proxy leads to a URL."""
    host, entry = (url.hostname or "").lower(), entry.strip().lower()
    if entry == "*":
        return True
    try:
        return ip_address(host) in ip_network(entry.strip("[]"), strict=False)
    except ValueError:
        pass  # one of them is a name
    name, colon, port = entry.rpartition(":")
    if colon and port.isdecimal():
        if int(port) != (url.port or {"http": 80, "https": 443}.get(url.scheme)):
            return False
        entry = name.strip("[]")
    entry = entry.removeprefix("*").removeprefix(".")
    return entry != "" and (host == entry or host.endswith(f".{entry}"))


def _checked(variable: str, text: str) -> str:
    """Return the URL of a proxy; raises `HubError`, which shows nothing of a password."""
    text = text if "://" in text else f"http://{text}"
    scheme = text.partition("://")[0].lower()
    if scheme not in _KNOWN:
        raise HubError(f"{variable} cannot be used: no proxy begins with {scheme[:20]!r}; write http:// or socks5://.")
    if scheme.startswith("socks") and find_spec("socksio") is None:
        raise HubError(f"{variable} cannot be used: a SOCKS proxy needs a package; run: pip install 'httpx[socks]'.")
    try:
        parts = urlsplit(text)
        if not parts.hostname or parts.port == 0:
            raise ValueError
        httpx.Proxy(text)
    except (ValueError, httpx.InvalidURL):
        raise HubError(f"{variable} cannot be used: it names no proxy such as http://10.0.0.5:3128.") from None
    return text
