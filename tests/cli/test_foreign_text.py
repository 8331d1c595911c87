"""Foreign text: no table, sentence, JSON or log of a command makes a terminal obey it."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cli.command import Command, leave, register
from tests.cli.joblib import Joblib
from tests.cli.mangling import EVIL, Mangling
from tests.world import PATIENCE_S, HubProcess, wait_until

ROOM = "foreign"
JOB = f"{ROOM}:modifiers:Turn"
# Each command that shows something of a hub, as a person types it; those below `None` show nothing of others.
TYPED = """
node ls; node show n1; node drain n1; node cordon n1 --reason because; node undrain n1; drain n1 --wait; pool ls;
pool show foreign:it; slot ls; slot show s1; slot hold s1 --reason because; slot ls --held; slot release s1;
lease ls; lease show s1; session ls; queue ls; queue show foreign:it; caps ls;
caps set foreign:it 3; caps show foreign:it; caps clear foreign:it; status; config ls; config show HUB_NODE_TIMEOUT;
realm ls; realm show default; autoscale foreign:it; why n1; why s1; events; ui --no-open; job ls --room {room};
job show {job}; worker ls; worker show {worker};
provider ls --room {room}; provider show --room {room} {room}:frames:Disk;
task ls --room {room}; task show {task}; task submit {job} --room {room} --payload {{}}; task cancel {task};
task retry {task}; schedule ls --room {room}; schedule show --room {room} nightly; dead ls; dead show {task};
recovery ls; recovery report; sweep; expire; brake; token ls; nodes; nodes n1; borrow foreign:it -- true;
borrow other:it -- true; return s1; return s9; undrain n1; cordon n1 --reason because; undrain n1; workers; jobs; tasks
"""
PLAIN = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r\n")  # of ours: colours, places, and the ends of lines of a terminal


@pytest.fixture(scope="module")
def ids(shared_hub: HubProcess) -> Iterator[dict[str, str]]:
    """The id of one thing of each kind that is shown."""
    register(shared_hub, "n1", slots=[{"labelKey": "foreign:it", "slotId": "s1", "endpoint": "ws://n/s"}])
    joblib = Joblib(shared_hub)
    worker = joblib.register(ROOM, "Turn")
    provider = {"category": "frames", "name": "Disk", "schema": {}, "worker_id": worker}
    joblib.ask("PUT", f"/rooms/{ROOM}/providers", **provider)
    joblib.ask("PUT", f"/rooms/{ROOM}/schedules/nightly", job=JOB, cron="0 2 * * *", payload={})
    yield {"room": ROOM, "job": JOB, "worker": worker, "task": joblib.submit(JOB)}
    joblib.ask("DELETE", f"/rooms/{ROOM}/schedules/nightly")
    joblib.ask("DELETE", f"/workers/{worker}")
    joblib.close()
    leave(shared_hub, "n1")


@pytest.fixture
def hostile(command: Command, shared_hub: HubProcess) -> Iterator[Command]:
    """The command at the proxy."""
    proxy = Mangling(shared_hub.url)
    command.environment["HUB_URL"] = proxy.url
    yield command
    command.close()
    proxy.close()


def obeyed(text: str) -> set[str]:
    return {char for char in PLAIN.sub("\n", text) if not char.isprintable() and char != "\n"}


def texts(document: Any) -> Iterator[str]:
    match document:
        case str():
            yield document
        case list() | dict():
            for each in document.values() if isinstance(document, dict) else document:
                yield from texts(each)


def test_no_command_prints_control_characters_of_foreign_text(hostile: Command, ids: dict[str, str]):
    mangled = 0
    for typed in TYPED.format(**ids).split(";"):
        words = typed.split()
        for form in ([], ["--json"]):
            if form and "--" in words:
                continue
            done = hostile(*words, *form)
            assert (typed, obeyed(done.stdout), obeyed(done.stderr)) == (typed, set(), set())
            assert (typed, "Traceback" in done.stderr, "A fault" in done.stderr) == (typed, False, False), done.stderr
            mangled += "gnp" in done.stdout + done.stderr
            if form and done.returncode == 0:  # and it is still what the hub has said
                assert all(text.endswith(EVIL) for text in texts(json.loads(done.stdout)) if "gnp" in text)
    assert mangled > 60


@pytest.mark.parametrize("words", ["events --follow", "events --follow --json", "nodes --watch"])
def test_watching_commands_print_no_control_characters_of_foreign_text(
    hostile: Command, shared_hub: HubProcess, ids: dict[str, str], terminal, words: str
):
    seen = terminal(hostile, *words.split(), before="")
    if "--follow" not in words:
        seen.until("n1")
    register(shared_hub, "n2")
    leave(shared_hub, "n2")
    wait_until(lambda: seen.shown.count("gnp") > 1, PATIENCE_S, lambda: repr(seen.shown))
    seen.process.send_signal(signal.SIGTERM)
    seen.end()
    assert obeyed(seen.shown) == set()
    assert "Traceback" not in seen.shown


@pytest.mark.parametrize("words", [["agent"], None], ids=["agent", "python -m hub.client"])
def test_the_log_of_an_agent_has_one_line_for_each_event(hostile: Command, words: list[str] | None):
    options = ["--node", "n3", "--slots", "foreign:other=1"]
    alone = f"import sys; from hub.client import __main__ as it; sys.argv[1:] = {options}; sys.exit(it.main())"
    before = "" if words else alone
    for secret in ("wrong", hostile.environment["HUB_NODE_SECRET"]):
        agent = hostile.start(*(words + options if words else ()), before=before, HUB_NODE_SECRET=secret)
        is_heard = lambda agent=agent: "announced" in agent.err or agent.process.poll() is not None  # noqa: E731
        wait_until(is_heard, PATIENCE_S, lambda agent=agent: agent.err)
        agent.signal(signal.SIGTERM)
        agent.end()
        assert obeyed(agent.out + agent.err) == set()
