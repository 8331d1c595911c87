"""All metrics of the hub. A label that callers choose has at most 200 values; further values count as `other`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram, Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

LABELS_MAX = 200  # values that a label chosen by callers may have
_BORROW_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
TASK_BUCKETS = (0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600, 14_400, 86_400)
HTTP_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_FAST_BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1, 5)

registry: CollectorRegistry = REGISTRY
realm: ContextVar[str] = ContextVar("realm", default="")  # the realm of the current work; "" is the default realm


class Durations(Histogram):
    """A histogram to which counts per bucket can be added at once."""

    def add(self, buckets: Sequence[int], total_s: float) -> None:
        """Add a count to each bucket, the one above the last bound included, and `total_s` to the sum of the values."""
        for place, some in zip(self._buckets, buckets, strict=True):
            if some:
                place.inc(some)
        self._sum.inc(total_s)


class ByRealm(Collector):
    """A collector of numbers that are read from the store of each realm when Prometheus scrapes.

    It is no `Gauge`, because with several processes a gauge cannot forget a label: an ended queue would stay for ever.
    """

    def __init__(self) -> None:
        self.of: dict[str, Any] = {}  # realm -> the numbers read from its store
        registry.register(self)

    @property
    def numbers(self) -> Any:
        """Return the numbers last read for the current realm, by label."""
        return self.of.setdefault(realm.get(), {})

    @numbers.setter
    def numbers(self, numbers: Any) -> None:
        self.of[realm.get()] = numbers

    def family(self, name: str, what: str, label: str, rows: Iterable[tuple[str, str, float]]) -> Metric:
        """Return a gauge with a sample for each row (realm, value of the label, number)."""
        gauge = GaugeMetricFamily(name, what, labels=[label])
        for of, value, number in rows:
            gauge.add_sample(name, {label: value, "realm": of} if of else {label: value}, number)
        return gauge

    def rows(self) -> list[tuple[str, Any]]:
        """Return pairs of a realm and the numbers read for it."""
        return list(self.of.items())


class QueueLength(ByRealm):
    """A gauge of live waiters by label, as last read from the store."""

    def collect(self) -> Iterator[Metric]:
        """Yield the number of live waiters by label."""
        rows = ((of, label, n) for of, found in self.rows() for label, n in found.items())
        yield self.family("hub_borrow_queue_length", "Live waiters, read when scraped.", "label", rows)


class ByJob(ByRealm):
    """Several gauges by job, as last read from the store: for each job one number per gauge."""

    def __init__(self, gauges: dict[str, str]) -> None:
        self._gauges = gauges  # name of the metric -> its description
        super().__init__()

    def collect(self) -> Iterator[Metric]:
        """Yield the gauges, each with a sample for each job."""
        for place, (name, what) in enumerate(self._gauges.items()):
            rows = ((of, job, n[place]) for of, found in self.rows() for job, n in found.items())
            yield self.family(name, what, "job_name", rows)


class ByTeam(ByRealm):
    """Gauges of teams, as last read from the store: for each team and pattern of pools its leases and its waiters."""

    def collect(self) -> Iterator[Metric]:
        """Yield the gauges, each with a sample for each team and pattern."""
        for place, (name, what) in enumerate(
            {
                "hub_team_leases": "Leases of a team in the pools of a pattern, read when scraped.",
                "hub_team_waiting": "Borrows of a team that wait for slots of a pattern, read when scraped.",
            }.items()
        ):
            gauge = GaugeMetricFamily(name, what, labels=["team", "label"])
            for of, found in self.rows():
                for (team, label), numbers in found.items():
                    at = {"team": team, "label": label, **({"realm": of} if of else {})}
                    gauge.add_sample(name, at, numbers[place])
            yield gauge


class StuckRecords(ByRealm):
    """Three gauges by source, from the last pass of recovery: stuck records, alert level, time of the pass."""

    def __init__(self) -> None:
        self.unseen: dict[str, float] = {}  # source without a pass yet -> Unix time since when it is declared
        super().__init__()

    def collect(self) -> Iterator[Metric]:
        """Yield stuck records, alert level and time of the last pass, by source."""
        for place, (name, what) in enumerate(
            {
                "hub_zombie_records": "Records of a source that its last pass found stuck, read when scraped.",
                "hub_zombie_level": "Alert level of a source: 0 ok, 1 warning, 2 critical; read when scraped.",
                "hub_zombie_pass_timestamp_seconds": "Unix time of the last pass that could count, read when scraped; "
                "before the first one the time since when the source is known.",
            }.items()
        ):
            seen = [(of, source, n[place]) for of, found in self.rows() for source, n in found.items()]
            unseen = [("", source, since) for source, since in self.unseen.items() if place == 2]
            yield self.family(name, what, "source", [*seen, *unseen])


borrow_requests = Counter("hub_borrow_requests_total", "Valid borrow requests.", ["label"])
borrow_latency = Histogram(
    "hub_borrow_latency_seconds", "Whole handling of a borrow, served or not.", ["label"], buckets=_BORROW_BUCKETS
)
borrow_outcomes = Counter("hub_borrow_outcomes_total", "How borrows ended.", ["label", "outcome"])


class Borrows(NamedTuple):
    """The metrics of the borrows of one label, kept because finding them costs more than counting."""

    requests: Any
    seconds: Any
    served: Any


_borrows: dict[tuple[str, str], Borrows] = {}


def borrows_of(shown: str) -> Borrows:
    """Return the metrics of borrows for a label (as `bounded` gives it) in the current realm."""
    key = (realm.get(), shown)
    if key not in _borrows:
        served = borrow_outcomes.labels(shown, "success")
        _borrows[key] = Borrows(borrow_requests.labels(shown), borrow_latency.labels(shown), served)
    return _borrows[key]


def forget_borrows(name: str) -> None:
    """Forget the borrow metrics of a realm that is no longer served."""
    for key in [key for key in _borrows if key[0] == name]:
        del _borrows[key]


pool_available = Gauge(
    "hub_pool_available_total", "Free slots of a pool, read when scraped.", ["label"], multiprocess_mode="mostrecent"
)
pool_utilization = Gauge(
    "hub_pool_utilization_ratio",
    "Lent / (lent + free) of a pool, read when scraped; 0 when it has neither.",
    ["label"],
    multiprocess_mode="mostrecent",
)
returns = Counter("hub_returns_total", "Ends of leases by a return call.", ["outcome"])
renewals = Counter("hub_renewals_total", "Renewals of leases.", ["outcome"])
waiters_dropped = Counter("hub_waiters_dropped_total", "Waiters whose hub was gone or whose time was over.")
queue_length = QueueLength()
grants_undone = Counter("hub_grants_undone_total", "Leases taken back because their caller was gone.")
served_elsewhere = Counter(
    "hub_tickets_served_elsewhere_total", "Tickets that another realm has served, by that realm (spill-over).", ["to"]
)
grants_readopted = Counter("hub_grants_readopted_total", "Leases a hub brought back after the store had lost them.")

heartbeats = Counter("hub_heartbeats_total", "Heartbeats answered.", ["known"])
nodes_registered = Gauge("hub_nodes_registered", "Registered nodes.", multiprocess_mode="mostrecent")
sessions = Gauge("hub_sessions", "Live leases.", multiprocess_mode="mostrecent")

slots_not_fresh = Gauge(
    "hub_slots_not_fresh",
    "Slots that their nodes have not made fresh within HUB_RECYCLE_TIMEOUT_SECONDS; read when scraped.",
    multiprocess_mode="mostrecent",
)

slots_unwell = Gauge(
    "hub_slots_unwell",
    "Slots that their nodes or operators hold because they are unwell; read when scraped.",
    multiprocess_mode="mostrecent",
)

slot_classes = Gauge(
    "hub_slot_classes",
    "Sets of attributes that slots have, at most HUB_CLASSES_MAX; read when scraped.",
    multiprocess_mode="mostrecent",
)
wanted_lines = Gauge(
    "hub_wanted_lines",
    "Lines of borrows that wait with where, one for each label and expression, at most 1,000; read when scraped.",
    multiprocess_mode="mostrecent",
)
bundles_waiting = Gauge(
    "hub_bundles_waiting",
    "Borrows that wait for several slots at once; read when scraped.",
    multiprocess_mode="mostrecent",
)
bundle_slots_reserved = Gauge(
    "hub_bundle_slots_reserved",
    "Free slots that are set aside for the bundle that has waited longest; read when scraped.",
    multiprocess_mode="mostrecent",
)

sweeps = Counter("hub_sweeps_total", "Passes of a sweeper.", ["service"])
sweep_errors = Counter("hub_sweep_errors_total", "Records a sweeper failed on.", ["service"])
sweep_scanned = Counter("hub_sweep_scanned_total", "Records a sweeper was answerable for, pass by pass.", ["service"])
sweep_seconds = Histogram("hub_sweep_seconds", "Duration of a pass.", ["service"])
nodes_expired = Counter("hub_nodes_expired_total", "Nodes removed because they were silent.")
nodes_refreshed = Counter("hub_nodes_refreshed_total", "Stale nodes kept for 30 s because expiry is off or paused.")
brake_engaged = Gauge(
    "hub_sweeper_brake_engaged", "1 while too many nodes are stale at once.", multiprocess_mode="mostrecent"
)
worker_brake_engaged = Gauge(
    "hub_worker_brake_engaged", "1 while too many workers are silent at once.", multiprocess_mode="mostrecent"
)
expiries_held = Counter("hub_sweeper_held_total", "Expiries that the brake held back, pass by pass.")
workers_registered = Gauge(
    "hub_workers_registered", "Workers, read by each worker sweep and when scraped.", multiprocess_mode="mostrecent"
)
workers_removed = Counter("hub_workers_removed_total", "Workers that a sweep removed.", ["why"])
pending_tasks = ByJob(
    {
        "hub_tasks_pending": "Tasks that can be claimed, read when scraped: of the 200 jobs that wait longest.",
        "hub_tasks_oldest_pending_seconds": "Age of the task that is claimed next, from its submission, a second more "
        "per point of its priority; read when scraped.",
    }
)
jobs_at_work = ByJob(
    {
        "hub_job_tasks_held": "Tasks that are claimed or run, of the 1,000 submitted first; read when scraped.",
        "hub_job_workers": "Workers of a job with such tasks, or of the 200 that wait longest; read when scraped.",
    }
)
teams = ByTeam()
jobs_waiting = Gauge(
    "hub_jobs_waiting", "Jobs with tasks that can be claimed, read when scraped.", multiprocess_mode="mostrecent"
)
tasks_put_off = Gauge(
    "hub_tasks_put_off", "Pending tasks that are not due yet, read when scraped.", multiprocess_mode="mostrecent"
)
tasks_held = Gauge(
    "hub_tasks_held", "Tasks that are claimed or run; read when scraped.",
    multiprocess_mode="mostrecent",
)  # fmt: skip
dead_letters = Gauge(
    "hub_dead_letters", "Tasks that failed for the last time they might, read when scraped.",
    multiprocess_mode="mostrecent",
)  # fmt: skip
tasks_submitted = Counter("hub_tasks_submitted_total", "Tasks submitted through this hub.")
tasks_claimed = Counter("hub_tasks_claimed_total", "Tasks given to workers.")
claims = Counter("hub_claims_total", "Claims answered, with tasks or with none.", ["outcome"])
tasks_ended = Counter(
    "hub_tasks_ended_total", "Tasks that ended, in any way: counted once, by the hub that sweeps.",
    ["job_name", "status"],
)  # fmt: skip
results_lost = Counter(
    "hub_task_results_lost_total", "Completed tasks whose result is lost: Redis lost it or had no room.", ["job_name"]
)
task_wait = Durations(
    "hub_task_wait_seconds", "Of tasks that ended: from the submission until they were started last.", ["job_name"],
    buckets=TASK_BUCKETS,
)  # fmt: skip
task_run = Durations(
    "hub_task_run_seconds", "Of tasks that ended: from when they were started last to their end.", ["job_name"],
    buckets=TASK_BUCKETS,
)  # fmt: skip
tasks_moved = Counter("hub_tasks_moved_total", "Tasks that workers and callers moved on.", ["status"])
tasks_overdue = Counter("hub_tasks_overdue_total", "Tasks that a sweep failed because their time was over.", ["kind"])
tasks_forgotten = Counter("hub_tasks_forgotten_total", "Finished tasks that were removed after their retention.")
schedules_fired = Counter("hub_schedules_fired_total", "Firings of schedules, by what came of them.", ["outcome"])
sweeps_skipped = Counter("hub_sweeps_skipped_total", "Turns skipped because this hub woke up late.", ["service"])
leases_ended = Counter("hub_leases_ended_total", "Leases ended by the sweeper.", ["why"])
leases_ended_by_rule = Counter(
    "hub_leases_ended_by_rule_total", "Leases ended by the rules of their pools.", ["label", "why"]
)

zombies = StuckRecords()
zombies_reset = Counter(
    "hub_zombies_reset_total", "Stuck records that a pass brought back, or failed for good.", ["source", "outcome"]
)
zombie_passes = Counter(
    "hub_zombie_passes_total",
    "Passes over stuck records, by what came of them: `clean` (none was stuck), `repaired`, `held` (stuck ones were "
    "left as they are) or `failed`.",
    ["source", "result"],
)
zombie_errors = Counter("hub_zombie_errors_total", "Errors of passes over stuck records.", ["source"])
zombie_outcomes = Counter(
    "hub_zombie_outcomes_written_total", "Outcomes that waited for their database and were written.", ["source"]
)
zombie_webhook_failures = Counter("hub_zombie_webhook_failures_total", "Alerts that could not be posted.")

http_requests = Counter(
    "hub_http_requests_total", "HTTP requests answered, by the template of the route; `none` where there is none.",
    ["route", "method", "code"],
)  # fmt: skip
http_seconds = Durations(
    "hub_http_request_seconds", "From the request to the end of its answer, waiting included; without event streams.",
    ["route"], buckets=HTTP_BUCKETS,
)  # fmt: skip
realm_read_at = Gauge(
    "hub_realm_read_timestamp_seconds", "Unix time at which the store of a realm was last read for /metrics.",
    ["realm"], multiprocess_mode="max",
)  # fmt: skip
store_up = Gauge("hub_store_up", "1 while this hub reaches Redis.", multiprocess_mode="min")
store_memory = Gauge(
    "hub_store_memory_bytes", "What Redis has in use of what it may use, buffers for replicas and its file aside.",
    multiprocess_mode="mostrecent",
)  # fmt: skip
store_memory_max = Gauge(
    "hub_store_memory_max_bytes", "The maxmemory of Redis; 0: none.", multiprocess_mode="mostrecent"
)
store_full = Counter("hub_store_full_total", "Calls refused because Redis had no memory left but the reserve.")
redis_round_trips = Counter("hub_redis_round_trips_total", "Batches sent to Redis.")
redis_commands = Counter("hub_redis_commands_total", "Commands sent to Redis.")
redis_seconds = Histogram("hub_redis_seconds", "Time for a batch to come back from Redis.", buckets=_FAST_BUCKETS)
script_seconds = Gauge(
    "hub_redis_script_seconds", "Time Redis has spent in scripts since it started.", multiprocess_mode="mostrecent"
)
script_calls = Gauge(
    "hub_redis_script_calls", "Scripts Redis has run since it started.", multiprocess_mode="mostrecent"
)
event_streams = Gauge("hub_event_streams", "Open streams of events.", multiprocess_mode="livesum")
event_streams_slow = Counter("hub_event_streams_slow_total", "Streams of events cut off because they were not read.")
event_reads_failed = Counter("hub_event_reads_failed_total", "Times the stream of events could not be read.")
hook_messages = Counter(
    "hub_hook_messages_total",
    "Messages for hooks: `queued`, `delivered`, `failed` (a try), `dropped` (too many wait), `lost` (trimmed unread).",
    ["outcome"],
)
hook_messages_waiting = Gauge(
    "hub_hook_messages_waiting", "Messages that wait for hooks, read when scraped.", multiprocess_mode="mostrecent"
)
hooks_paused = Gauge(
    "hub_hooks_paused", "Hooks that the hub has paused as they take no message, read when scraped.",
    multiprocess_mode="mostrecent",
)  # fmt: skip
wrong_secrets = Counter("hub_wrong_secrets_total", "Refused calls that showed an unknown secret or token.")
refusals = Counter("hub_refusals_total", "Refused acts, also those the audit log leaves out.", ["action", "reason"])
unhandled = Counter("hub_unhandled_errors_total", "Requests that ended in a 500, and work given up on an error.")

_seen: set[str] = set()
_seen_jobs: set[str] = set()
_seen_teams: set[str] = set()


def bounded(label: str) -> str:
    """Return the label if it is among the first `LABELS_MAX`, else `other`: callers cannot make endless series."""
    return _bounded(label, _seen)


def bounded_job(full: str) -> str:
    """Return the full name of a job if it is among the first `LABELS_MAX` jobs, else `other`."""
    return _bounded(full, _seen_jobs)


def bounded_team(team: str, pattern: str) -> tuple[str, str]:
    """Return a team and a pattern if they are among the first `LABELS_MAX` pairs, else `other` twice."""
    pair = _bounded(f"{pattern}\t{team}", _seen_teams)
    return ("other", "other") if pair == "other" else (team, pattern)


def _bounded(label: str, seen: set[str]) -> str:
    if label in seen:
        return label
    if len(seen) >= LABELS_MAX:
        return "other"
    seen.add(label)
    return label
