"""Names, ids, times and digests of the jobs API. Pure."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Mapping
from typing import Any
from uuid import UUID

from hub.errors import InvalidCategory, InvalidRoomId
from hub.wire import second_text

GLOBAL, INTERNAL = "@global", "@internal"
SHARED = (GLOBAL, INTERNAL)  # rooms whose jobs are seen from every room

_usual = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}").fullmatch


def to_id(text: str) -> str:
    """Return a UUID in any of its spellings as 32 hex digits; raises ValueError."""
    return text.replace("-", "") if _usual(text) else UUID(text).hex


def dashed(hex_id: str) -> str:
    """Return an id of 32 hex digits with the hyphens of a UUID, as the wire writes it."""
    return f"{hex_id[:8]}-{hex_id[8:12]}-{hex_id[12:16]}-{hex_id[16:20]}-{hex_id[20:]}"


def time_text(at_us: int) -> str:
    """Return a time in microseconds since 1970 as the wire writes it."""
    return f"{second_text(at_us // 1_000_000)}.{at_us % 1_000_000:06d}Z"


def check_room(room: str) -> None:
    """Raise `InvalidRoomId` unless this is a valid name of a room."""
    if room in (".", ".."):
        raise InvalidRoomId(f"A room cannot be called {room!r}: in a path that is no name")
    if room in SHARED or (room and "@" not in room and ":" not in room):
        return
    raise InvalidRoomId(f"Room id {room!r} is empty or has invalid characters: '@' and ':' are not allowed")


def check_category(category: str, allowed: Collection[str], setting: str) -> None:
    """Raise `InvalidCategory` unless `allowed` has the category or `*`; the error names the `setting`."""
    if category not in allowed and "*" not in allowed:
        shown = ", ".join(allowed) or "none"
        raise InvalidCategory(
            f"Category {category!r} is not one of {shown}, which {setting} allows: set it where the hub is started, to "
            "a JSON list or to * for all"
        )


def full_name(room: str, category: str, name: str) -> str:
    """Return the full name of a job or a provider."""
    return f"{room}:{category}:{name}"


def parse_full_name(full: str) -> tuple[str, str, str] | None:
    """Return room, category and name of a full name; None for fewer than three parts. The name may contain colons."""
    parts = full.split(":", 2)
    return (parts[0], parts[1], parts[2]) if len(parts) == 3 else None


def preferred_wait(prefer: str | None) -> int | None:
    """Return the seconds of `wait=N` in a `Prefer` header; None for no header or one without it."""
    found = re.search(r"\bwait=(\d+)\b", prefer or "", re.ASCII)
    return int(found[1][:9]) if found else None


def params_text(params: Mapping[str, str]) -> str:
    """Return query parameters as JSON text; its SHA-256 names the result of a provider. Clients compute the same."""
    return json.dumps(dict(params), sort_keys=True, separators=(",", ":"))


def params_hash(params: Mapping[str, str]) -> str:
    """Return the SHA-256, in hex, under which a provider's result for these parameters is kept."""
    return hashlib.sha256(params_text(params).encode()).hexdigest()


def schema_digest(schema: Any) -> str:
    """Return a digest of a parsed schema, 32 hex digits. Schemas of equal structure have the same digest: the order of
    keys does not count, 1 and 1.0 are equal, true and 1 are not.
    """
    canonical = json.dumps(_by_value(schema), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:32]


def _by_value(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _by_value(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_by_value(inner) for inner in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value
