"""The peers the jobs part is measured against: an environment of its own for each, made on first use, and processes."""

from __future__ import annotations

import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread

from tests.bench.machine import CORES, Missing
from tests.world import clean_environment

SCRIPTS = Path(__file__).parent / "peers"
ENVIRONMENTS = Path(sys.prefix) / "peers"
PATIENCE_S = 120  # between two lines of a process


def python_of(peer: str) -> str:
    """The interpreter of a peer's environment, which holds exactly what `peers/<peer>.txt` names. Raises `Missing`."""
    folder, pins = ENVIRONMENTS / peer, SCRIPTS / f"{peer}.txt"
    python, made_from = folder / "bin" / "python", folder / "made-from.txt"
    if made_from.exists() and made_from.read_text() == pins.read_text():
        return str(python)
    print(f"  installing {peer} into {folder}", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    install = [str(python), "-m", "pip", "install", "--quiet", "--no-deps", "--requirement", str(pins)]
    for command in ([sys.executable, "-m", "venv", str(folder)], install):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Missing(f"The benchmarks need {peer}, and it could not be installed:\n{done.stderr[-1000:]}")
    made_from.write_text(pins.read_text())
    return str(python)


def version_of(peer: str, package: str) -> str:
    """`package version` as it is pinned."""
    pinned = dict(line.split("==") for line in (SCRIPTS / f"{peer}.txt").read_text().split())
    return f"{package} {pinned[package]}"


class Talking:
    """A process that is told things and says things, a line each; it may use every core."""

    def __init__(self, running: subprocess.Popen[str], log: Path) -> None:
        self._running = running
        self._log = log
        self._said: queue.SimpleQueue[str] = queue.SimpleQueue()
        Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self._running.stdout
        for line in self._running.stdout:
            self._said.put(line)
        self._said.put("")

    def tell(self, line: object) -> None:
        """Send it a line."""
        assert self._running.stdin
        self._running.stdin.write(f"{line}\n")
        self._running.stdin.flush()

    def hear(self) -> list[str]:
        """Return the words of the next line it prints; fails with its last words when none comes."""
        with suppress(queue.Empty):
            if line := self._said.get(timeout=PATIENCE_S):
                return line.split()
        raise RuntimeError(f"{self._running.args!r} said nothing more:\n{self._log.read_text()[-2000:]}")


@contextmanager
def talking(command: Sequence[str], environment: dict[str, str] | None = None) -> Iterator[Talking]:
    """Start a process; it is killed on leaving."""
    with tempfile.NamedTemporaryFile() as log:
        running = subprocess.Popen(
            command,
            env={**clean_environment(), **(environment or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            bufsize=1,
            preexec_fn=_everywhere,
            start_new_session=True,
        )
        with running:
            try:
                yield Talking(running, Path(log.name))
            finally:
                os.killpg(running.pid, signal.SIGKILL)  # and the processes that it has forked


def _everywhere() -> None:
    os.sched_setaffinity(0, CORES)
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, -20)


def let_children_roam() -> None:
    """Let every process this one has started, and all their threads, use every core."""
    for children in Path("/proc/self/task").glob("*/children"):
        for child in children.read_text().split():
            for thread in Path(f"/proc/{child}/task").iterdir():
                os.sched_setaffinity(int(thread.name), CORES)
