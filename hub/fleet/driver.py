"""The interface of a driver, which starts the slots of one pool, checks them, makes them fresh, and stops them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

from hub.fleet.place import SlotPlace
from hub.fleet.processes import Program
from hub.fleet.tables import PoolTable

Settings = TypeVar("Settings", bound=PoolTable)
# A fact about a slot, for its borrower, and to choose by.
Attribute = bool | int | float | str | list[str]


@dataclass(frozen=True)
class SlotPlan:
    """A slot that a pool should have. Its id is `<node>-<label with dots>-<key>`."""

    key: str
    """What names the slot within its pool, the same after each start of the agent: "1", "emulator-5554", a UUID."""
    index: int = 0
    """Its number, for `{index}`: from 0, as the item has it (the index of a GPU) or as the pool counts."""
    item: str = ""
    """The thing that is lent, for `{item}`: the entry of `items`, the id of a device."""
    label: str = ""
    """The label of the slot, when it is another one than that of the pool (`browser:chromium:pw-1.56`)."""
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    """Facts by which borrowers choose. What names one thing, such as a serial number, is better among `members`."""
    members: Mapping[str, Any] = field(default_factory=dict)
    """Further members of the published slot, which borrowers see."""


@dataclass(frozen=True)
class Running:
    """A slot that was started: where it is reached, and what runs for it."""

    place: SlotPlace
    endpoint: str = ""
    members: Mapping[str, Any] = field(default_factory=dict)
    """Further members of the published slot, such as `webSocketEndpoint`."""
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    """Facts known since the start; they go into the slot beside those of its plan."""
    programs: tuple[Program, ...] = ()
    """The programs of the slot. It is unwell as soon as one of them ends; `age` and `memory` are measured on them."""


@dataclass(frozen=True)
class Observation:
    """The state of a whole pool, as its driver sees it."""

    slots: Sequence[SlotPlan] | None = None
    """The slots that the pool should have from now on; None leaves them as they are."""
    unwell: Mapping[str, str] = field(default_factory=dict)
    """Key of each slot that must not be lent now though it runs -> the reason, such as a program without a lease."""


class Driver(ABC, Generic[Settings]):
    """The driver of one pool. Supervision calls its methods on one event loop, those of one slot one after the other.

    Each method but `observe` raises `Unwell` with a reason when the slot does not work, and is cancelled when it takes
    too long. An error of another kind counts as `Unwell` too, and is logged with its traceback.
    """

    Table: ClassVar[type[PoolTable]] = PoolTable
    """The keys of its `[[pools]]` entry: a subclass of `PoolTable` with a typed field for each key of its own."""
    anew: bool = False
    """True when the slot is to be stopped and started after each lease; `recycle` is then never called."""
    observes: bool = False
    """True when `observe` is to be called every `check.every`."""

    def __init__(self, table: Settings) -> None:
        self.table = table

    @abstractmethod
    async def slots(self) -> Sequence[SlotPlan]:
        """Return the slots that the pool has at the start. May raise `Unwell`: it is then called again later."""

    @abstractmethod
    async def start(self, place: SlotPlace) -> Running:
        """Start the slot, and return once it can be used; `start_timeout` bounds it.

        After a start that fails, what was started with `place` is ended by supervision.
        """

    async def check(self, running: Running, *, lent: bool) -> None:
        """Return when the slot works; `check.timeout` bounds it. Not called once a program of the slot has ended.

        `lent` is whether it has a borrower, as of the last heartbeat, whom the check must not disturb.
        """

    async def recycle(self, running: Running) -> Running:
        """Make the slot fresh after a lease; returns `running` itself when nothing about it has changed.

        `start_timeout` bounds it. When it raises, or `recycle.uses`, `age` or `memory` says that the whole slot is to
        be made anew, the slot is stopped and started instead.
        """
        return running

    async def stop(self, running: Running) -> None:
        """Stop what has no program here, such as a device. The programs and the folder end after it by themselves."""

    async def observe(self, lent: Iterable[str]) -> Observation:
        """Return what is seen of the whole pool; `lent` has the keys of the slots that are lent now.

        Called every `check.every` when `observes` is set; `start_timeout` bounds it. When it raises `Unwell`, that is
        logged as a warning, and all stays as the last observation said.
        """
        return Observation()
