"""Times and documents as other programs read them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import orjson


def time_text(moment: datetime) -> str:
    """Return a time as the wire writes it: UTC, seven fractional digits and `Z`."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")[:26] + "0Z"


def time_at(at_s: float) -> str:
    """Return a time in seconds since 1970 as `time_text` does."""
    seconds, micros = divmod(round(at_s * 1_000_000), 1_000_000)
    return f"{second_text(seconds)}.{micros:06d}0Z"


@lru_cache(maxsize=1024)
def second_text(at_s: int) -> str:
    """Return a whole second since 1970 in UTC, up to its fraction: a busy hub writes few of them often."""
    return datetime.fromtimestamp(at_s, UTC).isoformat()[:19]


def to_json(document: Any) -> bytes:
    """Return JSON, also for texts of other programs in Redis: bytes that are not UTF-8, deep nesting, endless
    numbers."""
    try:
        return orjson.dumps(document)
    except TypeError:
        return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
