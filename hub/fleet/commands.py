"""The drivers `process`, which runs copies of a program, and `command`, for what commands start, check and recycle."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Annotated, Any

from pydantic import AfterValidator, Discriminator, Field, Tag, field_validator, model_validator

from hub.capacity.attributes import read_attributes
from hub.client.guard import is_set_within
from hub.errors import InvalidValue
from hub.fleet.driver import Driver, Observation, Running, SlotPlan
from hub.fleet.place import SlotPlace
from hub.fleet.processes import Unwell, output_of
from hub.fleet.tables import CheckTable, Command, PoolTable, RecycleTable, Seconds, Strict, Template
from hub.retries import now_s

_LOOK_S = 0.05
_SETTLE_S = 0.1  # a program with a mistake in its words has ended after this time


def _expression(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"is no regular expression: {error}") from None
    return text


Expression = Annotated[str, AfterValidator(_expression)]


class CountTable(Strict):
    """A command that prints how many slots there are, such as `lmstat`; the first group of `pattern` is the number."""

    command: Annotated[list[str], Field(min_length=1)]
    pattern: Expression
    every: Seconds = 30.0
    timeout: Seconds = 10.0

    @field_validator("pattern")
    @classmethod
    def _has_a_group(cls, text: str) -> str:
        if not re.compile(text).groups:
            raise ValueError(
                "has no group; put parentheses around the number, such as 'Total of (\\d+) licenses issued'"
            )
        return text

    async def read(self) -> int:
        """Return the number; raises `Unwell` when the command fails, or prints none."""
        found = re.search(self.pattern, await output_of(self.command, self.timeout))
        if found is None or not (found[1] or "").isdecimal():
            raise Unwell(f"{self.command[0]} printed no number that {self.pattern!r} finds")
        return int(found[1])


class CommandCheck(CheckTable):
    """A check by a command, which must end with status 0; what it prints, trimmed, must match `expect`."""

    command: list[Template] = Field(default_factory=list)
    expect: Expression = ""

    async def run(self, place: SlotPlace) -> None:
        """Run the command, if there is one. Raises `Unwell` when it fails or prints something else."""
        if not self.command:
            return
        printed = (await place.run(self.command, self.timeout)).strip()
        if self.expect and not re.fullmatch(self.expect, printed):
            raise Unwell(f"{self.command[0]} printed {printed[:80]!r} and not {self.expect!r}")


class CommandRecycle(RecycleTable):
    """A command that makes a slot fresh after a lease, within `timeout`."""

    command: list[Template] = Field(default_factory=list)
    timeout: Seconds = 120.0


# The tags tell pydantic which mistakes to report; they are no names, so that no sentence has them.
Count = Annotated[
    Annotated[int, Field(ge=1), Tag("a number")] | Annotated[CountTable, Tag("a table")],
    Discriminator(lambda given: "a table" if isinstance(given, dict | CountTable) else "a number"),
]


class CommandTable(PoolTable):
    """The keys of a pool of things that commands start, check, recycle and stop."""

    count: Count | None = None
    items: list[str] = Field(default_factory=list)
    start: Command | None = None
    stop: Command | None = None
    describe: Command | None = None
    """A command that prints attributes of a slot that was started, as a JSON object."""
    check: CommandCheck = CommandCheck()
    recycle: CommandRecycle = CommandRecycle()

    @model_validator(mode="after")
    def _has_slots(self) -> CommandTable:
        if bool(self.items) == bool(self.count):
            raise ValueError("a pool of this driver has either items, a list of names, or count, a number")
        if len(set(self.items)) < len(self.items):
            raise ValueError("items has a name twice")
        return self


class CommandDriver(Driver[CommandTable]):
    """The driver `command`. A start command that has ended with status 0 has started the slot."""

    Table = CommandTable

    def __init__(self, table: CommandTable) -> None:
        super().__init__(table)
        self.observes = isinstance(table.count, CountTable)
        self._numbers: set[int] = set()
        self._counted_s = 0.0

    async def slots(self) -> Sequence[SlotPlan]:
        """Return a slot for each item, or as many as `count` says; raises `Unwell` when its command does not."""
        if self.table.items:
            return [SlotPlan(item, index, item) for index, item in enumerate(self.table.items)]
        return await self._numbered(())

    async def observe(self, lent: Iterable[str]) -> Observation:
        """Return the slots by the present count, when it is time to count again; raises `Unwell` like `slots`."""
        assert isinstance(self.table.count, CountTable)
        if now_s() - self._counted_s < self.table.count.every:
            return Observation()
        return Observation(await self._numbered(lent))

    async def _numbered(self, lent: Iterable[str]) -> list[SlotPlan]:
        """Return as many slots as there should be: those that are lent, then those that there are, then new ones."""
        self._counted_s, count = now_s(), self.table.count
        size = await count.read() if isinstance(count, CountTable) else count or 0
        kept = sorted(self._numbers, key=lambda number: (str(number) not in lent, number))[:size]
        new = (number for number in itertools.count(1) if number not in self._numbers)
        self._numbers = {*kept, *itertools.islice(new, size - len(kept))}
        return [SlotPlan(str(number), number - 1) for number in sorted(self._numbers)]

    async def start(self, place: SlotPlace) -> Running:
        """Run the start command, and the one that describes what was started."""
        if self.table.start is not None:
            await place.run(self.table.start.command, self.table.start.timeout)
        if (describe := self.table.describe) is None:
            return Running(place)
        printed = await place.run(describe.command, describe.timeout)
        try:
            return Running(place, attributes=json.loads(read_attributes(json.loads(printed))))
        except (ValueError, RecursionError, InvalidValue) as error:
            raise Unwell(f"{describe.command[0]} printed no attributes: {error}") from None

    async def check(self, running: Running, *, lent: bool) -> None:
        """Run the check command."""
        await self.table.check.run(running.place)

    async def recycle(self, running: Running) -> Running:
        """Run the command of `recycle`."""
        if self.table.recycle.command:
            await running.place.run(self.table.recycle.command, self.table.recycle.timeout)
        return running

    async def stop(self, running: Running) -> None:
        """Run the stop command."""
        if self.table.stop is not None:
            await running.place.run(self.table.stop.command, self.table.stop.timeout)


class ProcessTable(PoolTable):
    """The keys of a pool of copies of one program."""

    command: Annotated[list[Template], Field(min_length=1)]
    count: Annotated[int, Field(ge=1)] = 1
    check: CommandCheck = CommandCheck()


class ProcessDriver(Driver[ProcessTable]):
    """The driver `process`. A copy whose words or address have {port} is up once it takes connections there."""

    Table = ProcessTable

    def __init__(self, table: ProcessTable) -> None:
        super().__init__(table)
        self.anew = table.recycle.uses is None  # unless it may be used several times, each borrower gets a new one
        self._listens = any("{port}" in word for word in [*table.command, str(table.address)])

    async def slots(self) -> Sequence[SlotPlan]:
        """Return as many slots as `count` says."""
        return [SlotPlan(str(index + 1), index) for index in range(self.table.count)]

    async def start(self, place: SlotPlace) -> Running:
        """Start the program, and wait until it listens on its port."""
        program = await place.spawn(self.table.command)
        if not self._listens:
            await is_set_within(_SETTLE_S, program.ended)
        while program.code is None and self._listens:
            with suppress(OSError):
                await _connect(place)
                break
            await asyncio.sleep(_LOOK_S)
        if program.code is not None:
            raise Unwell(program.why())
        return Running(place, programs=(program,))

    async def check(self, running: Running, *, lent: bool) -> None:
        """Connect to the port, and run the check command."""
        if self._listens:
            try:
                await _connect(running.place)
            except OSError as error:
                raise Unwell(f"nothing listens on port {running.place.port}: {error.strerror or error}") from None
        await self.table.check.run(running.place)


async def _connect(place: SlotPlace) -> Any:
    _, writer = await asyncio.open_connection("127.0.0.1", place.port)
    writer.close()
