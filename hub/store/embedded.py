"""The embedded Redis: a private server for hubs that were given no URL of a Redis."""

import asyncio
import contextlib
import fcntl
import hashlib
import os
import shutil
import stat
import sys
import tempfile
import time
from pathlib import Path
from typing import Final
from urllib.parse import quote

from hub.errors import StartRefused
from hub.observability.logs import get_logger
from hub.settings.envfile import user_name
from hub.store import keeper

# The system cuts socket paths at 107 bytes on Linux and at 103 on macOS.
LONGEST_SOCKET_PATH: Final = 100
# An append-only file of several GB takes this long to load.
START_BOUND_S: Final = 300.0
STOP_BOUND_S: Final = 10.0

_POLL_S = 0.02
_log = get_logger("hub.store.embedded")


def find_server() -> str | None:
    """Return the path of the installed `redis-server` or `valkey-server`, or None."""
    return shutil.which("redis-server") or shutil.which("valkey-server")


class EmbeddedRedis:
    """A Redis server on a unix socket that runs while any hub of this machine uses its data directory.

    Hubs with the same directory share one server; it ends with the last of them, also when that one is killed.
    """

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir.absolute()
        self._users: int | None = None

    async def start(self) -> str:
        """Start the server, or join one that runs; return its URL. Raises `StartRefused`, in one sentence."""
        binary = find_server()
        if binary is None:
            raise StartRefused("Neither redis-server nor valkey-server is on the PATH.")
        try:
            self._data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            _keep_to_oneself(self._data_dir)
            path = _socket_path(self._data_dir)
            self._users = os.open(self._data_dir / keeper.USERS_LOCK, os.O_RDWR | os.O_CREAT, 0o600)
            await self._enter(self._users)
            await self._launch(binary, path)
        except OSError as error:
            self._leave()
            raise StartRefused(f"The embedded Redis cannot use {self._data_dir}: {error.strerror or error}.") from None
        except BaseException:
            self._leave()
            raise
        return f"unix://{quote(path)}"

    async def stop(self) -> None:
        """Stop using the server. If no other hub uses it, wait for at most ten seconds until it has ended."""
        if self._users is None:
            return
        last = keeper.try_lock(self._users, fcntl.LOCK_EX)
        self._leave()
        if last:
            await self._wait_for_the_end()

    async def _enter(self, users: int) -> None:
        if not await _locked(users, fcntl.LOCK_SH, START_BOUND_S):
            raise self._refusal("is being ended, and that does not come to its end")

    def _leave(self) -> None:
        if self._users is not None:
            os.close(self._users)
            self._users = None

    async def _launch(self, binary: str, path: str) -> None:
        launcher = await asyncio.create_subprocess_exec(
            sys.executable, "-I", "-S", keeper.__file__, binary, str(self._data_dir), path,
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        try:
            async with asyncio.timeout(START_BOUND_S):
                _, stderr = await launcher.communicate()
        except BaseException as error:
            with contextlib.suppress(ProcessLookupError):
                launcher.kill()
            await launcher.wait()
            if isinstance(error, TimeoutError):
                raise self._refusal(f"did not answer within {START_BOUND_S:g} s") from None
            raise
        if launcher.returncode:
            reason = " ".join(stderr.decode("utf-8", "replace").split()) or f"status {launcher.returncode}"
            raise self._refusal(f"did not start: {reason}")

    def _refusal(self, what: str) -> StartRefused:
        log = self._data_dir / keeper.LOG
        try:
            last = [line.strip() for line in log.read_text("utf-8", "replace").splitlines()[-3:]]
        except OSError:
            last = []
        words = f"; its last words: {' / '.join(last)}" if last else ""
        return StartRefused(f"The embedded Redis in {self._data_dir} {what}{words}")

    async def _wait_for_the_end(self) -> None:
        lock = os.open(self._data_dir / keeper.SERVER_LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if not await _locked(lock, fcntl.LOCK_EX, STOP_BOUND_S):
                # Another hub came in meanwhile, or the disk is slow; the keeper ends the server either way.
                _log.warning("embedded Redis still running", data_dir=str(self._data_dir), waited_s=STOP_BOUND_S)
        finally:
            os.close(lock)


async def _locked(lock: int, mode: int, bound_s: float) -> bool:
    """Wait for a file lock without blocking the event loop; return False when `bound_s` seconds passed first."""
    until = time.monotonic() + bound_s
    while not keeper.try_lock(lock, mode):
        if time.monotonic() > until:
            return False
        await asyncio.sleep(_POLL_S)
    return True


def _socket_path(data_dir: Path) -> str:
    """Return the path of the socket: in the data directory, or, where that path is too long, in a private folder below
    XDG_RUNTIME_DIR, the folder for temporary files, or /tmp.
    """
    path = data_dir / "redis.sock"
    if _fits(path):
        return str(path)
    digest = hashlib.sha256(os.fsencode(data_dir.resolve())).hexdigest()[:12]
    name = f"capacity-hub-{os.getuid()}-{digest}"
    # /tmp comes last and always fits.
    bases = [Path(base) for base in (os.environ.get("XDG_RUNTIME_DIR"), tempfile.gettempdir(), "/tmp") if base]
    folder = next(base / name for base in bases if _fits(base / name / "redis.sock"))
    _make_private(folder)
    _log.info(
        "embedded Redis socket moved", path=str(folder / "redis.sock"), why="the path of HUB_DATA_DIR is too long"
    )
    return str(folder / "redis.sock")


def _fits(path: Path) -> bool:
    return len(os.fsencode(path)) <= LONGEST_SOCKET_PATH


def _keep_to_oneself(data_dir: Path) -> None:
    """Take other users' permissions on the data directory away; raise `StartRefused` when it is another user's, or
    others could write to it until now.
    """
    facts = data_dir.stat()
    if facts.st_uid != os.geteuid():
        raise StartRefused(f"The embedded Redis does not use {data_dir}: it belongs to {user_name(facts.st_uid)}.")
    if facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise StartRefused(
            f"The embedded Redis does not use {data_dir}: others can write to it; chmod 700 {data_dir} changes that."
        )
    for folder in (data_dir, data_dir / keeper.APPEND_ONLY):
        _tighten(folder, 0o700)
    for file in (data_dir / keeper.LOG, *(data_dir / keeper.APPEND_ONLY).glob("*")):
        _tighten(file, 0o600)


def _tighten(path: Path, mode: int) -> None:
    with contextlib.suppress(FileNotFoundError):
        facts = path.stat()
        if facts.st_uid == os.geteuid() and stat.S_IMODE(facts.st_mode) & ~mode:
            path.chmod(mode)


def _make_private(folder: Path) -> None:
    """Make a folder that only this user can enter; raises `StartRefused` when one that others can use is there."""
    folder.mkdir(mode=0o700, exist_ok=True)
    facts = folder.stat(follow_symlinks=False)
    if facts.st_uid != os.getuid() or facts.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise StartRefused(f"The embedded Redis will not put its socket into {folder}: others could reach it there.")
