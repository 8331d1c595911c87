"""The existing metrics: by name, as a scrape shows them, their type and labels."""

from __future__ import annotations

from typing import NamedTuple

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.metrics import MetricWrapperBase

from hub.observability import metrics
from hub.recovery.loop.counts import Counts
from hub.recovery.loop.exposed import Loops


class Fact(NamedTuple):
    """A metric."""

    type: str
    labels: frozenset[str]


def of_hub() -> dict[str, Fact]:
    """Return the metrics of `hub/observability/metrics.py`."""
    found: dict[str, Fact] = {}
    for each in vars(metrics).values():
        if isinstance(each, MetricWrapperBase):
            end = "_total" if each._type == "counter" else ""
            found[each._name + end] = Fact(each._type, frozenset(each._labelnames))
        elif not isinstance(each, type | CollectorRegistry) and hasattr(each, "collect"):
            found |= {family.name: _fact(family) for family in each.collect()}
    return found


def of_loops() -> dict[str, Fact]:
    """Return the metrics of a processing loop."""
    loops = Loops()
    loops._running.append(("s", Counts(), Counts().numbers()))
    return {f"{family.name}_total": _fact(family) for family in loops.collect()}


def _fact(family: Metric) -> Fact:
    return Fact(family.type, frozenset(family._labelnames))


def series(facts: dict[str, Fact]) -> dict[str, frozenset[str]]:
    """Return every name that an expression may ask for, and its labels."""
    found: dict[str, frozenset[str]] = {}
    for name, fact in facts.items():
        if fact.type == "histogram":
            found |= {f"{name}_bucket": fact.labels | {"le"}, f"{name}_sum": fact.labels, f"{name}_count": fact.labels}
        else:
            found[name] = fact.labels
    return found
