"""Payloads that do not fit the schema of their job, found before anything is stored."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import orjson

from hub.observability.logs import get_logger

LONGEST_S = 1.0  # for all payloads of a submit; a schema can be made to take for ever
BEGIN_S = 20.0  # for the process to begin
TOLD_MAX = 100  # schemas that a line was logged of
_log = get_logger("hub.jobs")


class Fault(NamedTuple):
    """What does not fit: which payload, where in it, and why."""

    number: int
    path: list[str | int]
    message: str


class Validation:
    """Asks a process of its own, one submit at a time; it is begun when it is needed, and anew when it was ended."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._turn = asyncio.Lock()
        self._told: set[str] = set()

    async def check(self, job: str, schema: str, payloads: Sequence[str]) -> Fault | None:
        """The first fault, None where all fit, or the schema is none that can be checked against."""
        if schema == "{}":
            return None
        async with self._turn:
            found = await self._ask(orjson.dumps({"schema": schema, "payloads": payloads}) + b"\n")
        if found is None:
            return Fault(0, [], f"Input could not be checked within {LONGEST_S:g} s against the schema of {job}")
        if broken := found.get("broken"):
            if job not in self._told and len(self._told) < TOLD_MAX:
                self._told.add(job)
                _log.warning("payloads not checked", job=job, why=broken)
            return None
        return Fault(found["number"], found["path"], found["message"]) if found else None

    async def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            process.kill()
            await process.wait()

    async def _ask(self, question: bytes) -> dict[str, Any] | None:
        """What it says; None when that takes too long, and then it is ended."""
        try:
            if self._process is None or self._process.returncode is not None:
                async with asyncio.timeout(BEGIN_S):
                    await self._begin()
            async with asyncio.timeout(LONGEST_S):
                return await self._exchange(question)
        except BaseException as error:  # also when the caller is gone: its answer must not be the next one's
            await self.close()
            if isinstance(error, TimeoutError | OSError | EOFError):  # too slow, or it broke down over the schema
                return None
            raise

    async def _begin(self) -> None:
        pipe = asyncio.subprocess.PIPE
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "hub.jobs.checking", stdin=pipe, stdout=pipe, limit=2**20
        )
        await self._exchange(b'{"schema":"true","payloads":["{}"]}\n')  # it has imported what it needs

    async def _exchange(self, question: bytes) -> dict[str, Any]:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(question)
        await process.stdin.drain()
        line = await process.stdout.readline()
        if not line:
            raise EOFError("the process that checks payloads has ended")
        answer: dict[str, Any] = orjson.loads(line)
        return answer
