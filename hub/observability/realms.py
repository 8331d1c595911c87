"""The realm of the current work, which log lines name and by which metrics count.

In a hub without realms this costs nothing: until `split` is entered, the metrics are those of the list, unchanged.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric
from prometheus_client.registry import Collector

from hub.observability import metrics
from hub.settings.realms import DEFAULT

LABEL: Final = "realm"
_named: Final = CollectorRegistry()  # the metrics of realms with a name


@contextmanager
def within(name: str) -> Iterator[None]:
    """Set the current realm for the block, and for the asyncio tasks that begin in it."""
    before = metrics.realm.set(name)
    try:
        with structlog.contextvars.bound_contextvars(realm=name or DEFAULT):
            yield
    finally:
        metrics.realm.reset(before)


class MetricByRealm:
    """A metric with a twin that has one more label, the realm. The metric counts for the default realm alone, the twin
    for the realms with a name."""

    def __init__(self, plain: Any) -> None:
        self.plain = plain
        options: dict[str, Any] = {}
        if isinstance(plain, Gauge):
            options["multiprocess_mode"] = plain._multiprocess_mode
        elif isinstance(plain, Histogram):
            options["buckets"] = plain._kwargs["buckets"]
        names = (*plain._labelnames, LABEL)
        self.twin = type(plain)(plain._name, plain._documentation, names, registry=_named, **options)

    def labels(self, *values: str) -> Any:
        """Return the metric of these label values in the current realm, ready to count."""
        name = metrics.realm.get()
        return self.twin.labels(*values, name) if name else self.plain.labels(*values)

    def __getattr__(self, method: str) -> Any:
        name = metrics.realm.get()
        return getattr(self.twin.labels(name) if name else self.plain, method)


_split: Final[dict[str, MetricByRealm]] = {}  # kept for later calls: a registry accepts a metric only once


@contextmanager
def split() -> Iterator[None]:
    """Let metrics count by realm while the block runs. What they counted before belongs to the default realm."""
    for name, found in list(vars(metrics).items()):
        if isinstance(found, Counter | Gauge | Histogram) and LABEL not in found._labelnames:
            if name not in _split:
                _split[name] = MetricByRealm(found)
            setattr(metrics, name, _split[name])
    try:
        yield
    finally:
        for name, found in _split.items():
            setattr(metrics, name, found.plain)


def forget(name: str) -> None:
    """Remove a realm from all metrics, because it is no longer served."""
    for found in vars(metrics).values():
        if isinstance(found, metrics.ByRealm):
            found.of.pop(name, None)
    if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
        return  # with several processes the counts are in files, and stay there until the processes end
    metrics.realm_read_at.remove_by_labels({LABEL: name})
    metrics.forget_borrows(name)
    for each in _split.values():
        each.twin.remove_by_labels({LABEL: name})


class AllRealms(Collector):
    """A collector of all metrics of a registry, to which it adds the samples of realms with a name."""

    def __init__(self, plain: Collector) -> None:
        self._plain = plain

    def collect(self) -> Iterator[Metric]:
        """Yield each metric once, with the samples of all realms."""
        more = {family.name: family.samples for family in _named.collect()}
        for family in self._plain.collect():
            family.samples.extend(more.get(family.name, ()))
            yield family
