"""The dashboards and alerts of `deploy/` against their generator, Prometheus, and the metrics that there are."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml
from grafana_foundation_sdk.cog import plugins
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

from tests.observability.facts import of_hub, of_loops, series

plugins.register_default_plugins()  # so that it knows the kinds of panels
DEPLOY = Path(__file__).parent.parent / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
ALERTS = yaml.safe_load((DEPLOY / "alerts.yml").read_text())
# What Prometheus itself adds, and its client for every process.
OF_PROMETHEUS = {
    "up": {"job", "instance"}, "ALERTS": {"alertname", "alertstate"}, "process_cpu_seconds_total": {"job", "instance"},
}  # fmt: skip
SCRAPED = {"job", "instance"}
_GROUPED = re.compile(r"\b(?:by|without|on|ignoring)\s*\(([^)]*)\)")
_SELECTED = re.compile(r"([a-zA-Z_]\w*)\s*(?:\{([^}]*)\})?(?!\w|\s*\()")
_WORDS = {"by", "or", "and", "on", "without", "ignoring", "unless", "le"}

_spec = importlib.util.spec_from_file_location("dashboards", DEPLOY / "grafana" / "dashboards.py")
assert _spec
assert _spec.loader
dashboards: Any = importlib.util.module_from_spec(_spec)
sys.modules[_spec.name] = dashboards  # where its dataclasses look for it
_spec.loader.exec_module(dashboards)


@pytest.fixture(scope="module")
def promtool() -> str:
    return tool("promtool", "prometheus")


@pytest.fixture(scope="module")
def amtool() -> str:
    return tool("amtool", "prometheus-alertmanager")


def tool(name: str, package: str) -> str:
    """Where a tool is; without it nothing can be told, which is a failure where everything is decided."""
    found = shutil.which(name)
    if found is None:
        none = f"There is no {name}: install the package {package} (make servers does)."
        if os.environ.get("CI"):
            pytest.fail(none)
        pytest.skip(none)
    return found


def lost(given: Any, understood: Any, where: str = "") -> Iterator[str]:
    """Where what was understood lacks what was given, or has something else there; defaults may be added."""
    if isinstance(given, dict) and isinstance(understood, dict):
        for name, value in given.items():
            yield from lost(value, understood.get(name, "nothing"), f"{where}.{name}")
    elif isinstance(given, list) and isinstance(understood, list) and len(given) == len(understood):
        for number, (one, other) in enumerate(zip(given, understood, strict=True)):
            yield from lost(one, other, f"{where}[{number}]")
    elif given != understood:
        yield f"{where}: {given!r} is understood as {understood!r}"


def expressions() -> Iterator[tuple[str, str]]:
    """Where an expression stands, and how it is."""
    for name in dashboards.DASHBOARDS:
        for panel in dashboards.dashboard(name)["panels"]:
            for target in panel.get("targets", ()):
                yield f"{name}: {panel['title']}", target["expr"].replace("$__rate_interval", "5m")
    for group in ALERTS["groups"]:
        for rule in group["rules"]:
            yield f"alerts: {rule['alert']}", rule["expr"]


def known() -> dict[str, set[str]]:
    """Return every series, and the labels it has."""
    ours = {name: set(labels) | SCRAPED for name, labels in series(of_hub() | of_loops()).items()}
    return ours | OF_PROMETHEUS


def asked(expression: str) -> tuple[dict[str, set[str]], set[str]]:
    """Return the series an expression asks for with the labels it matches, and the labels by which it groups."""
    grouped = {label.strip() for labels in _GROUPED.findall(expression) for label in labels.split(",") if label.strip()}
    rest = re.sub(r"\[[^\]]*\]", "", _GROUPED.sub("", expression))
    found: dict[str, set[str]] = {}
    for name, matchers in _SELECTED.findall(rest):
        if name not in _WORDS:
            found.setdefault(name, set()).update(re.findall(r"(\w+)\s*[!=]~?=?\s*\"", matchers))
    return found, grouped


def unknown(expression: str) -> list[str]:
    """Return the metrics and labels of an expression that do not exist."""
    metrics, grouped = asked(expression)
    all_known = known()
    wrong = [name for name in metrics if name not in all_known]
    wrong += [f"{name}{{{label}}}" for name, of in metrics.items() for label in of - all_known.get(name, of)]
    shown = set().union(*(all_known.get(name, set()) for name in metrics))
    return wrong + sorted(f"by ({label})" for label in grouped - shown)


@pytest.mark.parametrize("name", sorted(dashboards.DASHBOARDS))
def test_the_committed_dashboards_match_the_generator(name):
    assert (DEPLOY / "grafana" / f"{name}.json").read_text() == dashboards.text(name)


@pytest.mark.parametrize("name", dashboards.DASHBOARDS)
def test_grafana_knows_every_member_of_a_dashboard(name):
    """By the schema of the version that compose starts: what it does not know is lost, or refused."""
    given = dashboards.dashboard(name)
    understood = json.loads(JSONEncoder().encode(Dashboard.from_json(given)))
    assert list(lost(given, understood)) == []
    del understood["panels"][1]["gridPos"]["w"]
    assert [where.partition(":")[0] for where in lost(given, understood)] == [".panels[1].gridPos.w"]
    (image,) = (each["image"] for each in COMPOSE["services"].values() if each.get("image", "").startswith("grafana/"))
    assert image.rpartition(":")[2].startswith(version("grafana-foundation-sdk").partition("!")[2].rpartition(".")[0])


def test_dashboards_use_existing_metrics_and_labels():
    assert {where: wrong for where, expression in expressions() if (wrong := unknown(expression))} == {}


def test_the_check_finds_metrics_and_labels_that_do_not_exist():
    assert unknown("sum by (nodes) (rate(hub_heartbeats_total[5m]))") == ["by (nodes)"]
    assert unknown('max(hub_heartbeat_total{known="true"})') == ["hub_heartbeat_total"]
    assert unknown('hub_heartbeats_total{state="x"} > 0') == ["hub_heartbeats_total{state}"]
    assert unknown("hub_sweep_seconds") == ["hub_sweep_seconds"]


def test_a_legend_uses_only_labels_of_its_expression():
    wrong = []
    for name in dashboards.DASHBOARDS:
        for panel in dashboards.dashboard(name)["panels"]:
            for target in panel.get("targets", ()):
                _, grouped = asked(target["expr"])
                shown = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
                if not shown <= (grouped or SCRAPED):
                    wrong.append(f"{name}: {panel['title']}: {shown - grouped}")
    assert wrong == []


def test_prometheus_can_parse_every_expression(promtool, tmp_path):
    rules = [{"record": f"test:number_{n}", "expr": expression} for n, (_, expression) in enumerate(expressions())]
    path = tmp_path / "rules.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "all", "rules": rules}]}))
    done = subprocess.run([promtool, "check", "rules", path], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, f"{len(rules)} rules found" in done.stdout) == (0, True), done.stderr


def test_prometheus_accepts_its_configuration_and_the_alerts(promtool):
    done = subprocess.run(
        [promtool, "check", "config", DEPLOY / "prometheus.yml"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr


def fires(name: str, at: str, labels: dict[str, str], summary: str, level: str = "warning") -> dict[str, Any]:
    """Return the expectation that an alert fires at a time, in the form of promtool."""
    runbook = f"http://127.0.0.1:8080/#/manual/alerts?at={name.lower()}"
    told = {
        "exp_labels": {"severity": level, **labels}, "exp_annotations": {"summary": summary, "runbook_url": runbook},
    }  # fmt: skip
    return {"eval_time": at, "alertname": name, "exp_alerts": [told]}


def silent(name: str, at: str) -> dict[str, Any]:
    return {"eval_time": at, "alertname": name, "exp_alerts": []}


def test_alerts_about_tasks_fire_when_they_should_and_not_before(promtool, tmp_path):
    waits = 'hub_tasks_oldest_pending_seconds{job="hub",instance="%s",job_name="r:analysis:%s"}'
    cases = {
        "interval": "1m",
        "input_series": [
            # Slow waits from the start on; Fine is claimed each time it is ten minutes old.
            {"series": waits % ("a", "Slow"), "values": "0+60x40"},
            {"series": waits % ("b", "Slow"), "values": "0+60x40"},
            {"series": waits % ("a", "Fine"), "values": "0+60x11 0+60x11 0+60x11"},
            {"series": 'hub_dead_letters{job="hub",instance="a"}', "values": "5x20 9x160"},
        ],
        "alert_rule_test": [
            silent("HubTasksWaiting", "14m"),
            fires(
                "HubTasksWaiting", "17m", {"job_name": "r:analysis:Slow"},
                "A task of r:analysis:Slow has waited for 17m 0s.",
            ),
            silent("HubDeadLetters", "20m"),
            fires(
                "HubDeadLetters", "25m", {},
                "Tasks failed for good: there are 9 dead letters, more than an hour ago.",
            ),
            silent("HubDeadLetters", "90m"),
        ],
    }  # fmt: skip
    play(promtool, tmp_path, cases)


def test_alerts_about_records_fire_when_they_should_and_not_before(promtool, tmp_path):
    passed = 'hub_zombie_pass_timestamp_seconds{job="hub",instance="%s",source="%s"}'
    sessions = 'record_loop_sessions_total{job="workers",instance="%s",source="%s",outcome="%s"}'
    cases = {
        "interval": "1m",
        "input_series": [
            # The last pass over orders was made after ten minutes, and one hub has not heard of it; mails are cleaned.
            {"series": passed % ("a", "orders"), "values": "0+60x10 600x190"},
            {"series": passed % ("b", "orders"), "values": "0x200"},
            {"series": passed % ("a", "mails"), "values": "0+60x200"},
            # Of 101 sessions of mails one is refused; of 200 of orders three are, by two workers, for an hour.
            {"series": sessions % ("w1", "mails", "given"), "values": "0+100x200"},
            {"series": sessions % ("w1", "mails", "refused"), "values": "0+1x200"},
            {"series": sessions % ("w1", "orders", "given"), "values": "0+98x200"},
            {"series": sessions % ("w1", "orders", "refused"), "values": "0+2x60 120x140"},
            {"series": sessions % ("w2", "orders", "given"), "values": "0+99x200"},
            {"series": sessions % ("w2", "orders", "refused"), "values": "0+1x60 60x140"},
        ],
        "alert_rule_test": [
            silent("HubZombiesNotCleaned", "70m"),
            fires(
                "HubZombiesNotCleaned", "71m", {"source": "orders"},
                "For 1h 1m 0s no pass could look for stuck records of orders.", "critical",
            ),
            silent("HubRecordSessionsRefused", "5m"),
            fires(
                "HubRecordSessionsRefused", "12m", {"source": "orders"},
                "More than one in a hundred sessions for records of orders are refused.",
            ),
            silent("HubRecordSessionsRefused", "70m"),
        ],
    }  # fmt: skip
    play(promtool, tmp_path, cases)


def play(promtool: str, folder: Path, cases: dict[str, Any]) -> None:
    path = folder / "test.yml"
    path.write_text(yaml.safe_dump({"rule_files": [str(DEPLOY / "alerts.yml")], "tests": [cases]}))
    done = subprocess.run([promtool, "test", "rules", path], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_compose_mounts_the_dashboards_where_grafana_reads_them():
    service = COMPOSE["services"]["grafana"]
    mounted = dict(each.removesuffix(":ro").split(":") for each in service["volumes"])
    there = DEPLOY / "grafana" / "provisioning"
    (provider,) = yaml.safe_load((there / "dashboards" / "hub.yml").read_text())["providers"]
    (source,) = yaml.safe_load((there / "datasources" / "prometheus.yml").read_text())["datasources"]
    assert mounted["./grafana/provisioning"] == "/etc/grafana/provisioning"
    shown = {Path(inside).name: outside for outside, inside in mounted.items() if outside.endswith(".json")}
    assert shown == {f"{name}.json": f"./grafana/{name}.json" for name in dashboards.DASHBOARDS}
    assert {str(Path(mounted[outside]).parent) for outside in shown.values()} == {provider["options"]["path"]}
    assert service["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"] in mounted.values()
    assert set(service["networks"]) & set(COMPOSE["services"]["prometheus"]["networks"])
    assert source["url"] == "http://prometheus:9090"
    assert service["ports"] == ["127.0.0.1:3000:3000"]


def test_prometheus_sends_to_the_example_alertmanager_whose_routes_have_receivers():
    sent = yaml.safe_load((DEPLOY / "prometheus.yml").read_text())["alerting"]["alertmanagers"]
    assert sent == [{"static_configs": [{"targets": ["alertmanager:9093"]}]}]
    service = COMPOSE["services"]["alertmanager"]
    assert service["profiles"] == ["alerts"]
    example = yaml.safe_load((DEPLOY / "alertmanager.yml").read_text())
    receivers = {each["name"] for each in example["receivers"]}
    routes = [example["route"], *example["route"]["routes"]]
    assert {route["receiver"] for route in routes} == receivers
    severities = {rule["labels"]["severity"] for group in ALERTS["groups"] for rule in group["rules"]}
    assert set(re.findall(r'severity="(\w+)"', str(routes))) < severities == {"critical", "warning"}
    named = {name for rule in example["inhibit_rules"] for name in re.findall(r"Hub\w+", str(rule))} - {"Hub"}
    assert named <= {rule["alert"] for group in ALERTS["groups"] for rule in group["rules"]}


@pytest.mark.parametrize(
    ("labels", "receiver"), [("severity=critical alertname=HubStoreDown", "on-call"), ("severity=warning", "team")]
)
def test_alertmanager_accepts_the_example_and_routes_each_alert(amtool, labels, receiver):
    def run(*words: str) -> str:
        done = subprocess.run([amtool, *words], capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout

    path = str(DEPLOY / "alertmanager.yml")
    assert "SUCCESS" in run("check-config", path)
    assert run("config", "routes", "test", f"--config.file={path}", *labels.split()).strip() == receiver


def test_dashboards_are_complete_json_for_grafana():
    for name in dashboards.DASHBOARDS:
        shown = json.loads((DEPLOY / "grafana" / f"{name}.json").read_text())
        ids = [panel["id"] for panel in shown["panels"]]
        assert len(ids) == len(set(ids))
        places = [
            (x, y)
            for panel in shown["panels"]
            for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
            for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
        ]
        assert len(places) == len(set(places)), "panels lie on each other"
        assert max(x for x, _ in places) < dashboards.WIDTH
