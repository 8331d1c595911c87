"""A MariaDB server of one's own, on a socket in a temporary folder."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import asyncmy
from asyncmy.errors import MySQLError

from tests.recovery.postgres import _beside, _in_loop
from tests.world import wait_until

USER = "mysql"  # it refuses to run as root
SETTINGS = {
    "skip-networking": "on",
    "innodb-flush-log-at-trx-commit": "0",
    "innodb-buffer-pool-size": "32M",
    "innodb-log-file-size": "16M",
    "default-time-zone": "+05:30",  # none that a test could take for UTC
    "character-set-server": "utf8mb4",
}


def _binary(name: str) -> str:
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")
    assert found, f"the tests need MariaDB, and there is no {name}"
    return found


class MariaDB:
    """A real server; `folder` holds its data and its socket."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="hub-my-"))
        self.socket = self.folder / "s"
        self._process: subprocess.Popen[bytes] | None = None
        self._as: dict[str, Any] = {}
        if os.geteuid() == 0:
            shutil.chown(self.folder, USER)
            self._as = {"user": USER, "group": USER, "extra_groups": []}

    def url(self, database: str) -> str:
        """Return the URL that SQLAlchemy takes."""
        return f"mariadb+asyncmy://root@/{database}?unix_socket={self.socket}"

    def start(self) -> None:
        """Start it and wait until it answers."""
        where = ["--no-defaults", f"--datadir={self.folder / 'data'}"]
        made = subprocess.run(
            [_binary("mariadb-install-db"), *where, "--auth-root-authentication-method=normal", "--skip-test-db"],
            capture_output=True, text=True, cwd=self.folder, check=False, **self._as,
        )  # fmt: skip
        assert made.returncode == 0, made.stdout + made.stderr
        options = [f"--{name}={value}" for name, value in SETTINGS.items()]
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [_binary("mariadbd"), *where, f"--socket={self.socket}", f"--pid-file={self.folder / 'pid'}", *options],
                stdout=log, stderr=log, cwd=self.folder, start_new_session=True, **self._as,
            )  # fmt: skip
        wait_until(self._answers)

    def _answers(self) -> bool:
        assert self._process
        assert self._process.poll() is None, (self.folder / "server.log").read_text()
        with contextlib.suppress(OSError, MySQLError):
            self.execute("SELECT 1")
            return True
        return False

    def execute(self, sql: str, database: str = "mysql") -> list[tuple[Any, ...]]:
        """Return the rows of a statement, or nothing of several. Names may stand in double quotes, times are in UTC."""
        return asyncio.run(self._execute(sql, database)) if not _in_loop() else _beside(self._execute(sql, database))

    async def _execute(self, sql: str, database: str) -> list[tuple[Any, ...]]:
        connection = await asyncmy.connect(
            unix_socket=str(self.socket), user="root", db=database, autocommit=True,
            init_command="SET time_zone = '+00:00', sql_mode = CONCAT(@@sql_mode, ',ANSI_QUOTES')",
        )  # fmt: skip
        try:
            async with connection.cursor() as cursor:
                await cursor.execute(sql)
                return list(await cursor.fetchall() or ())
        finally:
            connection.close()

    def stop(self) -> None:
        """End it and remove its folder."""
        if self._process and self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
