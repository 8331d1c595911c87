"""What an explanation consists of, and how long things take in words. Without the store."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from hub.history.reading import FoundEvents

Kind = Literal["node", "slot", "ticket", "run", "task", "worker", "job", "schedule"]


@dataclass(frozen=True)
class NextStep:
    """What happens next: the event, the rule it follows, and in how many ms of the hub clock, where that is known."""

    what: str
    rule: str
    in_ms: int | None = None


@dataclass(frozen=True)
class Now:
    """How a thing is at this moment. `state` is one word, `because` the sentence that explains it."""

    state: str
    because: str
    facts: dict[str, Any] = field(default_factory=dict)
    next: tuple[NextStep, ...] = ()


@dataclass(frozen=True)
class Explanation:
    """A thing as it is, what comes next, and what happened to it, newest first."""

    kind: Kind
    id: str
    now: Now
    past: FoundEvents


def seconds(ms: float) -> str:
    """`0.4 s`, `12 s`, `1.5 h`: a duration inside a sentence."""
    for size, unit in ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min")):
        if ms >= 2 * size:
            return f"{ms / size:.3g} {unit}"
    return f"{max(0.0, ms) / 1000:.3g} s"
