"""`hub top` in front of a real terminal: rows, keys, events, and a terminal that is as it was, however it ends."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterator
from functools import partial

import httpx
import pytest
from rich.console import Console

from hub.cli.top_views import TABS, Frame, Snapshot, View, arranged
from tests.cli.command import Command, register
from tests.cli.terminal import Terminal
from tests.world import PATIENCE_S, HubProcess, age_node, wait_until

ALTERNATE, NORMAL, CURSOR = "\x1b[?1049h", "\x1b[?1049l", "\x1b[?25h"


class Top(Terminal):
    """`hub top` in front of a terminal of 100 by 30."""

    def __init__(self, command: Command, **environment: str) -> None:
        self._read_from = 0
        super().__init__(command, "top", more=environment, size=(30, 100))

    @property
    def lately(self) -> str:
        """Return what was drawn since the last key."""
        return self.shown[self._read_from :]

    def press(self, keys: str) -> None:
        self._read_from = len(self.shown)
        self.type(keys)

    def until(self, text: str) -> None:
        wait_until(lambda: text in self.lately, 60, lambda: f"never showed {text!r}: {self.lately[-3000:]!r}")

    def is_as_before(self) -> bool:
        """Modes, screen and cursor."""
        return (
            self.has_its_modes_back and self.shown.rfind(NORMAL) > self.shown.rfind(ALTERNATE) and CURSOR in self.shown
        )


@pytest.fixture
def top() -> Iterator[Callable[..., Top]]:
    opened: list[Top] = []

    def run(command: Command, **environment: str) -> Top:
        opened.append(Top(command, **environment))
        return opened[-1]

    yield run
    for each in opened:
        each.close()


@pytest.fixture
def nodes(announce: Callable[..., None]) -> None:
    announce("rack-1", pools={"gpu:a100": 2})
    announce("rack-2", pools={"browser:chromium": 3})


@pytest.mark.usefixtures("nodes")
def test_top_shows_rows_and_keys_change_the_view(top, command: Command):
    seen = top(command)
    for text in ("2 nodes are alive", "gpu:a100", "browser:chromium", "POOL▲", "live"):
        seen.until(text)
    seen.press("2")
    seen.until("rack-2")
    assert "NODE▲" in seen.lately
    seen.press("/k-1")  # a digit alone may be in the age of a beat as well
    seen.until("filter: k-1")
    seen.press("\r")
    seen.until("/ filter")
    shown = seen.lately
    assert "rack-1" in shown
    assert "rack-2" not in shown
    seen.press("\x1b")
    seen.until("rack-2")
    seen.press("r")
    wait_until(lambda: bool(re.search("NODE▼[^▲]*rack-2[^▲]*rack-1", seen.lately)), 60, lambda: seen.lately)
    seen.press("0")
    seen.until("No queue.")
    wait_until(lambda: bool(re.search("No tasks[.]|SUBMITTED", seen.lately)), 60, lambda: seen.lately)  # of other tests
    assert "Not refreshed" not in seen.shown
    seen.press("q")
    assert seen.end() == 0
    assert seen.is_as_before()


@pytest.mark.usefixtures("nodes")
def test_top_shows_changes_without_a_key_press(top, command: Command, shared_hub: HubProcess):
    seen = top(command)
    seen.until("0 of 5 slots lent")
    seen.until("live")
    headers = {"x-hub-secret": shared_hub.runner_secret}
    body = {"labelKey": "gpu:a100"}
    lent = httpx.post(f"{shared_hub.url}/session/borrow", json=body, headers=headers, timeout=PATIENCE_S).json()
    seen.until("1 of 5 slots lent")
    given = {**body, "browserId": lent["browserId"]}
    httpx.post(f"{shared_hub.url}/session/return", json=given, headers=headers, timeout=PATIENCE_S).raise_for_status()
    seen.press("\x03")  # Ctrl-C
    assert seen.end() == 0
    assert seen.is_as_before()


@pytest.mark.usefixtures("nodes")
def test_sigterm_restores_the_terminal(top, command: Command):
    seen = top(command)
    seen.until("gpu:a100")
    seen.process.send_signal(signal.SIGTERM)
    assert seen.end() == 0
    assert seen.is_as_before()
    assert "Traceback" not in seen.shown


@pytest.mark.usefixtures("nodes")
def test_ctrl_z_restores_the_terminal_while_top_is_stopped(top, command: Command):
    seen = top(command)
    seen.until("gpu:a100")
    seen.press("\x1a")
    wait_until(lambda: seen.is_as_before())
    seen.process.send_signal(signal.SIGCONT)
    seen.until(ALTERNATE)
    seen.until("gpu:a100")
    seen.press("q")
    assert seen.end() == 0
    assert seen.is_as_before()


def test_top_shows_a_stale_node_that_is_kept_as_silent_since_its_last_heartbeat(
    top, own_command: Command, own_hub: HubProcess
):
    register(own_hub, "rack-1", pools={"gpu:a100": 2})
    own_command("expire", "off")
    age_node(own_hub.redis, "rack-1", 7200)
    wait_until(lambda: own_hub.redis.ttl("node_alive:rack-1") > 0, why=own_hub.log)  # by a sweep
    seen = top(own_command)
    seen.until("Nobody is alive")
    seen.press("2")
    for text in ("rack-1", "stale", "2 h"):
        seen.until(text)
    seen.press("q")
    assert seen.end() == 0


def test_top_says_that_the_hub_is_gone_and_how_old_its_rows_are(top, own_command: Command, own_hub: HubProcess):
    register(own_hub, "rack-1", pools={"gpu:a100": 2})
    seen = top(own_command)
    seen.until("gpu:a100")
    own_hub.kill()
    seen.press("r")
    seen.until("Not refreshed")
    assert "gpu:a100" in seen.lately
    seen.press("q")
    assert seen.end() == 0


def test_top_works_straight_on_redis_where_no_hub_listens(top, lone_command: Command, redis_server, hub):
    seen = top(lone_command, HUB_REDIS_URL=redis_server.url)
    seen.until("straight on Redis")
    seen.until("No node is registered yet")
    seen.press("4")
    seen.until("No tasks.")
    seen.press("q")
    assert seen.end() == 0
    assert seen.is_as_before()


def test_top_shows_what_a_hub_that_is_gone_left_in_redis(top, lone_command: Command, redis_server, start_hub):
    hub = start_hub()
    register(hub, "rack-1", pools={"gpu:a100": 2})
    call = partial(httpx.request, headers={"x-hub-secret": hub.runner_secret}, timeout=PATIENCE_S)
    call("POST", f"{hub.url}/session/borrow", json={"labelKey": "gpu:a100", "runId": "night"}).raise_for_status()
    job = {"category": "analysis", "name": "Left", "schema": {}}
    jobs = f"{hub.url}/v1/joblib/rooms/lab"
    admin = {"x-hub-secret": hub.admin_secret}
    call("PUT", f"{jobs}/jobs", json=job, headers=admin).raise_for_status()
    call("POST", f"{jobs}/tasks/lab:analysis:Left", json={"payload": {}}, headers=admin).raise_for_status()
    hub.kill()
    seen = top(lone_command, HUB_REDIS_URL=redis_server.url)
    seen.until("straight on Redis")
    seen.until("gpu:a100")
    seen.press("2")
    seen.until("rack-1")
    seen.press("4")
    seen.until("lab:analysis")
    assert "pending" in seen.lately, "ids and names give way where there is no room, what a task is like does not"
    seen.press("q")
    assert seen.end() == 0
    assert seen.is_as_before()


def test_a_wrong_secret_is_reported_in_one_sentence_after_top_has_ended(top, command: Command):
    secrets = {name: "wrong" for name in command.environment if name.endswith("_SECRET")}
    seen = top(command, **secrets)
    assert seen.end() == 1
    wait_until(lambda: "The hub refuses the secret" in seen.shown)
    assert seen.shown.rfind("The hub refuses the secret") > seen.shown.rfind(NORMAL)
    assert seen.has_its_modes_back
    assert "Traceback" not in seen.shown


def test_without_a_terminal_top_recommends_status(command: Command):
    done = command("top")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "hub: hub top needs a terminal; hub status is for scripts.\n"


def drawn(view: View, seen: Snapshot, width: int = 60, height: int = 12) -> list[str]:
    console = Console(width=width, height=height, highlight=False)
    with console.capture() as capture:
        console.print(Frame(view, seen, "live"), height=height, end="")
    return capture.get().splitlines()


HOSTILE = "\x1b[2J\x07evil\nname"


def test_top_prints_no_control_characters_and_no_line_wider_than_the_terminal():
    seen = Snapshot({"sentence": HOSTILE, "troubles": [{"level": "critical", "title": HOSTILE, "text": "x" * 300}]})
    for tab in TABS:
        seen.rows[tab.name] = 3, [dict.fromkeys(("label", "nodeId", "runId", "id", "error", "state"), HOSTILE)] * 3
        lines = drawn(View(tab=tab.name), seen)
        assert not any("\x1b" in line or "\x07" in line for line in lines), tab.name
        assert max(map(len, lines)) <= 60
        assert len(lines) <= 12


@pytest.mark.parametrize("size", [(20, 4), (10, 3), (300, 80)])
def test_top_can_draw_in_terminals_of_every_size(size):
    seen = Snapshot({"sentence": "All is well."}, {"pools": (1, [{"label": "a:b", "total": 1}])})
    for tab in ("pools", "all"):
        assert len(drawn(View(tab=tab), seen, *size)) <= size[1]


def test_a_tab_shows_how_many_of_its_rows_were_fetched():
    seen = Snapshot({}, {"nodes": (10_000, [{"nodeId": f"n{number}"} for number in range(500)]), "pools": (1, [{}])})
    (tabs,) = [line for line in drawn(View(tab="nodes"), seen, 100) if "2 nodes" in line]
    assert " 1 pools 1  2 nodes 500 of 10,000  3 queue … " in tabs


def test_rows_are_sorted_as_numbers_or_words_with_unknown_values_last():
    pools = TABS[0]
    rows = [{"label": "b", "total": 9}, {"label": "A", "total": 10}, {"label": "c", "total": None}]
    seen, view = Snapshot({}, {"pools": (3, rows)}), View()
    assert [row["label"] for row in arranged(pools, view, seen)] == ["A", "b", "c"]
    view.next_column()
    assert [row["label"] for row in arranged(pools, view, seen)] == ["b", "A", "c"]
    view.turn_round()
    assert [row["label"] for row in arranged(pools, view, seen)] == ["A", "b", "c"]
    view.text = "10"
    assert [row["label"] for row in arranged(pools, view, seen)] == ["A"]
