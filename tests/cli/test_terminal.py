"""Commands in a terminal: colours, width, and Ctrl-C."""

from __future__ import annotations

import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from hub.cli.app import GROUPS
from tests.cli.command import Command, alive, leave, register
from tests.world import HubProcess, RedisServer, wait_until


@pytest.fixture(autouse=True)
def node(announce: Callable[..., None]) -> None:
    """A node with one slot and a long label."""
    announce("n1", pools={"gpu:a100": 1}, labels={"rack": "r" * 60})


def test_tables_have_colours_and_fit_the_width_of_the_terminal(terminal, command: Command):
    seen = terminal(command, "nodes")
    assert seen.end() == 0
    assert "\x1b[32malive\x1b[0m" in seen.shown
    plain = seen.shown
    for code in ("\x1b[32m", "\x1b[1m", "\x1b[0m", "\x1b[2m"):
        plain = plain.replace(code, "")
    assert "\x1b" not in plain
    assert max(len(line) for line in plain.splitlines()) <= 80
    assert plain.count("r") >= 60  # folded, not cut off


def test_an_id_is_never_broken_and_with_wide_no_column_is(terminal, command: Command, shared_hub: HubProcess):
    """An id that is copied into the next command stays on one line, however narrow the terminal."""
    name = "rack-" + "7" * 90
    register(shared_hub, name, pools={"gpu:v100": 1}, labels={"rack": "r" * 60})
    try:
        for words in ((), ("--wide",)):
            seen = terminal(command, "nodes", *words)
            assert seen.end() == 0
            assert name in seen.shown
            assert ("rack=" + "r" * 60 in seen.shown) == (words != ()), seen.shown
    finally:
        leave(shared_hub, name)


def test_ctrl_c_returns_a_held_slot(terminal, command: Command):
    held = terminal(command, "borrow", "gpu:a100")
    held.until("until you stop")
    held.type("\x03")
    assert held.end() == 0
    assert "n1-gpu.a100-1 is given back." in held.shown
    assert "Traceback" not in held.shown
    assert command.ask("/sessions")["total"] == 0


def test_ctrl_c_reaches_the_command_once_and_its_exit_code_is_kept(terminal, command: Command, tmp_path: Path):
    script = (
        f"trap 'echo int >> {tmp_path}/ints' INT; echo up; while [ ! -e {tmp_path}/go ]; do sleep 0.05; done; exit 9"
    )
    running = terminal(command, "borrow", "gpu:a100", "--", "sh", "-c", script)
    running.until("up")
    running.type("\x03")
    wait_until(lambda: (tmp_path / "ints").exists())
    (tmp_path / "go").touch()
    assert (running.end(), (tmp_path / "ints").read_text()) == (9, "int\n")
    assert command.ask("/sessions")["total"] == 0


def test_watched_output_is_refreshed_in_place_until_ctrl_c(terminal, command: Command, tmp_path: Path):
    file = tmp_path / "recovery.toml"
    file.write_text(f'[[sources]]\nname = "a"\ntable = "b"\nurl = "sqlite+aiosqlite:///{tmp_path}/none.db"\n')
    seen = terminal(command, "recovery", "watch", "--interval", "0.2s", "--file", str(file))
    wait_until(lambda: seen.shown.count("\x1b[H\x1b[J") > 2)
    seen.type("\x03")
    assert seen.end() == 0
    assert "until Ctrl-C" in seen.shown
    assert "Traceback" not in seen.shown


def test_the_command_of_a_borrow_can_read_from_the_terminal(terminal, command: Command):
    running = terminal(command, "borrow", "gpu:a100", "--", "sh", "-c", "echo up; read word; echo got $word")
    running.until("up")
    running.type("hello\n")
    running.until("got hello")
    assert running.end() == 0


def test_processes_started_by_the_command_end_too_when_the_lease_is_lost(
    terminal, own_hub, own_command, tmp_path: Path
):
    register(own_hub, "n1", pools={"gpu:a100": 1})
    script = f"trap '' TERM; (trap '' TERM; sh -c 'echo $$ > {tmp_path}/pid; exec sleep 100'); echo over"
    running = terminal(own_command, "borrow", "gpu:a100", "--ttl", "8", "--", "sh", "-c", script)
    wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text() != "")
    own_hub.kill()
    assert running.end() == 1
    wait_until(lambda: not alive(int((tmp_path / "pid").read_text())))


def test_a_waiting_borrow_updates_its_position_on_one_line(terminal, command: Command):
    command.start("borrow", "gpu:a100").until_out("TOKEN")
    waiting = terminal(command, "borrow", "gpu:a100", "--wait", "60")
    waiting.until("number 1 in the queue")
    waiting.type("\x03")
    assert waiting.end() == 1
    assert "Interrupted before a slot" in waiting.shown
    assert waiting.shown.endswith("\n")
    assert "\x1b[?25h" in waiting.shown  # the cursor is back


def test_a_long_operation_shows_its_progress(terminal, own_command: Command, own_hub: HubProcess):
    register(own_hub, "n2", pools={"gpu:h100": 1})
    held = own_command.start("borrow", "gpu:h100")
    held.until_out("TOKEN")
    draining = terminal(own_command, "drain", "n2", "--wait")
    draining.until("0/1")
    held.signal(signal.SIGTERM)
    draining.until("is safe to kill")
    assert draining.end() == 0


def test_nodes_are_refreshed_in_place_until_ctrl_c(terminal, command: Command, shared_hub: HubProcess):
    seen = terminal(command, "node", "ls", "--watch")
    seen.until("every 2.0 s, until Ctrl-C")
    register(shared_hub, "comes-later", pools={"gpu:h100": 1})
    try:
        seen.until("comes-later")
    finally:
        leave(shared_hub, "comes-later")
    wait_until(lambda: "n1" in seen.picture and "comes-later" not in seen.picture, 60, lambda: repr(seen.picture))
    seen.type("\x03")
    assert seen.end() == 0
    assert "Traceback" not in seen.shown


def test_help_fits_its_groups_into_the_width_of_the_terminal(terminal, command: Command):
    seen = terminal(command, "--help")
    assert seen.end() == 0
    assert max(map(len, seen.plain.splitlines())) <= 80
    places = [seen.plain.index(f"─ {title} ─") for title in GROUPS]
    assert places == sorted(places)
    text = " ".join(seen.plain.replace("│", " ").split())
    for name, entry in ((name, entry) for group in GROUPS.values() for name, entry in group.items()):
        assert entry.hidden or f"{name} {entry.summary}" in text, name


def test_the_doctor_and_a_reset_show_their_progress(
    terminal, own_command: Command, redis_server: RedisServer, tmp_path: Path
):
    """Drawn at least once, however little there is to do, and gone before the result."""
    examined = terminal(own_command, "doctor", more={"HUB_REDIS_URL": redis_server.url})
    assert examined.end() == 0
    assert examined.plain.index("keys ━") < examined.plain.index("Every invariant holds")
    file, database = tmp_path / "recovery.toml", tmp_path / "shop.db"
    file.write_text(f'[[sources]]\nname = "orders"\ntable = "orders"\nurl = "sqlite+aiosqlite:///{database}"\n')
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, status TEXT, updated_at TIMESTAMP)")
        connection.execute("INSERT INTO orders VALUES (1, 'Processing', '2020-01-01 00:00:00')")
    reset = terminal(own_command, "recovery", "reset", "--source", "orders", "--file", str(file))
    assert reset.end() == 0, reset.shown
    assert reset.plain.index("reset ━") < reset.plain.index("orders: 1 record reset")
