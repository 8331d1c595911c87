"""`hub` processes that need not import everything anew: forks of a process that has done so once.

Such a hub, or command, is a process of its own, with an environment, a folder, streams and an end of its own; it only
does not pay for the start of an interpreter, of which the tests need hundreds. `python -m tests.forks` is the process
that forks. Tests about the start itself run `python -m hub.cli`, and so do tests with code that has to run before
anything of the hub is imported.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, ClassVar, NoReturn

import hub.cli

TOP = Path(__file__).parent.parent
# These decide while an interpreter starts, or have processes started that begin like this one.
AT_START = ("PYTHON", "LANG", "LC_", "HUB_WORKERS")
# What libraries import when they first need it, and nearly every process needs.
LATER = ("anyio._backends._asyncio", "httpcore", "rich._emoji_codes", "typer._click.decorators", "uvicorn.loops.uvloop")
DATABASES = ("asyncpg", "sqlalchemy.dialects.postgresql.asyncpg", "sqlalchemy.dialects.sqlite.aiosqlite", "asyncmy")


class Fork:
    """A forked child with the part of `subprocess.Popen` that tests use."""

    def __init__(self, args: Sequence[str], talk: socket.socket) -> None:
        self.args = args
        self.returncode: int | None = None
        self._talk = talk
        self._said = b""
        self._talk.settimeout(300)  # the first one waits until everything is imported
        self.pid = self._number()

    def poll(self) -> int | None:
        """Return the exit code, None while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code once it has ended; `subprocess.TimeoutExpired` when it does not in time."""
        if self.returncode is None:
            self._talk.settimeout(timeout)
            try:
                self.returncode = self._number()
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired(self.args, timeout or 0) from None
            self._talk.close()
        return self.returncode

    def _number(self) -> int:
        while b"\n" not in self._said:
            more = self._talk.recv(64)
            assert more, f"nobody can say what became of {self.args}"
            self._said += more
        number, _, self._said = self._said.partition(b"\n")
        return int(number)

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Forks:
    """Begins processes; any number of threads may, side by side."""

    ready: ClassVar[Forks | None] = None  # None: everything is started as a shell would

    def __init__(self) -> None:
        self._control: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._beginning = threading.Lock()

    def start(self, wanted: Mapping[str, Any], out: Any, err: Any) -> Fork:
        """Begin what `_become` is told, with these two streams and nothing to read on stdin."""
        mine, theirs = socket.socketpair()
        with theirs:
            socket.send_fds(self._begun(), [b"!"], [theirs.fileno(), out.fileno(), err.fileno()])
        mine.sendall(json.dumps(wanted).encode() + b"\n")
        return Fork([wanted["module"], *wanted["words"]], mine)

    def _begun(self) -> socket.socket:
        with self._beginning:
            if self._control is None:
                self._control, theirs = socket.socketpair()
                with theirs:
                    command = [sys.executable, "-m", "tests.forks", str(theirs.fileno())]
                    self._process = subprocess.Popen(command, cwd=TOP, pass_fds=[theirs.fileno()])
            return self._control

    def close(self) -> None:
        """End the process that forks; safe when there is none."""
        if self._control is not None and self._process is not None:
            self._control.close()
            self._process.wait(60)


def begin(
    words: Sequence[str],
    environment: Mapping[str, str],
    out: Any,
    err: Any,
    cwd: Path | None = None,
    module: str = "hub.cli",
    *,
    before: str = "",
    alone: bool = False,
    anew: bool = False,
) -> Fork | subprocess.Popen[bytes]:
    """Start `hub`, or another module that has a `main`, with these words: a fork where that comes to the same.

    `before` is Python that runs in it first; `alone` is in a session of its own; `anew` is with nothing imported yet.
    """
    inherited = {name: text for name, text in environment.items() if os.environ.get(name) != text}
    if anew or Forks.ready is None or any(name.startswith(AT_START) for name in inherited):
        program = ["-c", f"{before}\nimport sys, {module}; sys.exit({module}.main())"] if before else ["-m", module]
        return subprocess.Popen(
            [sys.executable, *program, *words],
            env=environment, cwd=cwd, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=alone,
        )  # fmt: skip
    how = {"module": module, "words": list(words), "before": before, "alone": alone}
    return Forks.ready.start({**how, "environment": dict(environment), "cwd": str(cwd or Path.cwd())}, out, err)


def _serve(control: socket.socket) -> None:
    """Serve until the tests have ended: fork a keeper for each process, which waits for it and reports its end."""
    signal.signal(signal.SIGCHLD, _let_go)
    while True:
        told, descriptors, _, _ = socket.recv_fds(control, 1, 3)
        if not told:
            return
        if not os.fork():
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            control.close()
            _keep(*descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _let_go(_number: int, _frame: FrameType | None) -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _keep(talk: int, out: int, err: int) -> NoReturn:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C on the tests is for the process, whose end is told of then
    with open(talk, "r+b", buffering=0) as connection:
        said = b""
        while not said.endswith(b"\n"):
            said += os.read(talk, 65536)
        process = os.fork()
        if process:
            for descriptor in (out, err):
                os.close(descriptor)
            connection.write(b"%d\n" % process)
            connection.write(b"%d\n" % os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]))
            os._exit(0)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _become(json.loads(said), out, err)


def _become(wanted: dict[str, Any], out: int, err: int) -> NoReturn:
    nothing = os.open(os.devnull, os.O_RDONLY)
    for mine, standard in ((nothing, 0), (out, 1), (err, 2)):
        os.dup2(mine, standard)
    for mine in {nothing, out, err} - {0, 1, 2}:
        os.close(mine)
    os.environ.clear()
    os.environ.update(wanted["environment"])
    os.chdir(wanted["cwd"])
    sys.path[0] = wanted["cwd"]  # as `python -m` does
    sys.argv = ["hub", *wanted["words"]]
    if wanted["alone"]:
        os.setsid()
    try:
        exec(wanted["before"], {"__name__": "__main__"})
        sys.exit(importlib.import_module(wanted["module"]).main())
    except SystemExit as end:
        if isinstance(end.code, str):
            raise
        _end(int(end.code or 0))


def _end(code: int) -> NoReturn:
    """End as an interpreter does, but for taking everything apart: for a command that is most of what it costs."""
    threading._shutdown()  # type: ignore[attr-defined]  # waits for the threads
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            sys.exit(code)  # what becomes of that is for the interpreter to say
    os._exit(code)


if __name__ == "__main__":
    commands = [f"hub.cli.{each.name}" for each in pkgutil.iter_modules(hub.cli.__path__) if each.name != "__main__"]
    for name in (*commands, *LATER, *DATABASES, "hub.api.server", "tests.races.crew", "tests.recovery.resetting"):
        importlib.import_module(name)
    gc.freeze()
    with socket.socket(fileno=int(sys.argv[1])) as given:
        _serve(given)
