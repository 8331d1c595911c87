"""`deploy/` against the code: what the runbook explains, what the alerts ask for, which settings are named."""

import ast
import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
import yaml
from redis import Redis
from redis.exceptions import AuthenticationError
from redis.exceptions import ConnectionError as RedisConnectionError

from hub.client.node import NODE_TAKEN
from hub.client.trust import TLS_NAMES
from hub.observability import metrics
from hub.recovery.engines import make_engine
from hub.recovery.file import read_sources
from hub.recovery.models import RedisSource, SqlSource, TaskSource
from hub.settings import Settings
from hub.settings.model import knobs
from hub.settings.sources import CLIENT_NAMES
from tests.alone import needed_by
from tests.manual.pages import anchors
from tests.world import PATIENCE_S, clean_environment, free_port, wait_until

TOP = Path(__file__).parent.parent
DEPLOY = TOP / "deploy"
MANUAL = TOP / "hub" / "manual"
ALERTS = (DEPLOY / "alerts.yml").read_text()
RULES = [rule for group in yaml.safe_load(ALERTS)["groups"] for rule in group["rules"]]
NODES = DEPLOY / "kubernetes/nodes/nodes.yaml"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
NGINX = (DEPLOY / "nginx.conf").read_text()
_FACTS = re.compile(r" \w+=%")  # what the hub shares with the SDK logs as other libraries do, its facts in the text


def paragraphs(page: str) -> dict[str, str]:
    """Return heading -> the text below it."""
    found = re.findall(r"(?ms)^### (.+?)\n(.*?)(?=^##|\Z)", (MANUAL / page).read_text())
    return {title: text.strip() for title, text in found}


def logged_events() -> set[object]:
    """Return every event that the server logs; the SDK and the command line talk to their users instead."""
    events: set[object] = set()
    for path in (TOP / "hub").rglob("*.py"):
        here = path.relative_to(TOP / "hub")
        if here.parts[0] in ("client", "cli") and here != Path("cli/serving.py"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name(id="_log" | "log"), attr=level), args=[event, *_]):
                    if level in ("info", "warning", "error", "exception", "critical") and isinstance(
                        event, ast.Constant
                    ):
                        events.add(_FACTS.split(event.value)[0])
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id="self"), attr="_warn"), args=[ast.Constant(str(event))]
                ):
                    events.add(event)
    return events


def sweep_summaries() -> set[object]:
    """Return the summary lines, which are named after their service."""
    return {f"{name} sweep" for name in re.findall(r'_loop\(\s*"(\w+)"', (TOP / "hub/api/app.py").read_text())}


def test_log_lines_and_paragraphs_of_the_manual_match_one_to_one():
    assert set(paragraphs("logs.md")) == logged_events() | sweep_summaries()


def test_alerts_and_paragraphs_of_the_manual_match_one_to_one():
    assert set(paragraphs("alerts.md")) == {rule["alert"] for rule in RULES}


def test_every_alert_links_to_its_paragraph_served_by_the_hub():
    known = anchors((MANUAL / "alerts.md").read_text())
    for rule in RULES:
        page, _, at = rule["annotations"]["runbook_url"].rpartition("?at=")
        assert (page, at) == ("http://127.0.0.1:8080/#/manual/alerts", rule["alert"].lower())
        assert at in known


@pytest.mark.parametrize("page", ["alerts.md", "logs.md"])
def test_every_paragraph_has_a_text(page):
    assert [title for title, text in paragraphs(page).items() if len(text) < 60] == []


@pytest.mark.parametrize("page", ["alerts.md", "logs.md"])
def test_every_log_line_and_alert_that_a_paragraph_names_exists(page):
    names = set(re.findall(r"[Ss]ee `([^`]+)`|the lines? `([^`]+)`|`([^`]+)` follows", (MANUAL / page).read_text()))
    known = {*paragraphs("alerts.md"), *paragraphs("logs.md"), "store opened state=new"}
    assert {name for found in names for name in found if name} - known == set()


def test_alerts_use_existing_metrics():
    known = {sample.name for family in metrics.registry.collect() for sample in family.samples}
    known |= {f"{family.name}{end}" for family in metrics.registry.collect() for end in ("", "_total", "_bucket")}
    assert set(re.findall(r"\bhub_\w+", ALERTS)) - known == set()


DEPLOYED = ["Dockerfile", "compose.yaml", "capacity-hub.service", "kubernetes/hub/hub.yaml"]


@pytest.mark.parametrize("name", DEPLOYED)
def test_every_deployment_expires_dead_nodes(name):
    assert re.search(r'HUB_SWEEPER_EXPIRE(=|: |, value: )"?true\b', (DEPLOY / name).read_text())


@pytest.mark.parametrize("name", DEPLOYED)
def test_every_deployment_refuses_anonymous_reads(name):
    assert re.search(r'HUB_ANONYMOUS_READS(=|: |, value: )"?false\b', (DEPLOY / name).read_text())


UNITS = {path.stem: path.read_text() for path in DEPLOY.glob("*.service")}
HARDENED = {
    "DynamicUser=yes", "NoNewPrivileges=yes", "CapabilityBoundingSet=", "ProtectSystem=strict", "ProtectHome=yes",
    "PrivateTmp=yes", "RestrictSUIDSGID=yes", "UMask=0077",
}  # fmt: skip


@pytest.mark.parametrize("unit", UNITS)
def test_every_unit_of_systemd_is_hardened_starts_again_and_leaves_no_process(unit):
    lines = set(UNITS[unit].splitlines())
    assert HARDENED - lines == set()
    assert {"Restart=always", "KillMode=mixed", "WantedBy=multi-user.target"} - lines == set()


@pytest.mark.parametrize("unit", UNITS)
def test_systemd_understands_every_unit(unit):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("There is no systemd-analyze.")
    command = ["systemd-analyze", "verify", "--man=no", str(DEPLOY / f"{unit}.service")]
    said = subprocess.run(command, capture_output=True, text=True, timeout=60).stderr.splitlines()
    assert [line for line in said if "hub is not executable" not in line] == []


def test_systemd_does_not_start_an_agent_again_whose_node_id_another_machine_has():
    assert f"RestartPreventExitStatus={NODE_TAKEN}" in UNITS["capacity-hub-agent"].splitlines()
    assert not [name for name, text in UNITS.items() if "PreventExit" in text and name != "capacity-hub-agent"]


@pytest.mark.parametrize("added", [[], ["compose.cluster.yaml"], ["compose.tls.yaml"]], ids=str)
def test_every_container_has_limits_and_a_read_only_file_system(added):
    services = {name: dict(service) for name, service in COMPOSE["services"].items()}
    for name in added:
        for service, more in yaml.safe_load((DEPLOY / name).read_text())["services"].items():
            services[service] = {**services.get(service, {}), **more}
    held = {"read_only": True, "cap_drop": ["ALL"], "security_opt": ["no-new-privileges:true"]}
    for name, service in services.items():
        assert {key: service.get(key) for key in held} == held, name
        assert (service["pids_limit"] > 0, "/tmp" in service["tmpfs"]) == (True, True), name
        assert re.fullmatch(r"\d+[mg]", service["mem_limit"]), name
        assert set(service) & {"privileged", "pid", "ipc", "network_mode", "devices"} == set(), name
        assert not [each for each in service.get("volumes", ()) if "docker.sock" in each], name
    assert {name for name, service in services.items() if service.get("cap_add")} == {"nginx"}
    rest = re.search(r"(?m)^maxmemory (\d+)gb$", (DEPLOY / "redis.conf").read_text())
    assert rest
    assert int(rest[1]) < int(services["redis"]["mem_limit"].removesuffix("g"))


def test_only_hubs_can_reach_redis_and_they_need_a_password():
    services = COMPOSE["services"]
    on = {name: set(service["networks"]) for name, service in services.items()}
    assert {name for name, networks in on.items() if networks & on["redis"]} == {
        "redis", "hub-1", "hub-2", "internal-worker",
    }  # fmt: skip
    assert [COMPOSE["networks"][name] for name in on["redis"]] == [{"internal": True}]
    assert "ports" not in services["redis"]
    for name in ("hub-1", "hub-2", "internal-worker"):
        assert services[name]["environment"]["HUB_REDIS_URL"].startswith("redis://:${STORE_PASSWORD:?")
    addresses = {services[name]["networks"]["hubs"]["ipv4_address"] for name in ("hub-1", "hub-2")}
    assert set(re.findall(r"(?m)^\s+server ([0-9.]+):8080", NGINX)) == addresses
    trusted = services["hub-1"]["environment"]["FORWARDED_ALLOW_IPS"]
    assert services["nginx"]["networks"]["hubs"]["ipv4_address"] == trusted


def test_the_deployed_redis_requires_a_password_that_is_in_no_command_line(tmp_path):
    *shell, script = COMPOSE["services"]["redis"]["command"]
    port = free_port()
    conf = (DEPLOY / "redis.conf").read_text().replace("port 6379", f"port {port}\ndir {tmp_path}")
    (tmp_path / "redis.conf").write_text(conf)
    script = script.replace("/etc/redis", str(tmp_path)).replace("/tmp/redis.conf", f"{tmp_path}/made.conf")
    process = subprocess.Popen(
        [*shell, script.replace("$$", "$")], env={**os.environ, "STORE_PASSWORD": "s3cret5"},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        with Redis("127.0.0.1", port, password="s3cret5") as known, Redis("127.0.0.1", port) as stranger:

            def answers() -> bool:
                with contextlib.suppress(RedisConnectionError):
                    return bool(known.ping())
                return False

            wait_until(answers)
            with pytest.raises(AuthenticationError):
                stranger.ping()
            assert "s3cret5" not in Path(f"/proc/{process.pid}/cmdline").read_text()
            assert (tmp_path / "made.conf").stat().st_mode & 0o077 == 0
    finally:
        process.kill()
        process.wait()


def test_the_image_installs_the_tested_versions_by_hash():
    def pinned(path: Path) -> dict[str, str]:
        lines = path.read_text().replace("\\\n", " ").splitlines()
        assert [line for line in lines if "--hash=sha256:" not in line] == []
        return dict(re.match(r"([\w.-]+)(?:\[.*?\])?==(\S+)", line).groups() for line in lines)

    everything, image = pinned(TOP / "requirements.lock"), pinned(DEPLOY / "requirements.lock")
    agent = pinned(DEPLOY / "requirements-agent.lock")
    assert {name: version for name, version in image.items() if everything.get(name) != version} == {}
    assert {"redis", "fastapi", "uvicorn", "asyncpg", "hatchling"} <= image.keys()
    assert not {"pytest", "mypy", "ruff"} & image.keys()
    assert {name: version for name, version in agent.items() if everything.get(name) != version} == {}
    assert {"httpx"} | needed_by("httpx") <= agent.keys()
    assert not {"redis", "fastapi", "pydantic", "typer"} & agent.keys()


def test_every_image_is_pinned_to_a_full_version_or_a_digest():
    images = re.findall(r"(?m)^FROM (\S+)", (DEPLOY / "Dockerfile").read_text())
    images += [service["image"] for service in COMPOSE["services"].values() if "build" not in service]
    assert len(images) == 8
    assert [each for each in images if not re.search(r":v?\d+\.\d+\.\d+|@sha256:", each)] == []


DEPLOYED_FILES = sorted(path for path in DEPLOY.rglob("*") if path.is_file() and path.suffix != ".pyc")


@pytest.mark.parametrize("path", DEPLOYED_FILES, ids=lambda path: path.name)
def test_deployments_name_only_existing_settings(path):
    known = {name for knob in knobs().values() for name in (knob.name, *knob.aliases)} | {*TLS_NAMES, *CLIENT_NAMES}
    known |= {"HUB_SLOT_ID", "HUB_SLOT_ENDPOINT"}  # what `hub borrow` sets
    assert set(re.findall(r"\b(?:HUB|REDIS)_[A-Z_]+[A-Z]\b", path.read_text())) - known == set()


def test_the_pod_of_a_node_has_only_the_join_token():
    text = NODES.read_text()
    pod = text[text.index("kind: Deployment") :]
    assert re.findall(r"secretKeyRef|key: (?:admin|node|runner)-secret", pod) == []
    assert re.findall(r"secretName: (\S+?),", pod) == ["capacity-hub-join"]


def container(path):
    (pod,) = [each for each in yaml.safe_load_all(path.read_text()) if each["kind"] == "Deployment"]
    (found,) = pod["spec"]["template"]["spec"]["containers"]
    return found


def test_the_probes_of_a_pod_reach_the_hub_under_any_allowed_hosts(start_hub):
    pod = container(DEPLOY / "kubernetes/hub/hub.yaml")
    hub = start_hub(**{each["name"]: each["value"] for each in pod["env"] if "value" in each})
    paths = {probe: pod[probe]["httpGet"]["path"] for probe in ("livenessProbe", "readinessProbe")}
    assert paths == {"livenessProbe": "/health/live", "readinessProbe": "/health/ready"}
    for path in paths.values():
        hosts = {"10.42.0.7:8080": 200, "[fd00::7]:8080": 200, "capacity-hub:8080": 200, "evil.example": 403}
        hosts["capacity-hub.capacity-hub:8080"] = 200
        answered = {host: httpx.get(hub.url + path, headers={"host": host}).status_code for host in hosts}
        assert answered == hosts


def test_a_pod_can_join_and_drain_with_its_own_token(live_hub, tmp_path):
    agent = container(NODES)
    places = {
        "http://capacity-hub.capacity-hub:8080": live_hub.url,
        "/etc/capacity-hub": str(tmp_path),
        "/run/capacity-hub": str(tmp_path),
    }

    def start(command):
        for there, here in places.items():
            command = [word.replace(there, here) for word in command]
        environment = {**clean_environment(), "DISABLE_DOTENV": "1", "HOSTNAME": socket.gethostname()}
        environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
        return subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True,
        )  # fmt: skip

    admin = {"x-hub-secret": live_hub.admin_secret}
    with httpx.Client(base_url=live_hub.url, headers=admin, timeout=PATIENCE_S) as api:
        join = api.post("/admin/tokens", json={"join": "gpu-a100-eu"}).json()["token"]
        (tmp_path / "join-token").write_text(join)
        running = start(agent["command"])
        try:
            wait_until(lambda: socket.gethostname() in api.get("/nodes").json())
            leaving = start(agent["lifecycle"]["preStop"]["exec"]["command"])
            said, _ = leaving.communicate(timeout=2 * PATIENCE_S)
            assert (leaving.returncode, "is safe to kill" in said) == (0, True), said
            assert api.get(f"/nodes/{socket.gethostname()}").json()["draining"] is True
            (by,) = [each["by"] for each in api.get("/audit").json() if each["action"] == "node.drain"]
            assert by.endswith(f"of node {socket.gethostname()}")
        finally:
            running.kill()
            running.communicate()


def test_the_example_of_sources_declares_a_source_of_every_kind(monkeypatch):
    monkeypatch.setenv("ORDERS_DATABASE_URL", "postgresql+asyncpg://shop@db/shop")
    sources = read_sources(DEPLOY / "recovery.toml")
    assert [(type(each), each.name) for each in sources] == [
        (SqlSource, "orders"), (SqlSource, "exports"), (SqlSource, "invoices"), (RedisSource, "mails"),
        (TaskSource, "tasks"),
    ]  # fmt: skip
    for source in sources:
        if isinstance(source, SqlSource):
            make_engine(source)


def test_the_proxy_has_longer_timeouts_and_shorter_keep_alive_than_the_hub():
    def seconds(name: str) -> float:
        (found,) = set(re.findall(rf"(?m)^\s+{name} (\d+)s;", NGINX))
        return float(found)

    upstream = re.search(r"upstream hub \{.*?\}", NGINX, re.DOTALL)
    assert upstream
    keeps = re.search(r"keepalive_timeout (\d+)s", upstream[0])
    assert keeps
    assert seconds("proxy_read_timeout") > Settings().request_timeout_s
    assert float(keeps[1]) < Settings().keep_alive_timeout_s


def test_the_proxy_does_not_retry_calls_that_may_have_been_carried_out():
    assert re.search(r"proxy_next_upstream [^;]*;", NGINX)
    assert "non_idempotent" not in NGINX


def test_the_deployed_redis_evicts_no_key_and_persists_its_data():
    lines = (DEPLOY / "redis.conf").read_text().splitlines()
    assert {"maxmemory-policy noeviction", "appendonly yes"} <= set(lines)
