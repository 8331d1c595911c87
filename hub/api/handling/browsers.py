"""The check whether a web page may call the hub. A browser sends the requests that any page tells it to send, also to a
hub on the browser's own machine.

A foreign page shows by headers that browsers add and that no page can change: `Host` (an attacker can point a name at
127.0.0.1, but the name is still the attacker's), `Origin` and `Sec-Fetch-Site`. Programs that are no browser send
`Host` alone, and need to send nothing more: `curl -d` keeps its content type.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from ipaddress import ip_address

from starlette.types import Scope

from hub.api.handling.proxies import FORWARDED
from hub.api.operations import SAFE, Row
from hub.errors import BadInput, Forbidden, Foreign, HubError
from hub.settings import Settings

# Headers that only browsers send. Old browsers leave out the first two; no page can make a browser leave out all.
SIGNS = (b"origin", b"sec-fetch-site", b"referer", b"cookie")
BROWSER = b"Mozilla/"
KNOWN_MAX = 1_000
_NAMES = (b"host", b"x-forwarded-host")
_CREDENTIALS = (b"x-hub-secret", b"authorization")  # a foreign page can send these after a preflight only
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._~%-]+)(?::([0-9]{0,5}))?")
_JSON = re.compile(rb"application/([a-z0-9.-]+\+)?json\s*(;|$)", re.IGNORECASE)
_PORTS = {"http": "80", "https": "443"}


class NotJson(HubError):
    code = "not-json"
    status = 415


def first_of(headers: Sequence[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """Return the headers by name. Of a header that comes several times the first value counts, as everywhere in the
    hub."""
    return dict(reversed(headers))


class Gate:
    """The rule of one hub about hosts and pages. A hub without secrets lets every caller do everything, so it accepts
    only names and pages of its own machine. A hub with secrets checks the origin of a page where a cookie is the page's
    only credential."""

    def __init__(self, settings: Settings, *, is_reached_by_pages: bool = True) -> None:
        self._open = settings.open_access
        self._read_only = settings.console == "readonly"
        self._hosts = frozenset(map(_without_dot, settings.allowed_hosts))
        self._any_name_reads = not is_reached_by_pages or FORWARDED in os.environ
        self._origins = frozenset(map(_origin, settings.allowed_origins))
        self.known: set[bytes] = set()  # values of `Host` that were let in: they are not parsed again

    def check(self, scope: Scope, row: Row | None, *, socket: bool = False) -> Mapping[bytes, bytes]:
        """Return the headers by name. Raises `BadInput`, `Foreign`, `NotJson` or `Forbidden` for a request that is not
        to be served. With `socket` the content type is not checked, because a socket sends no JSON over HTTP."""
        headers = first_of(scope["headers"])
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        if len(hosts) > 1:
            raise BadInput("A request has one Host header, and this one has several.")
        if hosts and hosts[0] not in self.known:
            self._check_host(hosts[0])
        if self._open or (b"cookie" in headers and not any(name in headers for name in _CREDENTIALS)):
            self._check_page(scope, row, headers, socket)
        return headers

    def welcome(self, origin: str | None, environ: Mapping[str, str]) -> bool:
        """Return whether pages of this origin may connect to the sockets; `environ` is the request as python-engineio
        keeps it."""
        if origin is None:
            return False  # no browser: python-engineio does not check it either
        names = (environ.get(name, "").encode() for name in ("HTTP_HOST", "HTTP_X_FORWARDED_HOST"))
        return self._is_listed(origin) or _is_own(origin, dict(zip(_NAMES, names, strict=True)))

    def may_read_unnamed(self, host: str | None) -> bool:
        """Return whether a caller without a credential may read under this `Host`, where anonymous reads are on.

        An attacker can point a name at a hub and then read as a page of that name. Nobody can redirect an address or a
        listed name. Where a proxy is declared every name is allowed, because the proxy decides about names.
        """
        if host is None or self._any_name_reads:
            return True
        found = _HOST.fullmatch(host.lower())
        return found is not None and self._is_known(_without_dot(found[1]))

    def _is_known(self, name: str) -> bool:
        return _is_loopback(name) or name in self._hosts or _is_address(name)

    def _check_host(self, value: bytes) -> None:
        found = _HOST.fullmatch(value.decode("latin-1").lower())
        if found is None:
            raise BadInput("Host names no host, such as 127.0.0.1:8080.")
        if self._open or self._hosts:
            name = _without_dot(found[1])
            if not self._is_known(name) or (self._open and not (_is_loopback(name) or name in self._hosts)):
                raise Foreign(
                    f"This hub is not called {name[:100]}: use the name of a loopback address, or list the name in "
                    "HUB_ALLOWED_HOSTS."
                )
        if len(self.known) < KNOWN_MAX:
            self.known.add(value)

    def _check_page(self, scope: Scope, row: Row | None, headers: Mapping[bytes, bytes], socket: bool) -> None:
        origin = headers.get(b"origin", b"").decode("latin-1")
        listed, own = self._is_listed(origin), _is_own(origin, headers)
        if origin and not (listed or own):
            raise Foreign(
                f"Pages of {origin[:100]} may not call this hub; its operator may list them in HUB_ALLOWED_ORIGINS."
            )
        site = headers.get(b"sec-fetch-site", b"none")
        if site not in (b"same-origin", b"none") and not (listed or _follows_a_link(scope, row, headers)):
            raise Foreign("Pages of another origin may not call this hub; see HUB_ALLOWED_ORIGINS.")
        if scope["type"] == "http" and scope["method"] not in SAFE and not socket and _is_browser(headers):
            if self._read_only and not (row is not None and row.facts.entry):
                raise Forbidden("Pages change nothing at this hub: HUB_CONSOLE is readonly.")
            kind = headers.get(b"content-type")
            if kind is None and (own or listed):
                return  # a request without a body needs no content type
            if kind is None or not _JSON.match(kind):
                raise NotJson("From a browser the hub takes JSON only: send content-type: application/json.")

    def _is_listed(self, origin: str) -> bool:
        return bool(origin) and _origin(origin) in self._origins


def _is_own(origin: str, headers: Mapping[bytes, bytes]) -> bool:
    """Return whether an origin is this hub's own: whether it has the host of this call, or the host that a proxy was
    called by."""
    scheme, _, authority = _origin(origin).partition("://")
    given = (headers.get(name, b"").decode("latin-1").lower() for name in _NAMES)
    return authority != "" and authority in {_authority(scheme, each) for each in given}


def _origin(text: str) -> str:
    """Return an origin in one spelling: in lower case, without a slash at its end, and without the default port of its
    scheme."""
    scheme, colon, rest = text.strip().lower().rstrip("/").partition("://")
    return f"{scheme}://{_authority(scheme, rest)}" if colon else scheme


def _authority(scheme: str, text: str) -> str:
    return text.removesuffix(f":{_PORTS.get(scheme, '')}")


def _follows_a_link(scope: Scope, row: Row | None, headers: Mapping[bytes, bytes]) -> bool:
    """Return whether a browser follows a link from another page to a page of the hub. That is allowed: the page with
    the link learns nothing of the answer."""
    return (
        scope["type"] == "http"
        and scope["method"] == "GET"
        and row is not None
        and row.facts.linked
        and headers.get(b"sec-fetch-mode") == b"navigate"
        and headers.get(b"sec-fetch-dest") == b"document"
    )


def _is_browser(headers: Mapping[bytes, bytes]) -> bool:
    return any(name in headers for name in SIGNS) or headers.get(b"user-agent", b"").startswith(BROWSER)


def _without_dot(name: str) -> str:
    """Return a host name without a dot at its end; the name means the same with and without the dot."""
    return name.removesuffix(".")


def _is_loopback(name: str) -> bool:
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ip_address(name.strip("[]")).is_loopback
    except ValueError:
        return False


def _is_address(name: str) -> bool:
    """Return whether a host is an IP address: an attacker cannot point an address elsewhere, as a name can be."""
    try:
        ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True
