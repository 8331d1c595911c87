"""The authorities that a client of the hub trusts for TLS, and the certificate that it shows."""

from __future__ import annotations

import logging
import os
import ssl
from urllib.parse import urlsplit

from hub.errors import HubError
from hub.outgoing import is_of_this_machine

log = logging.getLogger("hub.client")
_warned: set[str | None] = set()

CA_FILE, CERT_FILE, KEY_FILE = TLS_NAMES = ("HUB_CA_FILE", "HUB_CERT_FILE", "HUB_KEY_FILE")


def tls_context() -> ssl.SSLContext | None:
    """Return the TLS context of HUB_CA_FILE, HUB_CERT_FILE and HUB_KEY_FILE; None if the first two are unset.

    A file of authorities replaces those of the system. Raises `HubError` in one sentence when a file cannot be used.
    """
    authorities, cert, key = (os.environ.get(name, "").strip() or None for name in TLS_NAMES)
    if authorities is None and cert is None:
        return None
    try:
        context = ssl.create_default_context(cafile=authorities)
    except OSError as error:  # also raised for wrong contents
        raise HubError(f"{CA_FILE}={authorities} cannot be used: {_why(error)}.") from None
    if cert is not None:
        try:
            context.load_cert_chain(cert, key, password=_no_password)
        except (OSError, ValueError) as error:
            named = f"{CERT_FILE}={cert}" + (f" with {KEY_FILE}={key}" if key else "")
            raise HubError(f"{named} cannot be used: {_why(error)}.") from None
    return context


def warn_of_plain_text(url: str) -> None:
    """Log a warning, once for each host, when secrets go to a hub on another machine without TLS."""
    host = urlsplit(url).hostname
    if url.lower().startswith("http:") and not is_of_this_machine(url) and host not in _warned:
        _warned.add(host)
        log.warning("Secrets travel to %s in plain text; use an address that begins with https://.", host)


def _no_password() -> str:
    raise ValueError("the key is encrypted, and a client cannot ask for its password")


def _why(error: Exception) -> str:
    return getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)
