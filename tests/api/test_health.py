"""Health, readiness, metrics, diagnostics, and the audit log."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from hub.api.operators import health
from hub.api.operators.health import StoreBreaker
from hub.errors import StoreUnavailable
from hub.observability import metrics
from hub.store.notifications import Notifications
from tests.world import PATIENCE_S, age_node, borrow, give_back, publish, push

LABEL = "a:b"


def serving(api):
    return api._transport.app.app.state.serving


async def test_health_says_how_fast_redis_answers(api):
    answer = await api.get("/health")
    assert answer.json()["status"] == "ok"
    assert 0 <= answer.json()["redis"]["pingMs"] < 1000 * PATIENCE_S


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_a_hub_without_redis_is_live_and_not_ready(own_redis, make_api, method):
    async with make_api(redis_url=own_redis.url, redis_timeout_s=0.5, redis_connect_timeout_s=0.5) as api:
        assert (await api.request(method, "/health/live")).status_code == 200
        own_redis.kill()
        assert (await api.request(method, "/health/ready")).status_code == 503
        alive = await api.request(method, "/health/live")
        assert (alive.status_code, alive.content) == (200, b'{"status":"live"}' if method == "GET" else b"")


async def test_a_slow_redis_makes_the_hub_unhealthy_without_opening_the_breaker(make_api, monkeypatch):
    limits_s: list[float] = []

    def already_over(seconds: float) -> asyncio.Timeout:
        limits_s.append(seconds)
        return asyncio.timeout(0)

    async with make_api(redis_health_timeout_ms=3000, redis_breaker_threshold=1) as api:
        with monkeypatch.context() as patched:
            patched.setattr(health, "asyncio", SimpleNamespace(timeout=already_over))
            patched.setattr(serving(api).hub.store, "ping", asyncio.Event().wait)  # it never answers
            answer = await api.get("/health")
        assert (answer.status_code, answer.json()["code"]) == (503, "store-unavailable")
        assert limits_s == [3]
        assert (await api.get("/health")).status_code == 200


async def test_a_hub_whose_stop_was_noticed_late_leaves_nothing_running(make_api, monkeypatch):
    """On Python 3.11 a task that is just sending to Redis may lose its cancellation; the process would never end."""
    listening = asyncio.Event()

    @contextlib.asynccontextmanager
    async def hard_of_hearing(*_, keep):
        listening.set()
        for _ in range(2):
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(3600)
        await asyncio.sleep(3600)
        yield

    monkeypatch.setattr(Notifications, "listen", hard_of_hearing)
    before = asyncio.all_tasks()
    async with make_api():
        await listening.wait()
    assert [task for task in asyncio.all_tasks() - before if "listen" in repr(task)] == []


@pytest.mark.parametrize("disconnected", [False, True])
async def test_the_health_breaker_stops_asking_redis_until_its_cooldown_is_over(make_api, disconnected):
    async with make_api(redis_breaker_threshold=3, redis_breaker_cooldown_ms=60_000) as api:
        asked = []

        async def ping():
            asked.append(1)
            raise StoreUnavailable("x") from (ConnectionRefusedError() if disconnected else ValueError())

        serving(api).hub.store.ping = ping
        for _ in range(6):
            answer = await api.get("/health")
            assert answer.status_code == 503
            assert int(answer.headers["retry-after"]) >= 1
        assert len(asked) == (1 if disconnected else 3)


def test_a_success_makes_the_health_breaker_forget_earlier_errors():
    breaker = StoreBreaker(2, 60)
    for _ in range(3):
        breaker.failed(disconnected=False)
        breaker.succeeded()
        assert not breaker.is_open
    breaker.failed(disconnected=False)
    breaker.failed(disconnected=False)
    assert breaker.is_open


def test_the_health_breaker_asks_redis_again_after_its_cooldown():
    breaker = StoreBreaker(1, 0)
    breaker.failed(disconnected=True)
    assert not breaker.is_open


async def test_ready_needs_a_node_that_was_heard_and_a_free_slot(api, redis):
    async def ready():
        answer = await api.get("/ready")
        return answer.status_code

    assert await ready() == 503
    await publish(api, "n1")
    assert await ready() == 503
    await publish(api, "n1", **{LABEL: ["s1", "s2"]})
    await borrow(api, LABEL)
    assert (await api.get("/ready")).json() == {
        "status": "ready", "workers": 1, "total": 2, "borrowed": 1, "available": 1,
    }  # fmt: skip
    await borrow(api, LABEL)
    assert await ready() == 503
    assert (await api.get("/health/ready")).json() == {"status": "ready"}
    await give_back(api, LABEL, "s1")
    assert await ready() == 200
    age_node(redis, "n1", 121)
    assert await ready() == 503


async def test_the_readiness_check_of_a_stranger_costs_the_same_number_of_commands_for_any_number_of_pools(
    make_api, redis, monkeypatch
):
    monkeypatch.setattr(health, "COUNTED_S", 3600)
    secrets = {"runner_secret": "r", "node_secret": "n"}
    async with make_api(**secrets) as api:
        node, runner = {"x-hub-secret": "n"}, {"x-hub-secret": "r"}
        pools = {f"pool:p{n}": 1 for n in range(300)}
        assert (
            await api.post("/node/register", json={"nodeId": "n1", "pools": pools}, headers=node)
        ).status_code == 200
        assert (await api.get("/ready")).json()["available"] == 300
        redis.config_resetstat()
        for _ in range(20):
            assert (await api.get("/ready")).status_code == 200
            assert (await api.get("/ready", headers={"x-hub-secret": "wrong"})).status_code == 200
        assert "cmdstat_fcall" not in redis.info("commandstats")
        await api.post("/session/borrow", json={"labelKey": "pool:p1"}, headers=runner)
        assert (await api.get("/ready", headers=runner)).json()["available"] == 299


async def test_nodes_of_other_programs_make_the_hub_ready_too(api, redis):
    push(redis, LABEL, ("s1", "n1"))
    redis.sadd("nodes", "n1")
    redis.set("node_alive:n1", "1")
    await api.post("/admin/sweep")
    assert (await api.get("/ready")).json()["available"] == 1


async def test_a_stopping_hub_refuses_borrows_and_accepts_every_other_call(api):
    await publish(api, "n1", **{LABEL: ["s1", "s2"]})
    await borrow(api, LABEL)
    serving(api).stopping = True
    refused = await borrow(api, LABEL)
    assert (refused.status_code, refused.json()["code"], refused.headers["retry-after"]) == (503, "stopping", "30")
    assert "detail" not in refused.json()
    assert [(await api.get(path)).status_code for path in ("/ready", "/health/ready")] == [503, 503]
    assert (await give_back(api, LABEL, "s1")).json() == {"returned": "s1"}
    assert (await api.post("/node/heartbeat", json={"nodeId": "n1"})).status_code == 200
    assert (await api.post("/node/register", json={"nodeId": "n2"})).status_code == 200


def value(text, series):
    found = re.search(rf"^{re.escape(series)} (\S+)$", text, re.MULTILINE)
    return float(found[1]) if found else None


async def test_metrics_of_the_contract_count_what_happened(make_api):
    async with make_api(runner_secret="r", node_secret="n") as api:
        api.headers["x-hub-secret"] = "n"
        await publish(api, "n1", **{"metric:one": ["s1", "s2", "s3"]})
        before = (await api.get("/metrics")).text
        api.headers["x-hub-secret"] = "r"
        for _ in range(3):
            await borrow(api, "metric:one")
        await give_back(api, "metric:one", "s1")
        await borrow(api, "metric:one:more")
        await borrow(api, "metric:none")
        await borrow(api, "bad label")
        await api.post("/session/borrow", json={})
        api.headers["x-hub-secret"] = "x"
        await borrow(api, "metric:one")
        answer = await api.get("/metrics")
    text = answer.text
    assert answer.headers["content-type"].startswith("text/plain")
    rise = {
        series: (value(text, series) or 0) - (value(before, series) or 0)
        for series in (
            'hub_borrow_requests_total{label="metric:one"}',
            'hub_borrow_requests_total{label="metric:none"}',
            'hub_borrow_latency_seconds_count{label="metric:one"}',
            'hub_borrow_outcomes_total{label="metric:one",outcome="success"}',
            'hub_borrow_outcomes_total{label="metric:one:more",outcome="success"}',
            'hub_borrow_outcomes_total{label="metric:none",outcome="denied"}',
            'hub_borrow_outcomes_total{label="unknown",outcome="denied"}',
        )
    }
    assert list(rise.values()) == [3, 1, 3, 3, 1, 1, 3]
    assert value(text, 'hub_pool_available_total{label="metric:one"}') == 0
    assert value(text, 'hub_pool_utilization_ratio{label="metric:one"}') == 1
    buckets = re.findall(r'hub_borrow_latency_seconds_bucket\{label="metric:one",le="([^"]+)"\}', text)
    bounds = "0.005 0.01 0.025 0.05 0.075 0.1 0.25 0.5 0.75 1.0 2.5 5.0 7.5 10.0 +Inf"
    assert buckets == bounds.split()
    for name in ("hub_store_up", "hub_nodes_registered", "hub_sessions", "hub_redis_round_trips_total"):
        assert value(text, name) is not None, name
    assert (value(text, "hub_nodes_registered"), value(text, "hub_sessions")) == (1, 3)


async def test_labels_beyond_a_bound_share_one_metric_series(api, monkeypatch):
    monkeypatch.setattr(metrics, "_seen", set())
    for n in range(metrics.LABELS_MAX + 30):
        await borrow(api, f"cardinality:{n}", runName="#")  # counted, and refused before Redis is asked
    text = (await api.get("/metrics")).text
    known = set(re.findall(r'hub_borrow_requests_total\{label="(cardinality:[^"]+|other)"\}', text))
    assert "other" in known
    assert len(known) <= metrics.LABELS_MAX + 1
    assert value(text, 'hub_borrow_requests_total{label="other"}') >= 30


async def test_run_names_and_ids_are_not_used_as_metric_labels(api):
    await publish(api, "n1", **{LABEL: ["s1"]})
    await borrow(api, LABEL, run="run-of-mine", runName="Name of mine")
    text = (await api.get("/metrics")).text
    assert "of-mine" not in text
    assert "of mine" not in text


async def test_diagnostics_show_the_configuration_without_credentials(make_api, redis, redis_server):
    redis.acl_setuser("probe", enabled=True, passwords=["+hunter2"], keys=["*"], channels=["*"], categories=["+@all"])
    url = redis_server.url.replace("redis://", "redis://probe:hunter2@")
    async with make_api(redis_url=url, borrow_wildcards=True, node_timeout_s=12.5) as api:
        await publish(api, "n1", **{LABEL: ["s1"]})
        answer = await api.get("/diagnostics")
    redis.acl_deluser("probe")
    shown = answer.json()
    assert "hunter2" not in answer.text
    assert shown["hubConfig"]["redisUrl"].startswith("redis://probe:***@")
    assert (shown["hubConfig"]["borrowWildcards"], shown["hubConfig"]["nodeTimeoutSeconds"]) == (True, 12.5)
    assert set(shown["hubConfig"]) == {
        "redisUrl", "borrowTrailingFallback", "borrowPrefixExpand", "borrowWildcards", "nodeTimeoutSeconds",
        "dashboardUrl", "version",
    }  # fmt: skip
    assert len(shown["hubConfig"]["version"]) <= 15
    (worker,) = shown["workers"]
    assert (worker["id"], worker["pools"]) == ("n1", {LABEL: {"total": 1, "borrowed": 0}})
    assert shown["now"].endswith("Z")


async def test_diagnostics_show_only_the_hubs_own_variables_and_no_secret(api, monkeypatch):
    shown = {
        "HUB_RUNNER_SECRET": ("hunter2", "***"),
        "HUB_ADMIN_SECRET": ("", ""),
        "HUB_TOKEN": ("hunter2", "***"),
        "HUB_TOKENS_FILE": ("/etc/hunter2.toml", "***"),
        "HUB_ZOMBIE_WEBHOOK_URL": ("https://hooks.example/T0/hunter2", "***"),
        "HUB_REDIS_URL": ("redis://me:hunter2@host/0", "redis://me:***@host/0"),
        "REDIS_URL": ("rediss://host?ssl_password=hunter2", "rediss://host?ssl_password=***"),
        "HUB_BORROW_WILDCARDS_Staging": ("true", "true"),
        "LOG_LEVEL": ("DEBUG", "DEBUG"),
        "ZNDRAW_JOBLIB_WORKER_TIMEOUT_SECONDS": ("9", "9"),
    }
    for name, (value, _) in shown.items():
        monkeypatch.setenv(name, value)
    for name in (
        "GITHUB_PAT", "DATABASE_DSN", "AWS_SECRET_ACCESS_KEY", "ORDERS_DATABASE_URL", "PGPASSWORD", "HUB_PORT_80_TCP",
        "HUB_SERVICE_HOST", "HUB_RUNER_SECRET", "HUBSPOT_KEY", "REDIS_PASSWORD", "LOG_LEVELS", "EDITOR",
    ):  # fmt: skip
        monkeypatch.setenv(name, "user=hub password=hunter2")
    answer = await api.get("/diagnostics/env")
    assert "hunter" not in answer.text
    assert answer.json()["env"] == {name: seen for name, (_, seen) in shown.items()} | {
        name: value for name, value in answer.json()["env"].items() if name == "DISABLE_DOTENV"
    }


async def test_the_audit_log_lists_changes_newest_first_with_who_made_them(make_api):
    async with make_api(runner_secret="r", node_secret="n") as api:
        started = datetime.now(UTC)
        node, runner = {"x-hub-secret": "n"}, {"x-hub-secret": "r"}
        body = {"nodeId": "n1", "apps": ["a:b", "c:d"], "capacity": 4, "labels": {"k": "v"}}
        await api.post("/node/register", json=body, headers=node)
        await api.post("/node/register", json=body, headers=node)
        await api.post("/node/register", json=body, headers=runner)
        await api.post("/node/register", content=b"{", headers=node)
        await api.post("/node/register", content=b"null", headers=node)
        await api.post("/admin/pools/a:b/restart", headers=runner)
        await api.post("/admin/nodes/all/sidecar/upgrade", headers=runner)
        entries = (await api.get("/audit", headers=runner)).json()
    told = [
        (entry["category"], entry["action"], entry["severity"], entry["actor"], entry["details"])
        for entry in reversed(entries)
        if entry["category"] != "secrets"
    ]
    counts = {"apps": "2", "capacity": "4", "labels": "1"}
    assert told == [
        ("node", "register.success", "Info", "n1", counts),
        ("node", "register.update", "Info", "n1", counts),
        ("node", "register.denied", "Warning", None, {"reason": "unauthorized"}),
        ("node", "register.denied", "Warning", None, {"reason": "invalid-json"}),
        ("node", "register.denied", "Warning", None, {"reason": "empty-body"}),
        ("admin", "pool.restart", "Info", "dashboard",
         {"labelKey": "a:b", "scheduled": "0", "avail": "0", "inuse": "0"}),
        ("admin", "node.sidecar.upgrade", "Info", "dashboard", {"requested": "all", "scheduled": "1", "targets": "n1"}),
    ]  # fmt: skip
    assert all(started <= datetime.fromisoformat(entry["timestampUtc"]) <= datetime.now(UTC) for entry in entries)
    assert {
        "timestampUtc",
        "category",
        "action",
        "actor",
        "by",
        "remoteIp",
        "correlationId",
        "severity",
        "details",
    } == set(entries[0])


async def test_the_audit_log_can_be_filtered_and_paged(api, redis):
    for n in range(5):
        await publish(api, f"n{n}")
    await api.put("/admin/sweeper", json={"expire": None})
    redis.lpush("audit:entries", "no JSON", "[]", '"x"')

    async def read(**query):
        answer = await api.get("/audit", params=query)
        assert answer.status_code == 200
        return [entry["actor"] for entry in answer.json()]

    assert await read(category="NODE") == ["n4", "n3", "n2", "n1", "n0"]
    assert await read(category="node", skip=1, take=2) == ["n3", "n2"]
    assert await read(action="Register.Success", take=1) == ["n4"]
    assert await read(action="register") == []
    assert await read(category="node", q='ACTOR":"N3') == ["n3"]
    assert await read(q="nobody") == []
    assert await read(category="node", sinceUtc="2999-01-01T00:00:00Z") == []
    assert len(await read(category="node", sinceUtc="2001-01-01T00:00:00+02:00")) == 5
    for query in ({"skip": "-1"}, {"take": "0"}, {"take": "x"}, {"sinceUtc": "nonsense"}):
        assert (await api.get("/audit", params=query)).status_code == 400


async def test_the_audit_log_is_trimmed(make_api, redis):
    async with make_api(audit_max_entries=100) as api:
        for _ in range(105):
            await publish(api, "n1")
        assert redis.llen("audit:entries") == 100
        await api.put("/admin/sweeper", json={"expire": None})
        assert redis.llen("audit:entries") == 100


async def test_audit_entries_are_stored_in_pascal_case(api, redis):
    await publish(api, "n1")
    stored = json.loads(redis.lindex("audit:entries", 0))
    assert set(stored) == {
        "TimestampUtc", "Category", "Action", "Actor", "By", "RemoteIp", "CorrelationId", "Severity", "Details",
    }  # fmt: skip


async def test_the_audit_log_notes_fingerprints_of_secrets_and_warns_of_a_change(hub, redis):
    async def noted(secrets):
        redis.delete("audit:entries")
        await hub.audit.note_secrets("runner", secrets)
        return [(entry["action"], entry["severity"]) for entry in await hub.audit.read(0, 9, "secrets", None, None)]

    assert await noted("one") == [("runner.loaded", "Info")]
    assert await noted(" one ") == []
    assert await noted("one,two") == [("runner.rotation.enabled", "Info"), ("runner.changed", "Warning")]
    assert await noted("two") == [("runner.changed", "Warning")]
    fingerprint = redis.get("audit:secrets:runner:fp")
    assert re.fullmatch("[0-9A-F]{64}", fingerprint)
    stored = json.loads(redis.lindex("audit:entries", 0))["Details"]
    assert stored == {"count": "1", "fingerprint": fingerprint[:8]}


async def test_a_call_succeeds_although_its_audit_entry_cannot_be_written(api, redis):
    redis.set("audit:entries", "another program's text")
    await publish(api, "n1", **{LABEL: ["s1"]})
    assert (await api.post("/admin/nodes/n1/drain")).status_code == 200
    assert (await api.put("/admin/sweeper", json={"expire": True})).status_code == 200
    assert (await api.post("/node/register", content=b"{")).status_code == 400
