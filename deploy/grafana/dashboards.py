"""The dashboards of Grafana. Change them here; `python deploy/grafana/dashboards.py` writes them beside this file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
WIDTH = 24
GREEN, YELLOW, RED, BLUE = "green", "orange", "red", "blue"
RATE = "$__rate_interval"  # at least four scrape intervals; Grafana fills it in


@dataclass(frozen=True)
class Panel:
    """A panel: the expressions by their legend, and how they are shown."""

    title: str
    queries: dict[str, str]
    says: str
    unit: str = "short"
    kind: str = "timeseries"
    width: int = 8
    limits: Sequence[tuple[float | None, str]] = ((None, BLUE),)  # (value, colour): the colour from this value on
    words: dict[str, str] = field(default_factory=dict)  # value -> the text that is shown in its place
    stacked: bool = False

    @property
    def height(self) -> int:
        return 4 if self.kind == "stat" else 8


def stat(title: str, query: str, says: str, **more: Any) -> Panel:
    """Return a panel that shows one number."""
    return Panel(title, {"": query}, says, kind="stat", width=4, **more)


def quantiles(metric: str, by: str = "", matching: str = "") -> dict[str, str]:
    """Return queries for the median and the 99th percentile of a histogram."""
    names, legend = f"{by + ', ' if by else ''}le", f" {{{{{by}}}}}" if by else ""
    return {
        f"p{share}{legend}": f"histogram_quantile(0.{share}, sum by ({names}) "
        f"(rate({metric}_bucket{matching}[{RATE}])))"
        for share in (50, 99)
    }


def rate(metric: str, by: str) -> dict[str, str]:
    """Return a query for the rate per second, by a label."""
    return {f"{{{{{by}}}}}": f"sum by ({by}) (rate({metric}[{RATE}]))"}


BAD_ABOVE_0 = ((None, GREEN), (1, RED))
WARN_ABOVE_0 = ((None, GREEN), (1, YELLOW))
NONE_IS_BAD = ((None, RED), (1, GREEN))
LOW_IS_BAD = ((None, YELLOW), (1, GREEN))

OPERATORS: dict[str, list[Panel]] = {
    "Is all well?": [
        stat("Hubs up", 'sum(up{job="hub"})', "Hubs that answer Prometheus.", limits=NONE_IS_BAD),
        stat(
            "Store", "min(hub_store_up)", "Whether every hub reaches Redis.", limits=NONE_IS_BAD,
            words={"1": "up", "0": "away"},
        ),
        stat("Nodes", "max(hub_nodes_registered)", "Registered nodes.", limits=NONE_IS_BAD),
        stat(
            "Brake", "max(hub_sweeper_brake_engaged)", "Whether too many nodes are silent at once.", limits=BAD_ABOVE_0,
            words={"1": "engaged", "0": "off"},
        ),
        stat(
            "Alerts", 'count(ALERTS{alertname=~"Hub.*", alertstate="firing"}) or vector(0)', "Alerts that fire now.",
            limits=WARN_ABOVE_0,
        ),
        stat(
            "Errors, 1 h", "sum(increase(hub_unhandled_errors_total[1h]))", "Requests that ended in a 500, and work "
            "given up on an error.", limits=BAD_ABOVE_0,
        ),
        stat("Lent", "max(hub_sessions)", "Live leases."),
        stat("Free", "sum(max by (label) (hub_pool_available_total))", "Free slots.", limits=LOW_IS_BAD),
        stat("Waiting", "sum(max by (label) (hub_borrow_queue_length)) or vector(0)", "Borrowers in the queue."),
        stat("Workers", "max(hub_workers_registered)", "Workers of jobs."),
        stat("Dead letters", "max(hub_dead_letters)", "Tasks that failed for the last time.", limits=WARN_ABOVE_0),
        stat(
            "Stuck records", "sum(max by (source) (hub_zombie_records)) or vector(0)", "What the last passes found.",
            limits=WARN_ABOVE_0,
        ),
    ],
    "Lending": [
        Panel("Borrows by outcome", rate("hub_borrow_outcomes_total", "outcome"), "A second.", "ops", stacked=True),
        Panel("Time to borrow", quantiles("hub_borrow_latency_seconds"), "Waiting in the queue included.", "s"),
        Panel("Queue", {"{{label}}": "max by (label) (hub_borrow_queue_length)"}, "Who waits, by label."),
        Panel("Free slots", {"{{label}}": "max by (label) (hub_pool_available_total)"}, "By pool."),
        Panel("Leases that a sweep ended", rate("hub_leases_ended_total", "why"), "Why they were not returned.", "ops"),
        Panel(
            "Renewals and returns",
            {
                "renewal {{outcome}}": f"sum by (outcome) (rate(hub_renewals_total[{RATE}]))",
                "return {{outcome}}": f"sum by (outcome) (rate(hub_returns_total[{RATE}]))",
            },
            "Other outcomes than success: holders that are late.", "ops",
        ),
    ],
    "Nodes": [
        Panel(
            "Nodes",
            {
                "registered": "max(hub_nodes_registered)",
                "expired in 5 min": "sum(increase(hub_nodes_expired_total[5m]))",
                "kept in 5 min": "sum(increase(hub_nodes_refreshed_total[5m]))",
            },
            "Kept: silent, while expiry is off.",
        ),
        Panel("Heartbeats", rate("hub_heartbeats_total", "known"), "known=false: told to register.", "ops"),
        Panel(
            "Slots held back", {"unwell": "max(hub_slots_unwell)", "not fresh": "max(hub_slots_not_fresh)"},
            "Not lent: unwell, or not made fresh in time after a lease.",
        ),
        Panel(
            "Passes of sweepers", quantiles("hub_sweep_seconds", "service", '{service!="record"}'), "How long.", "s"
        ),
    ],
    "Jobs": [
        Panel("Pending tasks", {"{{job_name}}": "max by (job_name) (hub_tasks_pending)"}, "That can be claimed."),
        Panel(
            "Age of the oldest", {"{{job_name}}": "max by (job_name) (hub_tasks_oldest_pending_seconds)"},
            "Of the task that is claimed next.", "s",
        ),
        Panel("Ends of tasks", rate("hub_tasks_ended_total", "status"), "A second.", "ops", stacked=True),
        Panel(
            "Tasks that failed",
            {
                "{{job_name}}": f'sum by (job_name) (rate(hub_tasks_ended_total{{status="failed"}}[{RATE}])) '
                f"/ sum by (job_name) (rate(hub_tasks_ended_total[{RATE}]))"
            },
            "The share of those that ended.", "percentunit",
        ),
        Panel("How long tasks run", quantiles("hub_task_run_seconds", "job_name"), "From start to end.", "s"),
        Panel("Workers removed", rate("hub_workers_removed_total", "why"), "Silent, or hung up.", "ops"),
    ],
    "Stuck records": [
        Panel("Stuck", {"{{source}}": "max by (source) (hub_zombie_records)"}, "What the last pass found."),
        Panel("Passes", rate("hub_zombie_passes_total", "result"), "By what came of them.", "ops"),
        Panel(
            "Brought back and failed, a day",
            {"{{source}} {{outcome}}": "sum by (source, outcome) (increase(hub_zombies_reset_total[1d]))"},
            "Records whose worker was lost.",
        ),
        Panel(
            "Sessions refused",
            {
                "{{source}}": f'sum by (source) (rate(record_loop_sessions_total{{outcome="refused"}}[{RATE}])) '
                f"/ sum by (source) (rate(record_loop_sessions_total[{RATE}]))"
            },
            "The share of those that processing loops asked for; scrape their workers as well.", "percentunit",
        ),
    ],
    "HTTP and Redis": [
        Panel("Requests", rate("hub_http_requests_total", "code"), "By code.", "reqps", stacked=True),
        Panel(
            "Slowest routes",
            {
                "{{route}}": "topk(8, histogram_quantile(0.99, sum by (route, le) "
                f"(rate(hub_http_request_seconds_bucket{{route!=\"/socket.io/\"}}[{RATE}]))))"
            },
            "The 99th of a hundred, waiting included; without polls of sockets.", "s",
        ),
        Panel("Batches to Redis", quantiles("hub_redis_seconds"), "How long they take to come back.", "s"),
        Panel(
            "Redis in scripts", {"share of its core": f"max(rate(hub_redis_script_seconds[{RATE}]))"},
            "It has one core for them.", "percentunit", limits=((None, GREEN), (0.5, YELLOW), (0.7, RED)),
        ),
        Panel(
            "Refusals",
            {
                "wrong secrets": f"sum(rate(hub_wrong_secrets_total[{RATE}]))",
                "{{action}} {{reason}}": f"sum by (action, reason) (rate(hub_refusals_total[{RATE}]))",
            },
            "Who is kept out.", "ops",
        ),
        Panel("Streams of events", {"open": "sum(hub_event_streams)"}, "Consoles, `hub events`, programs."),
    ],
}  # fmt: skip

CAPACITY: dict[str, list[Panel]] = {
    "Slots: enough of them?": [
        Panel(
            "Utilisation", {"{{label}}": "max by (label) (hub_pool_utilization_ratio)"},
            "Lent of what can be lent, by pool. Long above 0.8: borrowers wait; below 0.2: idle.", "percentunit",
            width=12, limits=((None, GREEN), (0.8, YELLOW), (0.95, RED)),
        ),
        Panel(
            "Least free in a day", {"{{label}}": "min_over_time(max by (label) (hub_pool_available_total)[1d:5m])"},
            "What could be taken away, or is missing.", width=12,
        ),
        Panel("Demand", rate("hub_borrow_requests_total", "label"), "Requests to borrow a second, by label.", "reqps"),
        Panel(
            "Refused",
            {
                "{{label}}": f'sum by (label) (rate(hub_borrow_outcomes_total{{outcome!="success"}}[{RATE}])) '
                f"/ sum by (label) (rate(hub_borrow_outcomes_total[{RATE}]))"
            },
            "The share of borrows that ended without a slot.", "percentunit",
        ),
        Panel("Time to borrow", quantiles("hub_borrow_latency_seconds", "label"), "By label.", "s"),
        Panel(
            "Lent, and where it leads",
            {
                "lent": "max(hub_sessions)", "most in a day": "max_over_time(max(hub_sessions)[1d:5m])",
                "in a week": "predict_linear(max(hub_sessions)[1d:5m], 604800)",
            },
            "The last day drawn on for a week.", width=12,
        ),
        Panel(
            "Nodes against slots",
            {
                "nodes": "max(hub_nodes_registered)",
                "slots a node": "(max(hub_sessions) + sum(max by (label) (hub_pool_available_total))) "
                "/ max(hub_nodes_registered)",
            },
            "How much a node carries.", width=12,
        ),
    ],
    "Workers: enough of them?": [
        Panel(
            "Workers that are busy",
            {"{{job_name}}": "sum by (job_name) (rate(hub_task_run_seconds_sum[15m]))"},
            "Seconds of work in a second: as many workers as that are busy all the time.",
        ),
        Panel(
            "Time until a task starts",
            {
                "p95 {{job_name}}": "histogram_quantile(0.95, sum by (job_name, le) "
                "(rate(hub_task_wait_seconds_bucket[15m])))"
            },
            "More workers shorten it.", "s",
        ),
        Panel(
            "Claims with nothing", {"share": f'sum(rate(hub_claims_total{{outcome="none"}}[{RATE}])) '
            f"/ sum(rate(hub_claims_total[{RATE}]))"},
            "Near 1: more workers than work.", "percentunit",
        ),
        Panel(
            "In and out",
            {
                "submitted": f"sum(rate(hub_tasks_submitted_total[{RATE}]))",
                "ended": f"sum(rate(hub_tasks_ended_total[{RATE}]))",
            },
            "While the first is above the second the backlog grows.", "ops",
        ),
        Panel("Backlog", {"{{job_name}}": "max by (job_name) (hub_tasks_pending)"}, "Tasks that can be claimed."),
        Panel(
            "Put off, held", {"put off": "max(hub_tasks_put_off)", "held": "max(hub_tasks_held)"},
            "Not due yet, retries included; and in the hands of workers.",
        ),
    ],
    "Hubs and Redis: how much is left?": [
        Panel(
            "Redis in scripts", {"share of its core": f"max(rate(hub_redis_script_seconds[{RATE}]))"},
            "Above 0.7 it is full.", "percentunit", limits=((None, GREEN), (0.5, YELLOW), (0.7, RED)),
        ),
        Panel(
            "A script costs", {"on average": f"max(rate(hub_redis_script_seconds[{RATE}])) "
            f"/ max(rate(hub_redis_script_calls[{RATE}]))"},
            "Of the time of Redis.", "s",
        ),
        Panel(
            "Commands a batch", {"{{instance}}": f"rate(hub_redis_commands_total[{RATE}]) "
            f"/ rate(hub_redis_round_trips_total[{RATE}])"},
            "The busier, the more travel together.",
        ),
        Panel("Requests", rate("hub_http_requests_total", "route"), "By route.", "reqps"),
        Panel("Requests of each hub", rate("hub_http_requests_total", "instance"), "How evenly spread.", "reqps"),
        Panel(
            "CPU of each hub", {"{{instance}}": f'rate(process_cpu_seconds_total{{job="hub"}}[{RATE}])'},
            "A process has one core; HUB_WORKERS starts more. Shown where a hub is one process.", "percentunit",
        ),
    ],
}  # fmt: skip

DASHBOARDS = {
    "operators": ("capacity-hub: operators", "Whether all is well, and where to look when it is not.", OPERATORS),
    "capacity": ("capacity-hub: capacity", "Whether there are enough slots, workers and hubs.", CAPACITY),
}


def dashboard(name: str) -> dict[str, Any]:
    """Return a dashboard as Grafana reads it."""
    title, says, rows = DASHBOARDS[name]
    return {
        "uid": f"capacity-hub-{name}",
        "title": title,
        "description": says,
        "tags": ["capacity-hub"],
        "schemaVersion": 39,
        "version": 1,
        "editable": False,
        "refresh": "30s",
        "time": {"from": "now-3h" if name == "operators" else "now-7d", "to": "now"},
        "timezone": "browser",
        "templating": {
            "list": [{"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Prometheus"}]
        },
        "panels": list(_panels(rows)),
    }


def _panels(rows: dict[str, list[Panel]]) -> Iterator[dict[str, Any]]:
    number = y = 0
    for title, panels in rows.items():
        number += 1
        yield {"id": number, "type": "row", "title": title, "collapsed": False, "gridPos": _place(0, y, WIDTH, 1)}
        x, y = 0, y + 1
        for panel in panels:
            if x + panel.width > WIDTH:
                x, y = 0, y + panel.height
            number += 1
            yield _panel(panel, number) | {"gridPos": _place(x, y, panel.width, panel.height)}
            x += panel.width
        y += panels[-1].height


def _place(x: int, y: int, width: int, height: int) -> dict[str, int]:
    return {"x": x, "y": y, "w": width, "h": height}


def _panel(panel: Panel, number: int) -> dict[str, Any]:
    words = {value: {"text": text} for value, text in panel.words.items()}
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.says,
        "datasource": SOURCE,
        "targets": [
            {"refId": chr(ord("A") + place), "datasource": SOURCE, "expr": query, "legendFormat": legend or panel.title}
            for place, (legend, query) in enumerate(panel.queries.items())
        ],
        "fieldConfig": {
            "defaults": {
                "unit": panel.unit,
                "min": 0,
                "thresholds": {
                    "mode": "absolute", "steps": [{"value": value, "color": color} for value, color in panel.limits],
                },
                "mappings": [{"type": "value", "options": words}] if words else [],
            } | _look(panel),
            "overrides": [],
        },
        "options": _options(panel),
    }  # fmt: skip


def _look(panel: Panel) -> dict[str, Any]:
    if panel.kind == "stat":
        return {"color": {"mode": "thresholds"}}
    lines = {"fillOpacity": 10, "lineWidth": 1, "showPoints": "never"}
    stacking = {"mode": "normal" if panel.stacked else "none", "group": "A"}
    shown = "line" if len(panel.limits) > 1 else "off"
    return {"custom": {**lines, "stacking": stacking, "thresholdsStyle": {"mode": shown}}}


def _options(panel: Panel) -> dict[str, Any]:
    if panel.kind == "stat":
        return {"reduceOptions": {"calcs": ["lastNotNull"]}, "graphMode": "none", "colorMode": "background"}
    return {
        "tooltip": {"mode": "multi", "sort": "desc"},
        "legend": {"displayMode": "table", "calcs": ["lastNotNull", "max"]},
    }


def text(name: str) -> str:
    """Return the file of a dashboard."""
    return json.dumps(dashboard(name), indent=2) + "\n"


def main() -> None:
    """Write all dashboards."""
    for name in DASHBOARDS:
        (FOLDER / f"{name}.json").write_text(text(name))


if __name__ == "__main__":
    main()
