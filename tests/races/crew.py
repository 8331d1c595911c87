"""Nodes and borrowers as processes of their own: `python -m tests.races.crew JOB`, JOB being JSON.

One process prepares everything and forks a child for each name, so that fifty cost little; it forks a child again when
one was killed. Each line of the log is one JSON object with `at`, the time of this machine, and `who`.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path
from types import FrameType
from typing import Any

import hub.cli
from hub.client import NodeAgent
from tests.forks import begin
from tests.notes import Notes, whole_notes
from tests.races.careful import keep_for_ever
from tests.races.people import AnyHub, Note, borrow_for_ever, wait_for_ever
from tests.world import clean_environment, wait_until

_PR_SET_PDEATHSIG = 1


async def be_a_node(job: dict[str, Any], name: str, note: Note) -> None:
    """Offer slots until killed; a SIGTERM ends it as a service would be ended."""
    agent = NodeAgent(
        name,
        pools={job["label"]: job["slots"]},
        url="http://127.0.0.1:1",
        secret=job["secret"],
        policy=job.get("policy", "reuse"),
        transport=AnyHub(job["ports"]),
    )
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, agent.stop)
    async with agent:
        note("announced")
        await agent.stopped()


def be_an_agent(job: dict[str, Any], name: str) -> None:
    """Be `hub agent`; it knows one hub only."""
    os.environ |= {"HUB_NODE_SECRET": job["secret"], "HUB_URL": f"http://127.0.0.1:{job['ports'][0]}"}
    sys.argv = ["hub", "agent", "--node", name, "--slots", f"{job['label']}={job['slots']}"]
    hub.cli.main()


class Supervisor:
    """Keeps a child alive for every name; a child killed is replaced after a pause."""

    def __init__(self, job: dict[str, Any]) -> None:
        self._job = job
        self._notes = Notes(job["log"])
        self._children: dict[int, str] = {}
        self._due: dict[str, float] = {}
        self._stopping = False

    def run(self) -> None:
        signal.signal(signal.SIGTERM, self._stop)
        self._due = dict.fromkeys(self._job["names"], 0.0)
        while self._children or not self._stopping:
            for name, due in list(self._due.items()):
                if not self._stopping and time.monotonic() >= due:
                    del self._due[name]
                    self._start(name)
            pid, _ = os.waitpid(-1, os.WNOHANG) if self._children else (0, 0)
            if pid:
                name = self._children.pop(pid)
                self._note(name, "died", pid=pid)
                self._due[name] = time.monotonic() + random.choice(self._job["restart_s"])
            else:
                time.sleep(0.02)

    def _stop(self, _: int, __: FrameType | None) -> None:
        self._stopping = True
        for pid in self._children:
            os.kill(pid, self._job.get("end", signal.SIGTERM))

    def _start(self, name: str) -> None:
        pid = os.fork()
        if pid:
            self._children[pid] = name
            self._note(name, "born", pid=pid)
            return
        try:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            random.seed(os.getpid())
            if self._job["kind"] == "agent":
                be_an_agent(self._job, name)
            acts = {"node": be_a_node, "borrower": borrow_for_ever, "waiter": wait_for_ever, "careful": keep_for_ever}
            asyncio.run(
                acts[self._job["kind"]](self._job, name, lambda event, **facts: self._note(name, event, **facts))
            )
        finally:
            os._exit(0)

    def _note(self, name: str, event: str, **facts: Any) -> None:
        self._notes.write(at=time.time(), who=name, event=event, **facts)


class Crew:
    """A supervisor and its children, as seen by a test."""

    def __init__(self, folder: Path, kind: str, names: list[str], ports: list[int], secret: str, **job: Any) -> None:
        self.names = names
        self._log = folder / f"{kind}-{names[0]}.log"
        self._notes = Notes(self._log)
        whole = {"kind": kind, "names": names, "ports": ports, "secret": secret, "log": str(self._log), **job}
        self._out_path = folder / f"{kind}-{names[0]}.out"
        self._out = self._out_path.open("wb")
        job_text = json.dumps({"restart_s": [0.2], **whole})
        self._process = begin([job_text], clean_environment(), self._out, self._out, module="tests.races.crew")

    def lines(self) -> list[dict[str, Any]]:
        """Return the notes of the process so far, notes about it, and the announcements in the log of `hub agent`."""
        text = self._out_path.read_text(errors="replace")  # its last line may be just being written
        said = re.findall(r"^(\S+) INFO +announced node=(\S+).*\n", text, re.MULTILINE)
        announced = [
            {"at": datetime.fromisoformat(at).timestamp(), "who": name, "event": "announced"} for at, name in said
        ]
        return [*whole_notes(self._log), *announced]

    def pids(self) -> dict[str, int]:
        """Return the children that live, by name."""
        found: dict[str, int] = {}
        for line in self.lines():
            if line["event"] == "born":
                found[line["who"]] = line["pid"]
            elif line["event"] == "died":
                found.pop(line["who"], None)
        return found

    def kill(self, name: str) -> bool:
        """SIGKILL one child, noting when; False when it is dead at this moment."""
        pid = self.pids().get(name)
        if pid is None:
            return False
        self.note(name, "killed")
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return False
        return True

    def note(self, name: str, event: str) -> None:
        """Add a line to the log."""
        self._notes.write(at=time.time(), who=name, event=event)

    def wait_for(self, event: str, names: set[str] | None = None, seconds: float = 30) -> None:
        """Wait until every child has noted the event at least once."""
        wanted = names or set(self.names)
        wait_until(lambda: wanted <= {line["who"] for line in self.lines() if line["event"] == event}, seconds)

    def stop(self) -> None:
        """End it; SIGTERM for the children, or what the job says."""
        if self._process.poll() is None:
            self._process.terminate()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._out.close()


def main() -> None:
    Supervisor(json.loads(sys.argv[1])).run()


if __name__ == "__main__":
    main()
