"""Prometheus metrics of the loops of this process, in its default registry."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import REGISTRY, Metric
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from hub.recovery.loop.counts import Counts

_SESSIONS = ("sessions", "refusals")


class Loops(Collector):
    """A Prometheus collector of the counters of all loops of this process, by source, ended loops included."""

    def __init__(self) -> None:
        self._running: list[tuple[str, Counts, dict[str, int]]] = []  # source, counters, their values at the start
        self._ended: dict[str, Counter[str]] = {}
        self._registered = False

    @contextmanager
    def shown(self, source: str, counts: Counts) -> Iterator[None]:
        """Include the counters of a loop in the metrics while the block runs, and keep their last values after it."""
        if not self._registered:
            REGISTRY.register(self)
            self._registered = True
        loop = (source, counts, counts.numbers())
        self._running.append(loop)
        try:
            yield
        finally:
            self._running = [other for other in self._running if other is not loop]
            self._ended[source] = self._ended.get(source, Counter()) + _since(counts, loop[2])

    def collect(self) -> Iterator[Metric]:
        """Yield two metrics by source: records by outcome, and sessions given and refused."""
        totals = {source: Counter(numbers) for source, numbers in self._ended.items()}
        for source, counts, before in self._running:
            totals[source] = totals.get(source, Counter()) + _since(counts, before)
        records = CounterMetricFamily(
            "record_loop_records", "Records of a source, by what became of them.", labels=["source", "outcome"]
        )
        sessions = CounterMetricFamily(
            "record_loop_sessions",
            "Sessions that were asked for, and how many were given out.",
            labels=["source", "outcome"],
        )
        for source, numbers in totals.items():
            for name in Counts().numbers():
                if name not in _SESSIONS:
                    records.add_metric([source, name], numbers[name])
            sessions.add_metric([source, "refused"], numbers["refusals"])
            sessions.add_metric([source, "given"], numbers["sessions"] - numbers["refusals"])
        yield records
        yield sessions


def _since(counts: Counts, before: dict[str, int]) -> Counter[str]:
    return Counter({name: value - before[name] for name, value in counts.numbers().items()})


shown = Loops().shown  # of this process
