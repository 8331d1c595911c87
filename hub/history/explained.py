"""The parts of an explanation of `hub why`, and durations in words. No I/O."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from hub.history.reading import FoundEvents

Kind = Literal["node", "slot", "ticket", "run", "task", "worker", "job", "schedule"]


@dataclass(frozen=True)
class NextStep:
    """A thing that happens next: the name of the event, its rule, and in how many ms of the hub clock, if known."""

    what: str
    rule: str
    in_ms: int | None = None


@dataclass(frozen=True)
class Now:
    """The present state of a thing: a word in `state`, the sentence that explains it in `because`, and facts."""

    state: str
    because: str
    facts: dict[str, Any] = field(default_factory=dict)
    next: tuple[NextStep, ...] = ()


@dataclass(frozen=True)
class Explanation:
    """The explanation of a thing: its present state with the next steps, and its past events, newest first."""

    kind: Kind
    id: str
    now: Now
    past: FoundEvents


def seconds(ms: float) -> str:
    """Return a duration for a sentence, such as `0.4 s`, `12 s` or `1.5 h`."""
    for size, unit in ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min")):
        if ms >= 2 * size:
            return f"{ms / size:.3g} {unit}"
    return f"{max(0.0, ms) / 1000:.3g} s"
