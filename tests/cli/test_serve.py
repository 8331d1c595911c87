"""`hub serve` as a command: what it says at its start, when it refuses, how it ends."""

from __future__ import annotations

import re
import signal
import socket

import httpx
import pytest

from tests.cli.command import Command
from tests.world import PATIENCE_S, free_port, wait_until


def test_a_hub_prints_its_masked_settings_on_one_line_and_every_note_at_its_start(lone_command: Command, redis_server):
    port = free_port()
    hub = lone_command.start(
        "serve",
        "--port",
        str(port),
        HUB_REDIS_URL=redis_server.url,
        HUB_RUNNER_SECRET="hush",
        HUB_AUDIT_MAX_ENTRIES="1",
    )
    wait_until(lambda: _answers(port), 60)
    shown = [line for line in hub.err.splitlines() if " hub starting " in line]
    assert len(shown) == 1
    assert f"HUB_PORT={port}" in shown[0]
    assert "HUB_RUNNER_SECRET=***" in shown[0]
    names = set(re.findall(r"\b((?:HUB|REDIS|LOG)_[A-Z_]+)=", shown[0]))
    assert names == {"HUB_PORT", "HUB_RUNNER_SECRET", "HUB_REDIS_URL", "HUB_AUDIT_MAX_ENTRIES", "HUB_DATA_DIR"}
    assert "hush" not in hub.err
    warnings = [line for line in hub.err.splitlines() if " WARNING " in line and "HUB_AUDIT_MAX_ENTRIES" in line]
    assert len(warnings) == 1
    hub.signal(signal.SIGTERM)
    assert hub.end() == 0
    assert hub.out == ""


def _answers(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/health", timeout=PATIENCE_S).status_code == 200
    except httpx.HTTPError:
        return False


@pytest.mark.parametrize(
    ("environment", "sentence"),
    [
        ({"HUB_REDIS_URL": "redis://127.0.0.1:9"}, "does not answer"),
        ({"HUB_REDIS_URL": "amqp://there"}, "the hub knows only"),
        ({"HUB_REDIS_URL": "redis://127.0.0.1:9/0?foo=1"}, "its URL holds what is not known: "),
        ({"HUB_HOST": "0.0.0.0"}, "loopback only"),
        ({"HUB_NODE_TIMEOUT": "abc"}, "HUB_NODE_TIMEOUT='abc' cannot be read: it is a number from 1 to 31622400."),
        ({"HUB_BORROW_CONCURRENCY_CAPS": "gpu:a100=abc"}, "it is LABEL=N, separated by commas"),
    ],
    ids=["no Redis", "no Redis address", "no option of Redis", "open to everybody", "no number", "no cap"],
)
def test_a_hub_that_cannot_start_says_why_in_one_sentence(environment, sentence, lone_command: Command):
    done = lone_command("serve", **environment)
    last = done.stderr.splitlines()[-1]
    assert (done.returncode, done.stdout) == (1, "")
    assert last.startswith("hub: ")
    assert sentence in last
    assert "Traceback" not in done.stderr


def test_a_taken_port_is_reported_before_anything_is_started(lone_command: Command):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = lone_command("serve", "--port", str(port))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"hub: Port {port} of 127.0.0.1 is taken; name another with --port or HUB_PORT.\n"
    assert not (lone_command.home / "data").exists()  # a Redis would live there


def test_commands_find_the_embedded_store_of_a_running_hub_and_do_not_stop_it(lone_command: Command):
    port = free_port()
    hub = lone_command.start("serve", "--port", str(port))
    wait_until(lambda: _answers(port), 60)
    shown = lone_command("nodes")  # HUB_URL names an address without a hub
    assert (shown.returncode, shown.stdout) == (0, "No nodes.\n")
    assert "working straight on Redis at" in shown.stderr
    assert lone_command("doctor").stdout.startswith("Every invariant holds in ")
    assert _answers(port)
    hub.signal(signal.SIGTERM)
    assert hub.end() == 0
    gone = lone_command("nodes")
    assert (gone.returncode, gone.stdout) == (1, "")


def test_several_worker_processes_serve_one_port_and_one_queue(lone_command: Command, redis_server, redis):
    port = free_port()
    hub = lone_command.start("serve", "--port", str(port), "--workers", "2", HUB_REDIS_URL=redis_server.url)
    wait_until(lambda: _answers(port), 60)
    assert _lines_seen(port) == {""}
    borrower = lone_command.start(
        "borrow", "gpu:a100", "--wait", "60", "--wait-for-pool", HUB_URL=f"http://127.0.0.1:{port}"
    )
    wait_until(lambda: redis.zcard("hub:line:gpu:a100") == 1, why=lambda: borrower.err)
    assert _lines_seen(port) == {'{label="gpu:a100"} 1.0'}
    borrower.signal(signal.SIGTERM)
    borrower.end()
    wait_until(lambda: redis.zcard("hub:line:gpu:a100") == 0)
    assert _lines_seen(port) == {""}, "a queue that has ended is forgotten, whichever process is asked"
    hub.signal(signal.SIGTERM)
    assert hub.end() == 0


def _lines_seen(port: int) -> set[str]:
    """Return what `/metrics` says of queues, asked on so many connections that every process answers some."""
    seen = set()
    for _ in range(20):
        lines = httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE_S).text.splitlines()
        name = "hub_borrow_queue_length"
        seen.add(" ".join(line.removeprefix(name) for line in lines if line.startswith(name)))
    return seen
