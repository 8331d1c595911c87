"""`deploy/compose.cluster.yaml`: its scripts make a cluster of servers of this machine, and a hub serves on it."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml
from redis import Redis
from redis.exceptions import RedisError

from hub.settings.cluster import read_cluster_url
from tests.world import HubProcess, free_port, wait_until

DEPLOY = Path(__file__).parent.parent / "deploy"
SERVICES = yaml.safe_load((DEPLOY / "compose.cluster.yaml").read_text())["services"]
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


def test_the_servers_become_a_cluster_once_and_a_hub_serves_on_it(ports):
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
    hub = HubProcess({"HUB_REDIS_URL": f"redis+cluster://:{PASSWORD}@{hosts}"})
    try:
        hub.wait_until_ready()
        assert PASSWORD not in hub.log_path.read_text()
    finally:
        hub.kill()


def test_the_hubs_know_every_server_and_have_a_password():
    for name in ("hub-1", "hub-2", "internal-worker"):
        url = SERVICES[name]["environment"]["HUB_REDIS_URL"]
        named = read_cluster_url(re.sub(r"\$\{.*?\}", PASSWORD, url))
        assert [host for host, _ in named.hosts] == SERVERS
        assert named.server == {"password": PASSWORD}
    assert SERVICES["cluster"]["image"] == SERVICES["redis-2"]["image"] == BASE["redis"]["image"]
    assert "ports" not in SERVICES["redis-2"]
