"""Times and JSON documents in the form in which other programs read them."""

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
    """Return a time, given in seconds since 1970, as the wire writes it (see `time_text`)."""
    seconds, micros = divmod(round(at_s * 1_000_000), 1_000_000)
    return f"{second_text(seconds)}.{micros:06d}0Z"


@lru_cache(maxsize=1024)
def second_text(at_s: int) -> str:
    """Return a whole second since 1970 as UTC text without a fraction, such as `2024-05-01T10:00:00`.

    Cached, because a busy hub writes the same second many times.
    """
    return datetime.fromtimestamp(at_s, UTC).isoformat()[:19]


def to_json(document: Any) -> bytes:
    """Return a document as JSON, also where it holds what other programs wrote into Redis and orjson refuses: bytes
    that are not UTF-8, deep nesting, very long integers."""
    try:
        return orjson.dumps(document)
    except TypeError:
        return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
