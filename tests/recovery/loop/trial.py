"""One run of the loop with a fault in it, what recovery does about it, and what must be so in the end."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from hub.recovery.sql import SqlRecords
from tests.recovery.databases import Database
from tests.recovery.loop.faults import Faults
from tests.recovery.loop.journal import Journal
from tests.recovery.loop.world import handled, notes, source_of

FULL = float(os.environ.get("HUB_RACE_SECONDS", 0)) > 10
TINY = {"threshold_minutes": 0.002}


class Trial:
    """Three records: one handler writes in its session, one does not touch it, one raises."""

    def __init__(self, jobs: Database, folder: Path, **options: Any) -> None:
        self.jobs = jobs
        self.options = options
        self.journal = Journal(folder / "journal")
        self.faults = Faults()

    async def handler(self, record: Any, session: Any) -> None:
        """Handle a record as above, and say when that begins and ends."""
        self.journal.write("begin", record.id)
        try:
            await asyncio.sleep(0)
            if record.id != 2:
                async with asyncio.timeout(1):
                    await session.execute(sa.text(f"INSERT INTO notes (job, text) VALUES ({record.id}, '{record.id}')"))
            if record.id == 3:
                raise ValueError("number three")
        finally:
            self.journal.write("end", record.id)

    async def run(self, **options: Any) -> Any:
        """Process until nothing is left."""
        return await handled(source_of(self.jobs), self.handler, **{"batch": 3, **self.options, **options})

    def begin(self) -> None:
        """Anew."""
        self.journal.empty()
        self.jobs.execute("DELETE FROM notes; DELETE FROM jobs;")
        self.jobs.add(1, 2, 3, status="Pending")

    async def once(self, kind: Any, at: int, length: int = 1) -> bool:
        """One run with a fault there, what recovery does, one without; False when it was over before that."""
        self.begin()
        self.faults.plan(kind, at, length)
        with self.faults.everywhere():
            try:
                await self.run()
            except asyncio.CancelledError:
                assert not isinstance(kind, str)
        struck = self.faults.struck
        self.where: str = f"{kind} at {self.faults.log[at]}, number {at} of {self.faults.log}" if struck else ""
        self.faults.clear()
        return struck

    async def recover(self) -> None:
        """Do what recovery, and another loop, do after a while."""
        records = SqlRecords(source_of(self.jobs, **TINY))
        async with asyncio.timeout(60):
            while "Processing" in self.jobs.statuses():
                await records.reset()
                await asyncio.sleep(0.02)
        await records.close()
        if "Pending" in self.jobs.statuses():
            await self.run()

    def check(self) -> None:
        """Check what must be so in the end."""
        found = self.jobs.jobs()
        begun = self.journal.begun()
        assert {job.status for job in found.values()} <= {"Done", "Failed"}, self.where
        assert self.journal.overlaps() == [], self.where
        unserved = [i for i, job in found.items() if job.status == "Failed" and "no session" in (job.error or "")]
        assert all(begun[i] or i in unserved for i in found), (self.where, begun)
        expected = ["1"] if found["1"].status == "Done" else []
        assert notes(self.jobs) == expected, self.where
        assert found["3"].status == "Failed", self.where

    async def everywhere(
        self, kinds: Sequence[str | Callable[[], None]], length: int = 1, first: int = 0, every: int = 1
    ) -> set[str]:
        """A trial for each operation there is; returns what they were. The kinds take turns, but commits get them all,
        and everything does at full length (`HUB_RACE_SECONDS`)."""
        at, found = first, set()
        while True:
            turn = at // every % len(kinds)
            for kind in (*kinds[turn:], *kinds[:turn]):
                if not await self.once(kind, at, length):
                    return found
                found.add(self.faults.log[at].split()[0])
                await self.recover()
                self.check()
                if not FULL and self.faults.log[at] != "commit":
                    break
            at += every
