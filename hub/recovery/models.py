"""Models of sources and of the stuck records in them. Pure: no I/O."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    PrivateAttr,
    StringConstraints,
    ValidationError,
    model_validator,
)

from hub.errors import SourceRefused

THRESHOLD_MINUTES = 60.0
BATCH = 500  # records per transaction: enough for few transactions, and few enough for a short lock
YEAR_MINUTES = 366 * 1440
_SHOWN = 60  # characters of a wrong value that an error shows; a longer value is left out


@dataclass(frozen=True)
class Must:
    """The rule of a field in words, which the error shows for a value that breaks it."""

    be: str


_NAME = Must("it must be 1 to 64 lower-case letters, digits, dots, dashes or underscores, a letter or digit first")
_TEXT = Must("it must be a text of 1 to 1000 characters")
_WHOLE = Must("it must be a whole number from 1 to 1000000")

Name = Annotated[str, StringConstraints(strict=True, pattern=r"^[a-z0-9][a-z0-9_.-]{0,63}$"), _NAME]
Text = Annotated[str, StringConstraints(strict=True, min_length=1, max_length=1000), _TEXT]
Perhaps = Annotated[Text | None, _TEXT]
Status = Annotated[
    Annotated[int, Field(strict=True, ge=-(2**63), lt=2**63)]
    | Annotated[str, StringConstraints(strict=True, min_length=1, max_length=1000)],
    Must("it must be a text of 1 to 1000 characters or a whole number"),
]
Wanted = Annotated[bool, Field(strict=True)] | Annotated[int, Field(strict=True)] | Annotated[str, Field(strict=True)]
Attempts = Annotated[Annotated[int, Field(strict=True, ge=1, le=1_000_000)] | None, _WHOLE]


class Source(BaseModel):
    """The fields of every source. A faulty value raises `SourceRefused`, whose sentence names source and field."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    name: Name
    """The name in logs, metrics and commands: lower-case letters, digits, dots, dashes, underscores."""
    threshold_minutes: Annotated[
        float,
        Field(strict=True, gt=0, le=YEAR_MINUTES, allow_inf_nan=False),
        Must(f"it must be a number of minutes above 0 and at most {YEAR_MINUTES}"),
    ] = THRESHOLD_MINUTES
    """A record that was not updated for longer than this is stuck. Too low: slow work is done twice."""
    batch_size: Annotated[
        int, Field(strict=True, ge=1, le=10_000), Must("it must be a whole number from 1 to 10000")
    ] = BATCH
    """Records per transaction."""

    _where: str = PrivateAttr("")  # the file in which the source is declared, for the sentences of errors

    @model_validator(mode="wrap")
    @classmethod
    def _in_a_sentence(cls, given: Any, build: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return build(given)
        except ValidationError as error:
            named = given.get("name") if isinstance(given, dict) else None
            # The messages of pydantic show values, and a value may be a password.
            raise refusal(named, *_why(cls, error)) from None

    @property
    def threshold_s(self) -> float:
        """Return the threshold in seconds."""
        return self.threshold_minutes * 60

    def declared_in(self, where: str) -> None:
        """Set the file of the declaration, with which the sentences of `refused` begin."""
        self._where = where

    def refused(self, field: str, why: str) -> SourceRefused:
        """Return the error about a field: one sentence that names the file, the source and the field."""
        return refusal(self.name, field, why, self._where)


class FieldSource(Source):
    """A source whose records have a status, a time of the last update, perhaps an error and a count of resets."""

    status_field: Text = "status"
    updated_at_field: Text = "updated_at"
    stuck: Status = "Processing"
    """The status of a record on which a worker works; a record gets stuck in it."""
    becomes: Status = "Pending"
    """The status of a record that waits for a worker; a reset gives a record this status again."""
    failed: Status = "Failed"
    """The status of a record that was brought back `max_attempts` times, and of one whose handler failed."""
    error_field: Perhaps = None
    """The field for the reason of a reset or a failure."""
    error_text: Text = "Stuck: not updated within the threshold"
    """The reason that recovery writes into `error_field`."""
    attempts_field: Perhaps = None
    """A whole number that recovery counts up with each reset; no value counts as 0."""
    max_attempts: Attempts = None
    """After so many resets a record that gets stuck once more becomes `failed`."""
    where: Annotated[
        dict[Text, Wanted],
        Field(max_length=20),
        Must("it must be a table of fields, and the text, whole number or truth each has"),
    ] = {}
    """Only records with these values count, so that several sources on one table can have different thresholds."""

    @model_validator(mode="after")
    def _agree(self) -> Self:
        kind = "a whole number" if isinstance(self.stuck, int) else "a text"
        for field in ("becomes", "failed"):
            status = getattr(self, field)
            if type(status) is not type(self.stuck):
                raise self.refused(field, f"it must be {kind} as stuck is, and is {status!r}")
            if status == self.stuck:
                raise self.refused(field, f"it must differ from stuck, which is {status!r} too")
        for field, other in (("attempts_field", "max_attempts"), ("max_attempts", "attempts_field")):
            if getattr(self, field) is None and getattr(self, other) is not None:
                raise self.refused(field, f"it is missing, and {other} needs it")
        self._each_its_own()
        return self

    def _each_its_own(self) -> None:
        seen: dict[str, str] = {}
        for field in ("id_field", "status_field", "updated_at_field", "error_field", "attempts_field"):
            named = getattr(self, field, None)
            if named in seen:
                raise self.refused(field, f"{seen[named]} is {named!r} too")
            if named is not None:
                seen[named] = field
        for named in self.where:
            if seen.get(named, "id_field") != "id_field":
                raise self.refused("where", f"{named!r} is the {seen[named]}, which changes")


class SqlSource(FieldSource):
    """A source whose records are the rows of a table in a database."""

    kind: Literal["sql"] = "sql"
    url: Annotated[Text, Field(repr=False)]
    """Any asynchronous URL of SQLAlchemy 2, such as postgresql+asyncpg://user@host/name."""
    table: Text
    """The table, or `schema.table`."""
    restart_attempts: Annotated[bool, Field(strict=True), Must("it must be true or false")] = True
    """Whether the processing loop sets the count back to 0 once a handler is done with the record."""
    id_field: Perhaps = None
    """The column whose value is different in each record; unset: the primary key."""
    time_zone: Text = "UTC"
    """The zone of a column that stores no zone, such as Europe/Berlin. Required where a clock of the database is not in
    UTC."""


class RedisSource(FieldSource):
    """A source whose records are Redis hashes; an index names them. Times are Unix times in s or ms, or ISO-8601.

    An ISO-8601 time has an offset from UTC or a Z. A text without both counts as a time only where `time_zone` names
    its zone. A time before 1970 does not count. A record without a time is never touched.
    """

    kind: Literal["redis"] = "redis"
    url: Annotated[Perhaps, Field(repr=False)] = None
    """The Redis with the records; unset: the hub's own."""
    time_zone: Annotated[Literal["UTC"] | None, Must('it must be "UTC", or left out')] = None
    """The zone of a time without an offset: UTC. Unset: such a text counts as no time."""
    index: Text
    """The key of a set of the ids of the records, or of a sorted set by last update (Unix time, in s or ms)."""
    key: Annotated[
        Text, StringConstraints(pattern=r"\{id\}"), Must("it must have {id} in it, where the id of a record stands")
    ]
    """The key of the hash of one record, with `{id}` in it."""


class TaskSource(Source):
    """A source whose records are the hub's own tasks that a worker claimed and did not start within the threshold.

    A worker may claim a task while it is busy and start it later, so the threshold must be longer than that. When
    a task was given to another worker meanwhile, the first worker learns so only from a call that names its worker, as
    calls about a claim do. `PATCH /v1/joblib/tasks/{id}` names none: there any worker of the same user counts as the
    holder of the task, so two workers may run it.
    """

    kind: Literal["tasks"] = "tasks"
    max_attempts: Attempts = None
    """After so many resets a task that gets stuck once more fails; unset: it is reset each time."""


KINDS: dict[str, type[Source]] = {"sql": SqlSource, "redis": RedisSource, "tasks": TaskSource}


def no_such_field(kind: type[Source], field: str) -> str:
    """Return the sentence about an unknown field, with the known field of the most similar name."""
    known = [name for name in kind.model_fields if name != "kind"]
    near = difflib.get_close_matches(field, known, n=1, cutoff=0.6)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
    return f"a source of kind {kind.model_fields['kind'].default} has no such field; {hint}"


def shown(value: Any) -> str:
    """Return ", and is VALUE" for the error about a wrong value; "" if it may hold a password or is too long."""
    if not isinstance(value, str | int | float) or "://" in str(value) or len(str(value)) > _SHOWN:
        return ""
    return f", and is {str(value).lower() if isinstance(value, bool) else repr(value)}"


def refusal(named: Any, field: str, why: str, where: str = "", number: int | None = None) -> SourceRefused:
    """Return the error about a field of a source, which is called by its number if its name cannot be shown."""
    known = isinstance(named, str) and 0 < len(named) <= _SHOWN + 4 and named.isprintable() and "://" not in named
    source = f"source {named}" if known else f"source {number}" if number else "a source"
    sentence = f"{where}{', ' if where else ''}{source}, {field}: {why}"
    detail = sentence if sentence.endswith("?") else f"{sentence}."
    return SourceRefused(detail, source=named if known else None, field=field, why=why)


def _why(kind: type[Source], error: ValidationError) -> tuple[str, str]:
    """Return the name of the first faulty field, and in words why it is faulty."""
    faults = error.errors(include_url=False)
    # An unknown field comes first: a misspelt name explains why another field is missing.
    first = next((fault for fault in faults if fault["type"] == "extra_forbidden"), faults[0])
    field = str(first["loc"][0]) if first["loc"] else "kind"
    if first["type"] == "extra_forbidden":
        return field[:_SHOWN], no_such_field(kind, field)
    if first["type"] == "missing":
        return field, "it is missing"
    info = kind.model_fields.get(field)
    *_, must = [each for each in (info.metadata if info else ()) if isinstance(each, Must)] or [Must(str(first["msg"]))]
    return field, must.be + ("" if field == "url" else shown(first["input"]))


@dataclass(frozen=True)
class Stuck:
    """A stuck record, with its age by the clock of its database and the time of its last update."""

    id: str
    status: str
    age_s: float
    updated_at: datetime
    attempts: int | None = None  # resets so far; None where they are not counted


@dataclass(frozen=True)
class Reset:
    """The result of resetting one batch: the ids of records that were reset, and of records that failed for good."""

    reset: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()

    @classmethod
    def of(cls, ids: Iterable[str], words: Iterable[int]) -> Reset:
        """Return the result for what a script answered about each id: 1 reset, 2 failed, another number neither."""
        answers = list(zip(ids, words, strict=True))
        return cls(tuple(id for id, word in answers if word == 1), tuple(id for id, word in answers if word == 2))

    def __add__(self, other: Reset) -> Reset:
        return Reset(self.reset + other.reset, self.failed + other.failed)

    @property
    def count(self) -> int:
        """Return how many records were reset or failed."""
        return len(self.reset) + len(self.failed)
