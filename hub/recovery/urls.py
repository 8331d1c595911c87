"""Reading of database URLs: it adds the default driver and passes the URL's options as the driver takes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import URL, make_url

from hub.recovery.models import SqlSource
from hub.settings.knobs import names_host

_PLAIN = ("postgresql", "postgres")  # schemes without a driver, as most programs write them
_ASYNCPG = "postgresql+asyncpg"
_TRUTHS = {"true": True, "on": True, "yes": True, "1": True, "false": False, "off": False, "no": False, "0": False}
# Options for encryption, named as libpq names them, which asyncpg accepts only in a URL of its own.
_OF_LIBPQ = (
    *("sslmode", "sslcert", "sslkey", "sslrootcert", "sslcrl", "sslpassword"),
    *("ssl_min_protocol_version", "ssl_max_protocol_version"),
)
_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")


def _truth(text: str) -> bool:
    return _TRUTHS[text.lower()]


_TYPES: dict[str, Callable[[str], Any]] = {  # options of asyncpg whose values are not texts
    "timeout": float,
    "command_timeout": float,
    "statement_cache_size": int,
    "prepared_statement_cache_size": int,
    "max_cached_statement_lifetime": int,
    "max_cacheable_statement_size": int,
    "direct_tls": _truth,
}
_RENAMED = {"connect_timeout": "timeout"}
_WORDS = {int: "a whole number", float: "a number", _truth: "true or false"}


def read_url(source: SqlSource) -> tuple[URL, dict[str, Any]]:
    """Return the URL with its driver, and the options to pass to the driver separately.

    Raises `SourceRefused` for a URL that cannot be used; the error never shows a password.
    """
    try:
        url = make_url(source.url)
    except (sa.exc.ArgumentError, ValueError):
        raise source.refused("url", "it is no URL such as postgresql+asyncpg://host/name") from None
    if url.host and not names_host(url.host):
        raise source.refused("url", "it names no host")
    if url.get_backend_name() == "sqlite" and url.database in (None, "", ":memory:"):
        raise source.refused("url", "it names no file, and nobody else sees a database in memory")
    if url.drivername in _PLAIN:
        url = url.set(drivername=_ASYNCPG)
    return (url, {}) if url.drivername != _ASYNCPG else _of_asyncpg(url, source)


def _of_asyncpg(url: URL, source: SqlSource) -> tuple[URL, dict[str, Any]]:
    given: Mapping[str, Any] = url.query
    options: dict[str, Any] = {}
    encrypted: dict[str, str] = {}
    for name, value in given.items():
        known = _RENAMED.get(name, name)
        if name in _OF_LIBPQ:
            encrypted[name] = str(value)
        elif known in _TYPES:
            options[known] = _typed(known, str(value), source)
        elif name == "application_name":
            options["server_settings"] = {name: str(value)}
    if (mode := encrypted.get("sslmode")) is not None and mode not in _MODES:
        raise source.refused("url", f"sslmode is {mode[:20]!r}, and must be one of {', '.join(_MODES)}")
    if options.get("prepared_statement_cache_size"):
        options["prepared_statement_name_func"] = None  # a cached statement needs a name: the default
    if encrypted:
        options["dsn"] = URL.create("postgresql", query=encrypted).render_as_string(hide_password=False)
    taken = [name for name in given if name in _OF_LIBPQ or _RENAMED.get(name, name) in _TYPES]
    return url.difference_update_query([*taken, "application_name"]), options


def _typed(name: str, text: str, source: SqlSource) -> Any:
    kind = _TYPES[name]
    try:
        return kind(text)
    except (ValueError, KeyError):
        raise source.refused("url", f"its option {name} is {text[:20]!r}, and must be {_WORDS[kind]}") from None
