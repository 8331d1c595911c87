"""Paths that more than one module knows, and the reading of ids in a path."""

from __future__ import annotations

import re
from urllib.parse import unquote

from starlette.convertors import Convertor, PathConvertor, StringConvertor, register_url_convertor
from starlette.types import Scope

_V1 = "/v1"
PREFIX = f"{_V1}/joblib"  # of the jobs API
PROBLEMS = f"{_V1}/problems"  # below which each kind of its refusals has a name
REALMS = "/realms/"  # before the path of a call that names its realm
AGE_MS = "x-hub-age-ms"  # the header that says how old an answer was when it was given: a page counts that in
SOCKETS = "/socket.io/"
ABORT = "hub.abort"  # in the extensions of a WebSocket: cuts its connection
# Stands in a path for an escaped slash, which separates nothing: half of a surrogate pair, which no decoded path has.
_SLASH = "\udc2f"
_ESCAPED = re.compile(b"%2[fF]")


def is_ours(path: str) -> bool:
    """Whether a path is one of the jobs API, known to it or not."""
    return path.startswith(PREFIX) and path[len(PREFIX) :][:1] in ("", "/")


def keep_escaped(scope: Scope) -> None:
    """Have every module that reads the path of a request see an escaped slash as a part of an id, and no separator."""
    raw: bytes = scope.get("raw_path") or b""
    if b"%2" in raw and len(parts := _ESCAPED.split(raw)) > 1:
        scope["path"] = _SLASH.join(unquote(part.decode("latin-1")) for part in parts)
    scope["raw_path"] = b""  # it is read once: from here on the path is shortened by prefixes


def read_id(text: str) -> str:
    """Return the id that a part of a path spells."""
    return text.replace(_SLASH, "/")


class _Segment(StringConvertor):
    """An id in one segment of a path."""

    def convert(self, value: str) -> str:
        return read_id(value)


class _Path(PathConvertor):
    """An id that clients may also write with plain slashes, which then end where the rest of the route begins."""

    def convert(self, value: str) -> str:
        return read_id(value)


class _Rest(Convertor[str]):
    """The rest of a path as a full name: slashes, colons, line breaks, and nothing at all."""

    regex = r"[\s\S]*"

    def convert(self, value: str) -> str:
        return read_id(value)

    def to_string(self, value: str) -> str:
        return value


# Routes look these up by name as they are made, `str` where they name none.
register_url_convertor("str", _Segment())
register_url_convertor("path", _Path())
register_url_convertor("full", _Rest())
