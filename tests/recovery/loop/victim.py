"""Loops in processes of their own, to be killed."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from hub.recovery.loop import Record, SqlSource, process
from tests.recovery.databases import Database
from tests.recovery.loop.journal import Journal
from tests.recovery.loop.trial import Trial
from tests.recovery.loop.world import note

_context = get_context("forkserver")
_context.set_forkserver_preload(["tests.recovery.loop.victim"])


def start(target: Any, *arguments: Any) -> BaseProcess:
    """Return a process that does this; with everything imported before, for there are many."""
    started = _context.Process(target=target, args=arguments, daemon=True)
    started.start()
    return started


def killed_at(database: Database, folder: Path, at: int) -> None:
    """A trial that is killed at an operation; ends with 0 when it was over before that."""
    trial = Trial(database, folder)
    trial.faults.plan(_die, at)
    with trial.faults.everywhere():
        asyncio.run(trial.run())


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def loop_for_ever(source: SqlSource, path: Path, until_empty: bool = False) -> None:
    """A loop whose handlers take a while, some of them in the middle of a transaction."""
    journal, chance = Journal(path), random.Random()

    async def handler(record: Record, session: Any) -> None:
        journal.write("begin", record.id)
        await asyncio.sleep(chance.random() * 0.05)
        await note(session, record)
        await asyncio.sleep(chance.random() * 0.05)
        journal.write("end", record.id)

    options: dict[str, Any] = {"done": "Done", "batch": 4, "poll_s": 0.05, "heartbeat": True, "park": False}
    asyncio.run(process(source, handler, until_empty=until_empty, **options))
