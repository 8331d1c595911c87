"""`hub demo`: what it prints is true, and nothing of it stays."""

from __future__ import annotations

import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hub.fleet.chromium import NAMES
from hub.fleet.file import read_fleet
from tests.cli.command import Command, Running, alive
from tests.world import free_port, wait_until

READY = "Ctrl-C ends it all."


@pytest.fixture
def demo(lone_command: Command, tmp_path: Path) -> Iterator[Running]:
    """A running demo on a free port, its throw-away folder below `tmp_path`."""
    running = lone_command.start("demo", "--port", str(free_port()), TMPDIR=str(tmp_path))
    running.until_out(READY, 90)
    yield running
    print(f"ended: {running.process.poll()}\n{running.out}\n{running.err}")  # shown when the test has failed
    if running.process.poll() is None:
        running.signal(signal.SIGTERM)
        running.end()


def lines_to_try(demo: Running) -> list[str]:
    return [line[2:] for line in demo.out.splitlines() if line.startswith("  ")]


def pids(demo: Running) -> dict[str, int]:
    hub = re.search(r"\(pid (\d+)\)", demo.out)
    assert hub
    agents = re.findall(r"^(demo-\w+) +(\d+) ", demo.out, re.MULTILINE)
    return {"hub": int(hub[1]), **{name: int(pid) for name, pid in agents}}


def environment(lone_command: Command) -> dict[str, str]:
    return {name: value for name, value in lone_command.environment.items() if name != "HUB_URL"}


def shell(line: str, lone_command: Command) -> subprocess.CompletedProcess[str]:
    chosen = environment(lone_command)
    return subprocess.run(line, shell=True, env=chosen, capture_output=True, text=True, timeout=90, check=False)


def test_the_five_commands_that_the_demo_prints_work(demo: Running, lone_command: Command):
    curl, nodes, borrow, sessions, kill = lines_to_try(demo)
    assert '"gpu:a100:eu"' in shell(curl, lone_command).stdout
    wait_until(lambda: shell(nodes, lone_command).stdout.count("alive") == 3)
    assert shell(borrow, lone_command).stdout.startswith("I hold demo-gpus-gpu.a100.eu-")
    lend, show = sessions.split(" & sleep 1; ")  # which may not be enough of a machine that is busy with tests
    lent = subprocess.Popen(f"exec {lend.replace('sleep 15', 'sleep 60')}", shell=True, env=environment(lone_command))
    try:
        wait_until(lambda: "browser:chromium" in shell(show, lone_command).stdout)
    finally:
        lent.terminate()
        lent.wait()
    listed = shell(kill, lone_command).stdout

    def gone() -> bool:
        after = shell(nodes, lone_command).stdout
        return "demo-gpus" not in after and after.count("alive") == 2

    assert listed.count("demo-") >= 2
    wait_until(gone)
    for line in (r"WARNING node expired .*node=demo-gpus", r"node sweep .*expired=1"):
        wait_until(lambda pattern=line: re.search(pattern, demo.err) is not None, why=lambda: demo.err)


def test_the_demo_lends_a_real_browser_where_one_is_installed_by_a_fleet_file_to_copy(
    demo: Running, lone_command: Command, tmp_path: Path
):
    found = re.search(r"^A fleet file that lends all of it, to copy: (\S+)$", demo.out, re.MULTILINE)
    assert found
    (tmp_path / "fleet.toml").write_text(Path(found[1]).read_text())
    drivers = {driver.table.label: driver.table.driver for driver in read_fleet(tmp_path / "fleet.toml").drivers}
    browser = next(filter(None, map(shutil.which, NAMES)), None)
    assert drivers == {
        "browser:chromium": "chromium" if browser else "command",
        "browser:firefox": "command",
        "gpu:a100:eu": "command",
        "gpu:t4:eu": "command",
        "licence:catia": "command",
    }
    if browser is None:
        assert "for there is no Chromium here" in demo.out
        return
    assert f"browser:chromium lends a real browser, {browser};" in demo.out
    borrow = (
        lines_to_try(demo)[2]
        .replace("gpu --where 'vram >= 40'", "browser --where 'major >= 1'")
        .replace("$HUB_SLOT_ID", "$HUB_SLOT_ENDPOINT")
    )
    assert shell(borrow, lone_command).stdout.startswith("I hold ws://127.0.0.1:")


def test_ctrl_c_ends_the_demo_and_leaves_no_process_or_file(demo: Running, tmp_path: Path):
    running = pids(demo)
    assert len(running) == 4
    assert [pid for pid in running.values() if not alive(pid)] == []
    assert list(tmp_path.glob("hub-demo-*")) != []
    demo.signal(signal.SIGINT)
    assert demo.end() == 0
    assert [pid for pid in running.values() if alive(pid)] == []
    assert list(tmp_path.glob("hub-demo-*")) == []
    assert "Traceback" not in demo.err


def test_a_killed_demo_takes_its_processes_with_it(demo: Running):
    running = pids(demo)
    demo.kill()
    wait_until(lambda: not any(alive(pid) for pid in running.values()))


def test_a_demo_whose_port_is_taken_says_so_and_uses_another(lone_command: Command):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        demo = lone_command.start("demo", HUB_PORT=str(port))
        demo.until_out(READY, 90)
        demo.signal(signal.SIGTERM)
        assert demo.end() == 0
    note = re.match(rf"hub: port {port} is taken, so the demo listens on (\d+)\.\n", demo.err)
    assert note
    assert f"http://127.0.0.1:{note[1]} " in demo.out
