"""How evenly grants fell on labels, from the order in which they were made. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence


def worst_window(order: Sequence[str], labels: Sequence[str]) -> int:
    """Return the furthest any label is from one grant, over every stretch of as many grants as there are labels."""
    size = len(labels)
    counts, worst = Counter(order[:size]), 0
    for end in range(size, len(order) + 1):
        worst = max(worst, *(abs(counts[label] - 1) for label in labels))
        if end < len(order):
            counts[order[end]] += 1
            counts[order[end - size]] -= 1
    return worst


def jain(grants: Iterable[int]) -> float:
    """Jain's index of fairness: 1 when all have as many, 1/n when one of n has everything."""
    found = list(grants)
    return sum(found) ** 2 / (len(found) * sum(each * each for each in found))


class Overtaking:
    """Watches labels wait and be served: `most` is what any of them got while another waited for its next grant."""

    def __init__(self) -> None:
        self.most = 0
        self._waiting: Counter[str] = Counter()
        self._passed: dict[str, Counter[str]] = {}

    def enters(self, label: str) -> None:
        """Note that a waiter for a label came."""
        if not self._waiting[label]:
            self._passed[label] = Counter()
        self._waiting[label] += 1

    def served(self, label: str) -> None:
        """Note that a waiter for a label was granted a slot."""
        for other, waiting in self._waiting.items():
            if waiting and other != label:
                self._passed[other][label] += 1
                self.most = max(self.most, self._passed[other][label])
        self._waiting[label] -= 1
        self._passed[label] = Counter()
