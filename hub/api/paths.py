"""The paths that more than one module uses, and the reading of ids in a path."""

from __future__ import annotations

import re
from urllib.parse import unquote

from starlette.convertors import Convertor, PathConvertor, StringConvertor, register_url_convertor
from starlette.types import Scope

_V1 = "/v1"
PREFIX = f"{_V1}/joblib"  # before every path of the jobs API
PROBLEMS = f"{_V1}/problems"  # before the names of the jobs API's kinds of refusal
ALIAS = "/api/v1"  # every path of the hub may also be called with this prefix
V2 = "/v2"  # before the path of a call in neutral names
REALMS = "/realms/"  # before the path of a call that names its realm
AGE_MS = "x-hub-age-ms"  # a header of an answer from a cache: its age in milliseconds
SOCKETS = "/socket.io/"
ABORT = "hub.abort"  # in the extensions of a WebSocket's scope: a function that cuts its connection
# Stands in a decoded path for an escaped slash, which is part of an id. No decoded path has this half of a surrogate.
_SLASH = "\udc2f"
_ESCAPED = re.compile(b"%2[fF]")


def is_ours(path: str) -> bool:
    """Return whether a path belongs to the jobs API, also where the jobs API has no such route."""
    return path.startswith(PREFIX) and path[len(PREFIX) :][:1] in ("", "/")


def without_prefix(path: str) -> tuple[str, bool]:
    """Return a path without the prefix that callers may write before it, and whether that asks for neutral names."""
    if path.startswith(f"{ALIAS}/") and not is_ours(path[len(ALIAS) :]):
        return path[len(ALIAS) :], False
    return (path[len(V2) :], True) if path.startswith(f"{V2}/") else (path, False)


def keep_escaped(scope: Scope) -> None:
    """Mark the escaped slashes in the path of a request, so that routes take them as part of an id and not as a
    separator."""
    raw: bytes = scope.get("raw_path") or b""
    if b"%2" in raw and len(parts := _ESCAPED.split(raw)) > 1:
        scope["path"] = _SLASH.join(unquote(part.decode("latin-1")) for part in parts)
    scope["raw_path"] = b""  # it must not be used any more: prefixes are removed from the path later


def read_id(text: str) -> str:
    """Return the id in a part of a path: escaped slashes become slashes."""
    return text.replace(_SLASH, "/")


class _Segment(StringConvertor):
    """A convertor for an id in one segment of a path."""

    def convert(self, value: str) -> str:
        return read_id(value)


class _Path(PathConvertor):
    """A convertor for an id in which clients may also write plain slashes; it ends where the rest of the route
    begins."""

    def convert(self, value: str) -> str:
        return read_id(value)


class _Rest(Convertor[str]):
    """A convertor for a full name in the rest of a path: it may have slashes, colons and line breaks, and may be
    empty."""

    regex = r"[\s\S]*"

    def convert(self, value: str) -> str:
        return read_id(value)

    def to_string(self, value: str) -> str:
        return value


# A route looks up the convertors of its parameters by name when it is made; `str` is the default.
register_url_convertor("str", _Segment())
register_url_convertor("path", _Path())
register_url_convertor("full", _Rest())
