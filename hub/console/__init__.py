"""The page that operators look at: static files, which speak to the hub over HTTP alone."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import resources
from typing import Final, NamedTuple

TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
}
PAGE: Final = "index.html"
_FOLDERS: Final = ("", "lib", "screens", "vendor")


class File(NamedTuple):
    """A file of the page as it is served."""

    content: bytes
    media_type: str
    etag: str


@cache
def files() -> dict[str, File]:
    """Path below the page -> file; nothing else is ever served."""
    top = resources.files("hub.console")
    found = {}
    for folder in _FOLDERS:
        for each in (top.joinpath(folder) if folder else top).iterdir():
            kind = each.name.rpartition(".")[2]
            if kind in TYPES and each.is_file():
                content = each.read_bytes()
                etag = f'"{hashlib.sha256(content).hexdigest()[:20]}"'
                found[f"{folder}/{each.name}" if folder else each.name] = File(content, TYPES[kind], etag)
    return found
