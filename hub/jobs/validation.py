"""Payloads that do not fit the schema of their job, found before anything is stored."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import orjson

from hub.jobs.turns import JobTurns
from hub.observability.logs import get_logger

LONGEST_S = 1.0  # of processor time, for all payloads of a submit; a schema can be made to take for ever
STALLED_S = 10.0  # after which an answer is not waited for: the machine has no time for the process, or it hangs
SMALL = 65_536  # characters of payloads: what takes too long for so few is the schema's doing, and not theirs
BEGIN_S = 20.0  # for the process to begin
TOLD_MAX = 100  # schemas that a line was logged of
_log = get_logger("hub.jobs")


class Fault(NamedTuple):
    """What does not fit: which payload, where in it, and why. `took` is set where the schema took too long."""

    number: int
    path: list[str | int]
    message: str
    took: str = ""


class Validation:
    """Asks a process of its own, one submit at a time, and the users in turn; it is begun when it is needed, and anew
    when it was ended.
    """

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._turns = JobTurns()
        self._told: set[str] = set()

    async def check(self, job: str, schema: str, payloads: Sequence[str], user: str) -> Fault | None:
        """Return the first fault, None where all fit, or where the schema cannot be checked against."""
        if schema == "{}":
            return None
        async with self._turns.of(user):
            found = await self._ask(orjson.dumps({"schema": schema, "payloads": payloads}) + b"\n")
        if isinstance(found, TimeoutError):  # of processor time: that of the clock on the wall says nothing of a schema
            size = sum(map(len, payloads))
            took = f"more than {LONGEST_S:g} s of processor time for {size} characters" if size <= SMALL else ""
            return Fault(0, [], f"Input could not be checked within {LONGEST_S:g} s against the schema of {job}", took)
        if found is None:
            return Fault(0, [], f"Input could not be checked against the schema of {job}; try again")
        if broken := found.get("broken"):
            if job not in self._told and len(self._told) < TOLD_MAX:
                self._told.add(job)
                _log.warning("payload schema unusable", job=job, why=broken)
            return None
        return Fault(found["number"], found["path"], found["message"]) if found else None

    async def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            process.kill()
            await process.wait()

    async def _ask(self, question: bytes) -> dict[str, Any] | TimeoutError | None:
        """Ask the process; return its answer, an error when that takes more processor time than it may, None when it
        breaks down or hangs.
        """
        try:
            if self._process is None or self._process.returncode is not None:
                async with asyncio.timeout(BEGIN_S):
                    await self._begin()
            async with asyncio.timeout(STALLED_S):
                return await self._exchange(question)
        except EOFError as error:
            assert self._process is not None
            code = await self._process.wait()
            return TimeoutError(str(error)) if code == -signal.SIGPROF else None
        except BaseException as error:  # also when the caller is gone: its answer must not be the next one's
            await self.close()
            if isinstance(error, TimeoutError | OSError):
                return None
            raise

    async def _begin(self) -> None:
        pipe = asyncio.subprocess.PIPE
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "hub.jobs.checking", f"{LONGEST_S:g}", stdin=pipe, stdout=pipe, limit=2**20
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
