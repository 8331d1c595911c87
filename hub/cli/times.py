"""Times as text for people: how long ago they were, or with `--utc` the time itself."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from hub.cli import global_options, output


def when(text: Any, now: datetime | None = None) -> str:
    """Return an ISO time as `12 s ago` or `in 3 min`, with `--utc` as `2026-11-23T08:40:10Z`; other text unchanged."""
    shown = str(text or "")
    try:
        at = datetime.fromisoformat(shown)
    except ValueError:
        return shown
    at = at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    if global_options.is_given(global_options.UTC):
        return at.strftime("%Y-%m-%dT%H:%M:%SZ")
    seconds = ((now or datetime.now(UTC)) - at).total_seconds()
    return f"{output.duration(seconds)} ago" if seconds >= 0 else f"in {output.duration(-seconds)}"


def since(ms: Any) -> str:
    """Return a duration in ms as `12 s ago`; `never` when it is no number."""
    return f"{output.duration(ms / 1000)} ago" if isinstance(ms, int | float) else "never"
