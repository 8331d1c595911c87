"""A PostgreSQL server of one's own, on a socket in a temporary folder, that may be killed and started again."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import asyncpg

from tests.world import wait_until

USER = "postgres"  # it refuses to run as root
SETTINGS = {
    "listen_addresses": "",
    "fsync": "off",  # what was written survives a SIGKILL all the same: the machine stays up
    "max_connections": "60",
    "shared_buffers": "64MB",
    "autovacuum": "off",
    "timezone": "UTC",  # wherever the tests run
    "log_min_messages": "fatal",
}


def _binary(name: str) -> str:
    found = shutil.which(name) or next(
        (str(path) for path in sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), reverse=True)), None
    )
    assert found, f"the tests need PostgreSQL, and there is no {name}"
    return found


class Postgres:
    """A real server; `folder` holds its data and its socket."""

    def __init__(self, **settings: str) -> None:
        self._settings = {**SETTINGS, **settings}
        self.folder = Path(tempfile.mkdtemp(prefix="hub-pg-"))
        self._data = self.folder / "data"
        self._process: subprocess.Popen[bytes] | None = None
        self._as: dict[str, Any] = {}
        if os.geteuid() == 0:
            shutil.chown(self.folder, USER)
            self._as = {"user": USER, "group": USER, "extra_groups": []}

    def url(self, database: str = "postgres", user: str = USER, driver: str = "postgresql+asyncpg") -> str:
        """Return the URL that SQLAlchemy takes."""
        return f"{driver}://{user}@/{database}?host={self.folder}"

    def start(self) -> None:
        """Start it on its folder, and wait until it answers."""
        if not self._data.exists():
            self._make()
        options = [part for name, value in self._settings.items() for part in ("-c", f"{name}={value}")]
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [_binary("postgres"), "-D", str(self._data), "-k", str(self.folder), *options],
                stdout=log, stderr=log, cwd=self.folder, start_new_session=True, **self._as,
            )  # fmt: skip
        wait_until(self._answers)

    def _make(self) -> None:
        made = subprocess.run(
            [_binary("initdb"), "-D", str(self._data), "-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C",
             "--no-sync", "--no-instructions"],
            capture_output=True, text=True, cwd=self.folder, check=False, **self._as,
        )  # fmt: skip
        assert made.returncode == 0, made.stderr

    def _answers(self) -> bool:
        assert self._process
        assert self._process.poll() is None, (self.folder / "server.log").read_text()
        with contextlib.suppress(OSError, asyncpg.PostgresError):
            self.execute("SELECT 1")
            return True
        return False

    def execute(self, sql: str, database: str = "postgres") -> list[asyncpg.Record]:
        """Return the rows of a statement, or nothing of several."""
        return asyncio.run(self._execute(sql, database)) if not _in_loop() else _beside(self._execute(sql, database))

    async def _execute(self, sql: str, database: str) -> list[asyncpg.Record]:
        port = int(self._settings.get("port", 5432))
        connection = await asyncpg.connect(host=str(self.folder), port=port, user=USER, database=database)
        try:
            if ";" in sql.strip().rstrip(";"):
                await connection.execute(sql)
                return []
            return list(await connection.fetch(sql))
        finally:
            await connection.close()

    def kill(self) -> None:
        """SIGKILL for all of its processes at once, as when the machine's memory is out."""
        assert self._process
        family = [self._process.pid, *_children(self._process.pid)]
        for pid in family:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()
        wait_until(lambda: not any(_alive(pid) for pid in family))  # a restart refuses while one is left

    def pause(self) -> None:
        """Stop all of its processes where they are: it takes connections and never answers."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let them go on."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        assert self._process
        for pid in [self._process.pid, *_children(self._process.pid)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def stop(self) -> None:
        """End it and remove its folder."""
        if self._process and self._process.poll() is None:
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


def _children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children")
    with contextlib.suppress(OSError):
        return [int(child) for child in found.read_text().split()]
    return []


def _alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def _in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _beside(coroutine: Any) -> Any:
    """Return the result of a coroutine while a loop runs in this thread."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, coroutine).result()
