"""The realm of the current work: log lines name it, and metrics count it apart.

A hub without realms pays nothing for this: until `split` is called, metrics are those of the list and nothing else.
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
_named: Final = CollectorRegistry()  # what is counted in realms with a name


@contextmanager
def within(name: str) -> Iterator[None]:
    """Do the work of the block in a realm; tasks that begin in it belong to the realm as well."""
    before = metrics.realm.set(name)
    try:
        with structlog.contextvars.bound_contextvars(realm=name or DEFAULT):
            yield
    finally:
        metrics.realm.reset(before)


class MetricByRealm:
    """A metric that counts realms with a name apart, in a twin that has one label more."""

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
        """Return the child of the metric with these values of labels."""
        name = metrics.realm.get()
        return self.twin.labels(*values, name) if name else self.plain.labels(*values)

    def __getattr__(self, method: str) -> Any:
        name = metrics.realm.get()
        return getattr(self.twin.labels(name) if name else self.plain, method)


_split: Final[dict[str, MetricByRealm]] = {}  # made once: a registry takes no metric twice


@contextmanager
def split() -> Iterator[None]:
    """Count for each realm in this block. The existing values of a metric belong to the default realm."""
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
    """Show nothing of a realm any more."""
    for found in vars(metrics).values():
        if isinstance(found, metrics.ByRealm):
            found.of.pop(name, None)
    if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
        return  # what several processes have counted is in files, and stays there until they end
    metrics.realm_read_at.remove_by_labels({LABEL: name})
    metrics.forget_borrows(name)
    for each in _split.values():
        each.twin.remove_by_labels({LABEL: name})


class AllRealms(Collector):
    """The families of a registry, with those of realms with a name joined into them."""

    def __init__(self, plain: Collector) -> None:
        self._plain = plain

    def collect(self) -> Iterator[Metric]:
        """Yield each family once."""
        more = {family.name: family.samples for family in _named.collect()}
        for family in self._plain.collect():
            family.samples.extend(more.get(family.name, ()))
            yield family
