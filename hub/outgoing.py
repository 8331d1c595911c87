"""HTTP clients for all parts of the hub, and the proxy through which a URL is reached.

httpx would read all proxies of the environment for every client, and would raise on the first entry that it does not
know, even for calls to a hub on this machine, which need no proxy. So the proxy of a URL is chosen here instead.
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
    """Return an HTTP client for calls to `url`; raises `HubError` when the proxy for it cannot be used."""
    return httpx.AsyncClient(**options_for(url, options))


def options_for(url: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of an httpx client for calls to `url`; those in `given` take precedence.

    With a given transport no proxy and no certificates are added. Certificates are read only for https, because reading
    them takes longer than a call.
    """
    options = {"trust_env": False, **given}
    if options.get("transport") is None:
        if "proxy" not in options:
            options["proxy"] = proxy_of(url)
        if not isinstance(options.get("verify"), SSLContext):
            options["verify"] = url.lower().startswith("https:") and httpx.create_ssl_context()
    return options


def proxy_of(url: str, environ: Mapping[str, str] | None = None) -> str | None:
    """Return the URL of the proxy for calls to `url`, None where they need no proxy.

    `environ` is the environment that names proxies. Entries of NO_PROXY are host names, addresses and networks; any
    other entry is ignored. Raises `HubError` for a proxy that cannot be used.
    """
    environ = os.environ if environ is None else environ
    parts = urlsplit(url)
    if is_of_this_machine(url) or (found := _named(parts.scheme.lower(), environ)) is None:
        return None
    no_proxy = environ.get("no_proxy", environ.get("NO_PROXY", ""))
    return None if any(_leads_past(entry, parts) for entry in no_proxy.split(",")) else _checked(*found)


def is_of_this_machine(url: str) -> bool:
    """Return whether the host of the URL is this machine: `localhost` or a loopback address."""
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost" or host.lower().endswith(".localhost")


def _named(scheme: str, environ: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the name and the value of the environment variable that names a proxy for this scheme; None where none
    does or its value is empty.
    """
    for name in (f"{scheme}_proxy", f"{scheme}_proxy".upper(), "all_proxy", "ALL_PROXY"):
        if name == "HTTP_PROXY" and "REQUEST_METHOD" in environ:  # in a CGI program a caller's header `Proxy` sets it
            continue
        if name in environ:
            return (name, value) if (value := environ[name].strip()) else None
    return None


def _leads_past(entry: str, url: SplitResult) -> bool:
    """Return whether this entry of NO_PROXY fits the URL, so that it is called without a proxy."""
    host, entry = (url.hostname or "").lower(), entry.strip().lower()
    if entry == "*":
        return True
    try:
        return ip_address(host) in ip_network(entry.strip("[]"), strict=False)
    except ValueError:
        pass  # the host or the entry is a name, not an address
    name, colon, port = entry.rpartition(":")
    if colon and port.isdecimal():
        if int(port) != (url.port or {"http": 80, "https": 443}.get(url.scheme)):
            return False
        entry = name.strip("[]")
    entry = entry.removeprefix("*").removeprefix(".")
    return entry != "" and (host == entry or host.endswith(f".{entry}"))


def _checked(variable: str, text: str) -> str:
    """Return the URL of a proxy, with `http://` where it has no scheme; raises `HubError` when it cannot be used.

    The error names the variable and does not show the URL, which may hold a password.
    """
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
