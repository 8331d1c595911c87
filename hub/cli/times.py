"""Times for people: how long ago, or with `--utc` the time itself."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from hub.cli import global_options, output


def when(text: Any, now: datetime | None = None) -> str:
    """Return `12 s ago` or `in 3 min`, with `--utc` `2026-11-23T08:40:10Z`; text that is no time stays as it is."""
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
    """Return `12 s ago` for a duration in ms, and `never` where it is not known."""
    return f"{output.duration(ms / 1000)} ago" if isinstance(ms, int | float) else "never"
