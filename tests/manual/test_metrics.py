"""The page that lists all metrics, against the code and against what a living hub shows: in each direction."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx

from tests.manual.pages import MANUAL, rows
from tests.observability.facts import Fact, of_hub, of_loops
from tests.world import PATIENCE_S, HubProcess

TEXT = (MANUAL / "metrics.md").read_text()
ALERTS = (MANUAL.parent.parent / "deploy" / "alerts.yml").read_text()


def listed() -> Iterator[tuple[str, Fact]]:
    for name, kind, labels, *_ in (cells for cells in rows(TEXT) if re.fullmatch(r"`\w+`", cells[0])):
        yield name.strip("`"), Fact(kind, frozenset(filter(None, labels.split(", "))))


def test_the_metrics_page_lists_exactly_the_existing_metrics_with_type_and_labels():
    assert dict(listed()) == of_hub() | of_loops()


def test_every_metric_is_listed_once_with_an_explanation():
    names = [name for name, _ in listed()]
    assert len(names) == len(set(names))
    for name, _, _, says, when in (cells for cells in rows(TEXT) if cells[0].strip("`") in names):
        assert says.endswith("."), name
        assert len(when) > 3, name


def test_a_running_hub_exposes_exactly_the_listed_metrics(live_hub: HubProcess):
    text = httpx.get(f"{live_hub.url}/metrics", timeout=PATIENCE_S).text
    shown = dict(re.findall(r"(?m)^# TYPE ((?:hub|record)_\w+) (\w+)$", text))
    shown = {name: kind for name, kind in shown.items() if not name.endswith("_created")}
    assert shown == {name: fact.type for name, fact in listed() if name in of_hub()}


def test_the_alerts_named_by_the_metrics_page_exist():
    assert set(re.findall(r"`(Hub[A-Z]\w+)`", TEXT)) - set(re.findall(r"alert: (\w+)", ALERTS)) == set()


def test_no_metric_has_a_label_that_prometheus_adds_itself():
    assert [name for name, fact in of_hub().items() if fact.labels & {"job", "instance"}] == []
