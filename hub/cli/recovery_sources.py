"""The sources of a recovery command and their records. An error of one source does not stop the others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

from hub.cli import output
from hub.cli.direct import quiet, store_settings
from hub.cli.inputs import Usage, shown
from hub.errors import HubError, HubUnavailable, RecordsUnavailable, StartRefused, StoreUnavailable
from hub.settings import Settings, load_settings, mask_url

if TYPE_CHECKING:
    from hub.recovery.models import Source
    from hub.recovery.records import Records
    from hub.store.store import Store

T = TypeVar("T")


@dataclass(frozen=True)
class SourceTrouble:
    """The reason why a source cannot be used: a wrong declaration, or records that cannot be reached."""

    source: str | None  # None when its declaration has no readable name
    state: Literal["refused", "unreachable"]
    why: str

    @classmethod
    def of(cls, source: str | None, error: Exception) -> SourceTrouble:
        """Return the trouble of a source that an error stands for; `why` is a sentence with the name of the source."""
        text = (error.detail or error.code) if isinstance(error, HubError) else f"{type(error).__name__}: {error}"
        if not isinstance(error, HubError) or (source is not None and f"source {source}" not in text):
            text = f"source {source}: {text}"
        state: Literal["refused", "unreachable"] = "refused" if isinstance(error, StartRefused) else "unreachable"
        return cls(source, state, mask_url(text if text.endswith((".", "?")) else f"{text}."))


@dataclass(frozen=True)
class Chosen:
    """The usable sources of a command, and the troubles of the others."""

    settings: Settings
    sources: list[Source]
    troubles: list[SourceTrouble]


@dataclass(frozen=True)
class Answers(Generic[T]):
    """The answers of sources, in the order of their declarations, and the troubles of the sources without one."""

    answered: list[tuple[Source, T]]
    troubles: list[SourceTrouble]

    def notes(self) -> list[str]:
        """Return a sentence on each trouble."""
        return [trouble.why for trouble in self.troubles]

    @property
    def code(self) -> int:
        """Return the exit code: 1 when a source could not answer, else 0."""
        return 1 if self.troubles else 0


def choose(file: Path | None, names: Iterable[str] | None) -> Chosen:
    """Return the sources of this file, or of the settings: all of them, or those with these names.

    Raises `Usage` when no sources are declared, and for a name that no source has.
    """
    settings = quiet(load_settings())
    if file is None and settings.recovery_file is None and not settings.recovery_sources:
        raise Usage("No source is declared: name a TOML file of sources with --file or HUB_RECOVERY_FILE.")
    from hub.recovery.file import survey  # imported only for recovery commands

    sources, refused = survey(settings, file)
    troubles = [SourceTrouble.of(error.facts.get("source"), error) for error in refused]
    wanted = dict.fromkeys(names or ())
    if wanted:
        known = dict.fromkeys(
            [source.name for source in sources] + [trouble.source for trouble in troubles if trouble.source]
        )
        unknown = [name for name in wanted if name not in known]
        # With a trouble without a name, such as a file that cannot be read, an unknown name may be in it.
        if unknown and all(trouble.source for trouble in troubles):
            there = f"there are {', '.join(map(str, known))}" if known else "there is none at all"
            raise Usage(f"No source is called {shown(unknown[0])}; {there}.")
        sources = [source for source in sources if source.name in wanted]
        troubles = [trouble for trouble in troubles if trouble.source in {None, *wanted}]
    return Chosen(settings, sources, troubles)


class Opened:
    """The records of the chosen sources while `opened` runs."""

    def __init__(self, chosen: Chosen, stack: AsyncExitStack) -> None:
        self._chosen = chosen
        self._stack = stack
        self._store: Store | None = None
        self._records: dict[str, Records] = {}

    async def ask(self, question: Callable[[Records], Awaitable[T]]) -> Answers[T]:
        """Call `question` with the records of each source at the same time; return the answers and the troubles."""
        closed = await self._open_store() if any(map(_is_in_store, self._chosen.sources)) else None
        sources = self._chosen.sources
        answers = await asyncio.gather(*(self._ask(source, question, closed) for source in sources))
        troubles = [*self._chosen.troubles, *(answer for answer in answers if isinstance(answer, SourceTrouble))]
        pairs = zip(sources, answers, strict=True)
        return Answers([(source, it) for source, it in pairs if not isinstance(it, SourceTrouble)], troubles)

    async def _ask(
        self, source: Source, question: Callable[[Records], Awaitable[T]], closed: HubError | None
    ) -> T | SourceTrouble:
        try:
            if closed is not None and _is_in_store(source):
                raise RecordsUnavailable(closed.detail)
            return await question(self._open(source))
        except Usage:
            raise
        except Exception as error:  # noqa: BLE001 - any error of a driver is the trouble of one source
            return SourceTrouble.of(source.name, error)

    def _open(self, source: Source) -> Records:
        from hub.recovery.kinds import open_records  # imports SQLAlchemy

        if source.name not in self._records:
            records = open_records(source, self._store)
            self._stack.push_async_callback(records.close)
            self._records[source.name] = records
        return self._records[source.name]

    async def write_parked(self, records: Records) -> None:
        """Write outcomes of records that were processed while their database was away, and wait in the hub's store.

        Prints a note when the store cannot be read; does nothing when there is no store.
        """
        write = getattr(records, "write_parked", None)
        if write is None:
            return
        error = await self._open_store()
        if self._store is not None:
            from hub.recovery.outcomes import Outcomes

            try:
                await write(Outcomes(self._store.client, self._store.keys, records.source.name))
            except StoreUnavailable as trouble:
                error = trouble
        if error is not None and not isinstance(error, HubUnavailable):
            output.note(f"outcomes that may wait in Redis were not written first: {error.detail or error.code}")

    async def _open_store(self) -> HubError | None:
        """Open the hub's store; return None, or the error. A `HubUnavailable` means that there is no store."""
        if self._store is not None:
            return None
        try:
            settings = store_settings("These records are in the hub's own store")
            from hub.store.connection import open_store

            self._store = await self._stack.enter_async_context(open_store(settings))
        except HubError as error:
            return error
        return None


@asynccontextmanager
async def opened(chosen: Chosen) -> AsyncIterator[Opened]:
    """`async with opened(chosen) as sources:` - the records of sources, each opened at its first question."""
    async with AsyncExitStack() as stack:
        yield Opened(chosen, stack)


def _is_in_store(source: Source) -> bool:
    return getattr(source, "url", None) is None  # tasks of the hub, and hashes without a URL
