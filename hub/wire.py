"""How times and documents are written where other programs read them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import orjson


def time_text(moment: datetime) -> str:
    """A time as the wire writes it: UTC, seven fractional digits and `Z`."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")[:26] + "0Z"


def to_json(document: Any) -> bytes:
    """JSON, also of what other programs put into Redis: bytes that are not UTF-8, deep nesting, endless numbers."""
    try:
        return orjson.dumps(document)
    except TypeError:
        return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
