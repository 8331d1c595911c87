"""The URL of a Redis that holds records: its check, and its name without secrets."""

from __future__ import annotations

import re
from urllib.parse import SplitResult, parse_qsl, urlsplit

from hub.recovery.models import RedisSource
from hub.settings import Settings
from hub.settings.sentinel import SCHEMES, read_sentinel_url
from hub.store.external import ExternalRedis

_SCHEME = re.compile(r"(rediss?|rediss?\+sentinel|unix)://", re.IGNORECASE)
_SERVER = re.compile(r"(?:[^\s/@:,]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")
_DATABASE = re.compile(r"[0-9]{1,9}")
_EXAMPLE = "such as redis://host:6379/0"


def open_redis(url: str, source: RedisSource, settings: Settings) -> tuple[ExternalRedis, str]:
    """Return a client of the Redis at this URL, not connected yet, and the name of its server and database for errors.

    Raises `SourceRefused` for a text that is no URL of a Redis, and for an option that no connection takes.
    """
    if re.search(r"\s", url):
        raise source.refused("url", "there is a space in it, which a URL writes as %20")
    found = _SCHEME.match(url)
    if not found or "#" in url:
        raise source.refused("url", f"it is no URL of a Redis, {_EXAMPLE}")
    url = found[0].lower() + url[found.end() :]
    try:
        parts = urlsplit(url)
        is_one = _names_a_server(parts)
    except ValueError:
        is_one = False
    if not is_one:
        raise source.refused("url", f"it is no URL of a Redis, {_EXAMPLE}")
    _refuse_database(parts, source)
    try:
        return ExternalRedis.at(url, settings), _shown(parts)
    except ValueError as error:
        raise source.refused("url", str(error)) from None


def _names_a_server(parts: SplitResult) -> bool:
    """Return whether the URL names a server and every part of it is understood; raises `ValueError` as urllib does."""
    servers = parts.netloc.rpartition("@")[2]
    if "@" in parts.path:
        return False
    if parts.query:
        parse_qsl(parts.query, strict_parsing=True)  # raises ValueError
    if parts.scheme == "unix":
        return not servers and len(parts.path) > 1
    if parts.scheme in SCHEMES:
        read_sentinel_url(parts._replace(path="").geturl())  # raises ValueError; the database is checked elsewhere
        return all(_SERVER.fullmatch(server) for server in servers.split(","))
    return bool(_SERVER.fullmatch(servers)) and parts.port != 0


def _refuse_database(parts: SplitResult, source: RedisSource) -> None:
    """Raise `SourceRefused` for a database that is no number, which would be read as database 0."""
    if parts.scheme == "unix":
        return
    path = parts.path.strip("/")
    database = path.partition("/")[2] if parts.scheme in SCHEMES else path
    if database and not _DATABASE.fullmatch(database):
        raise source.refused("url", f"its database is no number, {_EXAMPLE}")


def _shown(parts: SplitResult) -> str:
    path = parts.path.strip("/")
    if parts.scheme in SCHEMES:
        return f"{parts.netloc.rpartition('@')[2]}{f'/{path}' if path else ''}"
    named = dict(parse_qsl(parts.query)).get("db")
    if parts.scheme == "unix":
        return f"{parts.path}, database {int(named or 0)}"
    host = str(parts.hostname)
    return f"{f'[{host}]' if ':' in host else host}:{parts.port or 6379}/{int(named or path or 0)}"
