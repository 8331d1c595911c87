"""The keeper: a process that keeps the embedded Redis server running exactly as long as any hub uses it.

It is a process of its own, so that it outlives a hub that is killed. `python keeper.py SERVER DATA_DIR SOCKET` ends
with 0 as soon as a server answers on the socket, and leaves the keeper running. It uses the standard library only.

    users.lock    held shared by every hub that uses the server; the keeper gets it exclusively when the last is gone
    server.lock   held exclusively by keeper and server, so that never two servers use one append-only file
"""

import contextlib
import ctypes
import fcntl
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Final

USERS_LOCK: Final = "users.lock"
SERVER_LOCK: Final = "server.lock"
LOG: Final = "redis.log"
APPEND_ONLY: Final = "appendonlydir"

_POLL_S = 0.1
_START_POLL_S = 0.01
_STOP_BOUND_S = 30.0
_RESTART_PAUSE_S = (0.2, 5.0)
_LOG_KEPT_BYTES = 1_000_000
_PR_SET_PDEATHSIG = 1

_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


class Failed(Exception):
    """The server could not be started."""


def try_lock(fd: int, mode: int) -> bool:
    """Take a file lock if it is free; return whether it was taken."""
    try:
        fcntl.flock(fd, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def answers(path: str) -> bool:
    """Return whether a server on the socket takes commands; a server that is still loading its file does not."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(1)
        try:
            client.connect(path)
            client.sendall(b"PING\r\n")
            return client.recv(16).startswith(b"+PONG")
        except OSError:
            return False


class Keeper:
    """The keeper of one server: starts it again when it dies, and stops it when no hub holds `users.lock` any more."""

    def __init__(self, binary: str, data_dir: Path, socket_path: str, server_lock: int) -> None:
        self._socket_path = socket_path
        self._server_lock = server_lock
        self._users = os.open(data_dir / USERS_LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        self._ready = False
        self._told_to_stop = False
        self._command = [
            binary, "--port", "0", "--unixsocket", socket_path, "--unixsocketperm", "700", "--daemonize", "no",
            "--dir", str(data_dir), "--logfile", LOG, "--appendonly", "yes", "--appendfsync", "everysec",
            "--save", "", "--maxmemory-policy", "noeviction",
        ]  # fmt: skip

    def run(self, when_ready: int) -> None:
        """Keep the server running until the last hub is gone; write a byte to `when_ready` once the server answers."""
        signal.signal(signal.SIGTERM, self._on_signal)
        pause_s, longest_s = _RESTART_PAUSE_S
        while True:
            server = self._start()
            ended = self._watch(server, when_ready)
            if ended:
                break
            if not self._ready:
                raise Failed(f"the server ended with status {server.returncode}")
            if self._pause(pause_s):
                break
            pause_s = min(pause_s * 2, longest_s)
        if server.poll() is None:
            self._stop(server)
        Path(self._socket_path).unlink(missing_ok=True)

    def _on_signal(self, _: int, __: FrameType | None) -> None:
        self._told_to_stop = True

    def _start(self) -> subprocess.Popen[bytes]:
        # The server inherits the lock: if the keeper is killed, no other keeper starts a second server beside it.
        return subprocess.Popen(
            self._command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, pass_fds=[self._server_lock],
            preexec_fn=_die_with_parent if _libc else None,  # noqa: PLW1509 (the keeper has one thread)
        )  # fmt: skip

    def _watch(self, server: subprocess.Popen[bytes], when_ready: int) -> bool:
        """Wait until the server has died (return False) or no hub uses it any more (return True)."""
        while server.poll() is None:
            if self._unused():
                return True
            if not self._ready and answers(self._socket_path):
                self._ready = True
                os.write(when_ready, b"1")
                os.close(when_ready)
            time.sleep(_POLL_S if self._ready else _START_POLL_S)
        return False

    def _unused(self) -> bool:
        return self._told_to_stop or try_lock(self._users, fcntl.LOCK_EX)

    def _pause(self, pause_s: float) -> bool:
        until = time.monotonic() + pause_s
        while time.monotonic() < until:
            if self._unused():
                return True
            time.sleep(_POLL_S)
        return False

    def _stop(self, server: subprocess.Popen[bytes]) -> None:
        server.terminate()
        try:
            server.wait(_STOP_BOUND_S)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _die_with_parent() -> None:
    """Have Linux end the server when its keeper ends. Elsewhere a server whose keeper was killed runs on."""
    assert _libc is not None
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _close_what_was_inherited() -> None:
    """Close all inherited file descriptors but standard input, output and error.

    uvloop passes the hub's descriptors on. Among them is the reading end of this process's standard error, which would
    then never be closed.
    """
    for fd in map(int, os.listdir("/dev/fd")):
        if fd > 2:
            with contextlib.suppress(OSError):
                os.close(fd)


def _let_go_of_the_terminal() -> None:
    """Redirect standard input, output and error to the null device, so that a program that reads the hub's output to
    its end does not wait for the keeper.
    """
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    os.close(nowhere)


def _become_keeper(binary: str, data_dir: Path, socket_path: str, server_lock: int) -> None:
    """Fork a keeper and return once its server answers; raises `Failed` when the server does not start."""
    log = data_dir / LOG
    if log.exists() and log.stat().st_size > _LOG_KEPT_BYTES:
        log.unlink()
    readable, writable = os.pipe()
    if os.fork() == 0:
        os.close(readable)
        os.setsid()  # so that Ctrl-C in the hub's terminal ends the hub and not the keeper
        _let_go_of_the_terminal()
        status = 1
        try:
            Keeper(binary, data_dir, socket_path, server_lock).run(writable)
            status = 0
        finally:
            os._exit(status)
    os.close(writable)
    os.close(server_lock)
    with os.fdopen(readable, "rb") as answer:
        if not answer.read(1):
            raise Failed("the server did not start")


def main(binary: str, data_dir: Path, socket_path: str) -> None:
    """Return once a server answers on the socket: one that runs already, or one that this call starts."""
    os.umask(0o077)  # files of the server are for this user alone
    while True:
        server_lock = os.open(data_dir / SERVER_LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        if try_lock(server_lock, fcntl.LOCK_EX):
            _become_keeper(binary, data_dir, socket_path, server_lock)
            return
        os.close(server_lock)
        if answers(socket_path):
            return
        time.sleep(_START_POLL_S)


if __name__ == "__main__":
    _close_what_was_inherited()
    try:
        main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
    except (Failed, OSError) as reason:
        sys.exit(str(reason))
