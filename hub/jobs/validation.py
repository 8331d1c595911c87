"""Checks of payloads against the schema of their job, before anything is stored, in a process of their own."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import orjson

from hub.jobs.turns import JobTurns
from hub.observability.logs import get_logger

LONGEST_S = 1.0  # processor time for all payloads of a submit, because some schemas would take for ever
STALLED_S = 10.0  # time to wait for an answer by the clock: the process may hang, or the machine be overloaded
SMALL = 65_536  # characters; when payloads up to this size take too long, the schema is to blame
BEGIN_S = 20.0  # time for the process to start
LOGGED_MAX = 100  # most jobs about whose schema a line is logged
_log = get_logger("hub.jobs")


class Fault(NamedTuple):
    """A fault of a payload: the number of the payload, the path in it, and a message. `took` is set, to a text that
    says how long, where the schema is too slow.
    """

    number: int
    path: list[str | int]
    message: str
    took: str = ""


class Validation:
    """The checks of payloads in a separate process, one submit at a time, users in turn. The process is started when it
    is needed first, and again after it was killed.
    """

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._turns = JobTurns()
        self._logged: set[str] = set()

    async def check(self, job: str, schema: str, payloads: Sequence[str], user: str) -> Fault | None:
        """Check payloads against a schema; return the first fault, None when all fit or the schema is invalid."""
        if schema == "{}":
            return None
        async with self._turns.of(user):
            found = await self._ask(orjson.dumps({"schema": schema, "payloads": payloads}) + b"\n")
        if isinstance(found, TimeoutError):  # too much processor time, which is the schema's or the payloads' doing
            size = sum(map(len, payloads))
            took = f"more than {LONGEST_S:g} s of processor time for {size} characters" if size <= SMALL else ""
            return Fault(0, [], f"Input could not be checked within {LONGEST_S:g} s against the schema of {job}", took)
        if found is None:
            return Fault(0, [], f"Input could not be checked against the schema of {job}; try again")
        if broken := found.get("broken"):
            if job not in self._logged and len(self._logged) < LOGGED_MAX:
                self._logged.add(job)
                _log.warning("payloads not checked, schema unusable", job=job, why=broken)
            return None
        return Fault(found["number"], found["path"], found["message"]) if found else None

    async def close(self) -> None:
        """Kill the process and wait until it has ended."""
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            process.kill()
            await process.wait()

    async def _ask(self, question: bytes) -> dict[str, Any] | TimeoutError | None:
        """Send a question to the process and return its answer; return a TimeoutError when the answer takes too much
        processor time, None when the process breaks down or hangs.
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
        except BaseException as error:  # also when cancelled: the next question must not get this answer
            await self.close()
            if isinstance(error, TimeoutError | OSError):
                return None
            raise

    async def _begin(self) -> None:
        pipe = asyncio.subprocess.PIPE
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "hub.jobs.checking", f"{LONGEST_S:g}", stdin=pipe, stdout=pipe, limit=2**20
        )
        await self._exchange(b'{"schema":"true","payloads":["{}"]}\n')  # answered once its imports are done

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
