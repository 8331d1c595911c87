"""How times and documents are written where other programs read them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import orjson


def time_text(moment: datetime) -> str:
    """A time as the wire writes it: UTC, seven fractional digits and `Z`."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")[:26] + "0Z"


def time_at(at_s: float) -> str:
    """As `time_text`, of a time in seconds since 1970."""
    seconds, micros = divmod(round(at_s * 1_000_000), 1_000_000)
    return f"{second_text(seconds)}.{micros:06d}0Z"


@lru_cache(maxsize=1024)
def second_text(at_s: int) -> str:
    """A whole second since 1970 in UTC, up to its fraction: a busy hub writes few of them often."""
    return datetime.fromtimestamp(at_s, UTC).isoformat()[:19]


def to_json(document: Any) -> bytes:
    """JSON, also of what other programs put into Redis: bytes that are not UTF-8, deep nesting, endless numbers."""
    try:
        return orjson.dumps(document)
    except TypeError:
        return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
