"""`deploy/compose.cluster.yaml`: its scripts make a cluster of servers of this machine, and a hub serves on it."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
from pathlib import Path

import httpx
import pytest
import yaml
from redis import Redis
from redis.crc import key_slot
from redis.exceptions import RedisError

from hub.settings.cluster import DEFAULT_PREFIX, read_cluster_url
from hub.settings.realms import read_realms
from tests.world import HubProcess, free_port, wait_until

DEPLOY = Path(__file__).parent.parent / "deploy"
COMPOSED = yaml.safe_load((DEPLOY / "compose.cluster.yaml").read_text())
SERVICES = COMPOSED["services"]
REALMS = COMPOSED["configs"]["realms"]["content"]
BASE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
SERVERS = [name for name in SERVICES if name.startswith("redis")]
PASSWORD = "s3cret5"


@pytest.fixture
def ports(tmp_path):
    """Port of each server, started with the script of its service."""
    *shell, script = SERVICES["redis-2"]["command"]
    started, found = [], {}
    environment = {**os.environ, "STORE_PASSWORD": PASSWORD}
    for name in SERVERS:
        port, folder = free_port(), tmp_path / name
        folder.mkdir()
        own = f"port {port}\ndir {folder}\ncluster-port {free_port()}"
        (folder / "redis.conf").write_text((DEPLOY / "redis.conf").read_text().replace("port 6379", own))
        text = script.replace("/etc/redis", str(folder)).replace("/tmp/redis.conf", f"{folder}/made.conf")
        command = [*shell, text.replace("$$", "$")]
        started.append(subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        found[name] = port
    yield found
    for process in started:
        process.kill()
        process.wait()


def known(port):
    return Redis("127.0.0.1", port, password=PASSWORD, decode_responses=True)


def state(port):
    with contextlib.suppress(RedisError), known(port) as client:
        return client.cluster("INFO")["cluster_state"]
    return None


def test_the_servers_form_a_cluster_once_and_hubs_serve_three_realms_on_it(ports, tmp_path):
    assert SERVICES["redis"]["command"] == SERVICES["redis-2"]["command"]
    wait_until(lambda: all(state(port) for port in ports.values()))
    *shell, script = SERVICES["cluster"]["command"]
    script = re.sub(r"\b(redis(?:-\d)?):6379", lambda found: f"127.0.0.1:{ports[found[1]]}", script)
    script = script.replace("-h redis ", f"-p {ports['redis']} ")
    for _ in range(2):  # the second time there is a cluster already
        done = subprocess.run(
            [*shell, script], env={**os.environ, "REDISCLI_AUTH": PASSWORD}, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stdout + done.stderr
        wait_until(lambda: all(state(port) == "ok" for port in ports.values()))
    hosts = ",".join(f"127.0.0.1:{port}" for port in ports.values())
    named = re.sub(r"\b(redis(?:-\d)?):6379", lambda found: f"127.0.0.1:{ports[found[1]]}", REALMS)
    (tmp_path / "realms.toml").write_text(named.replace("${STORE_PASSWORD}", PASSWORD))
    more = {"HUB_REALMS_FILE": str(tmp_path / "realms.toml")}
    hubs = [HubProcess({"HUB_REDIS_URL": f"redis+cluster://:{PASSWORD}@{hosts}", **more}) for _ in range(2)]
    try:
        for hub in hubs:
            hub.wait_until_ready()
            wait_until(
                lambda hub=hub: set(states(hub).items()) == {("default", "open"), ("eu", "open"), ("us", "open")}
            )
            assert PASSWORD not in hub.log_path.read_text()
        node = {"x-hub-secret": hubs[0].node_secret}
        httpx.post(f"{hubs[0].url}/node/register", json={"nodeId": "us-7"}, headers=node, timeout=60).raise_for_status()
        there = httpx.get(f"{hubs[1].url}/realms/us/nodes", headers=node, timeout=60)
        assert there.json() == ["us-7"]
    finally:
        for hub in hubs:
            hub.kill()


def states(hub):
    answer = httpx.get(f"{hub.url}/realms", headers={"x-hub-secret": hub.admin_secret}, timeout=60)
    return {each["name"]: each["state"] for each in answer.json()["realms"]}


def test_each_realm_is_on_its_own_shard(tmp_path):
    (tmp_path / "realms.toml").write_text(REALMS)
    prefixes = [DEFAULT_PREFIX, *(realm.prefix for realm in read_realms(tmp_path / "realms.toml", DEFAULT_PREFIX))]
    thirds = {key_slot(prefix.encode()) * 3 // 16384 for prefix in prefixes}
    assert thirds == {0, 1, 2}
    for name in ("hub-1", "hub-2"):
        (mounted,) = SERVICES[name]["configs"]
        assert mounted == {"source": "realms", "target": SERVICES[name]["environment"]["HUB_REALMS_FILE"]}


def test_the_hubs_know_every_server_and_have_a_password():
    for name in ("hub-1", "hub-2", "internal-worker"):
        url = SERVICES[name]["environment"]["HUB_REDIS_URL"]
        named = read_cluster_url(re.sub(r"\$\{.*?\}", PASSWORD, url))
        assert [host for host, _ in named.hosts] == SERVERS
        assert named.server == {"password": PASSWORD}
    assert SERVICES["cluster"]["image"] == SERVICES["redis-2"]["image"] == BASE["redis"]["image"]
    assert "ports" not in SERVICES["redis-2"]
