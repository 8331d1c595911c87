"""A PgBouncer of one's own before a PostgreSQL, which gives each transaction another server, and takes few of them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import asyncpg

from tests.recovery.databases import Database
from tests.recovery.postgres import USER
from tests.world import wait_until

SETTINGS = """
[databases]
* = host={server}
[pgbouncer]
listen_addr =
unix_socket_dir = {folder}
auth_type = any
auth_file =
admin_users = postgres
pool_mode = transaction
default_pool_size = 3
server_round_robin = 1
max_client_conn = 200
logfile = {folder}/bouncer.log
pidfile = {folder}/bouncer.pid
"""
# In `auth_type = any` every client is the user that the database says, or the one the server is reached as.


class PgBouncer:
    """A real one, on a socket in a temporary folder."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.folder = Path(tempfile.mkdtemp(prefix="hub-bouncer-"))
        self._process: subprocess.Popen[bytes] | None = None

    def url(self, options: str = "") -> str:
        """Return the URL of the database through it, as an application writes it."""
        return f"postgresql://{USER}@/{self._database.name}?host={self.folder}&port=6432{options}"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        binary = shutil.which("pgbouncer") or "/usr/sbin/pgbouncer"
        assert Path(binary).exists(), "the tests need pgbouncer"
        config = self.folder / "bouncer.ini"
        config.write_text(
            SETTINGS.format(folder=self.folder, server=self._database.place.folder).replace(
                "* = host", f"* = user={USER} host"
            )
        )
        who: dict[str, Any] = {}
        if os.geteuid() == 0:
            shutil.chown(self.folder, USER)
            who = {"user": USER, "group": USER, "extra_groups": []}
        with (self.folder / "out.log").open("ab") as log:
            self._process = subprocess.Popen([binary, str(config)], stdout=log, stderr=log, cwd=self.folder, **who)
        wait_until(self._answers, why=lambda: (self.folder / "out.log").read_text())

    def _answers(self) -> bool:
        assert self._process
        assert self._process.poll() is None, (self.folder / "out.log").read_text()

        async def ask() -> None:
            connection = await asyncpg.connect(
                host=str(self.folder), port=6432, user=USER, database=self._database.name, statement_cache_size=0
            )
            await connection.close()

        from concurrent.futures import ThreadPoolExecutor

        with contextlib.suppress(OSError, asyncpg.PostgresError), ThreadPoolExecutor(1) as pool:
            pool.submit(asyncio.run, ask()).result()
            return True
        return False

    def stop(self) -> None:
        """End it and remove its folder."""
        if self._process and self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
