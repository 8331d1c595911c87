"""The bodies and queries that callers of the jobs API send, each as a model that reads them and is shown in OpenAPI."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    ConfigDict,
    FailFast,
    Field,
    StrictBool,
    StrictInt,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from hub.api.shapes.fields import JOB, TASK, WORKER, doc
from hub.capacity.wishes import SLOTS_MAX
from hub.jobs.models import Options, Status
from hub.jobs.terms import RUNNING_MAX, STARTS_MAX, read_rate

NAME_MAX = 4096  # characters; a longer name does not fit into a path
MANY = 1000  # the most tasks of one submit
RESULTS_MAX = 100
CLAIM_MAX = 100
HELD_MAX = 1000
LOG_MAX = 100
NEEDS_MAX = 4
LIMITS_MAX = 4
KEY_PATH_MAX = 200  # characters
PARENTS_MAX = 100  # the most tasks that a task may wait for
YEAR_S = 31_536_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TOO_FAR = datetime(2100, 1, 1, tzinfo=UTC)  # before that, doubles hold microseconds exactly

Object = dict[str, Any]


def _is_rate(text: str) -> str:
    if read_rate(text) is None:
        what = f"a number up to {STARTS_MAX} and a time of 1 s to 1 d, such as 100/m or 5/30s"
        raise PydanticCustomError("rate", f"Input should be {what}")
    return text


def _is_moment(text: str) -> str:
    moment_us(text)
    return text


def moment_us(text: str) -> int:
    """Return a time in microseconds since 1970, or 0 for an earlier time; raises pydantic's error for a text that is
    not a time."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None or moment >= _TOO_FAR:
        raise PydanticCustomError("moment", "Input should be a time before 2100 in ISO 8601 with its offset")
    return max(0, (moment - _EPOCH) // timedelta(microseconds=1))


Moment = Annotated[
    str,
    AfterValidator(_is_moment),
    doc("Before that it is not claimed: ISO 8601 with an offset.", "2030-01-02T03:04:05Z"),
]
Seconds = Annotated[float, Field(allow_inf_nan=False)]
Name = Annotated[str, Field(max_length=NAME_MAX)]
Attempts = Annotated[StrictInt, doc("How often it may be tried.", 3, ge=1, le=100)]
Backoff = Annotated[Seconds, doc("Seconds before the next attempt, twice as many each time.", 5, ge=0, le=3600)]
ClaimName = Annotated[str, doc("The name of the claim that is meant.", "1790000000000000", pattern=r"^[0-9]{1,20}$")]
MediaType = Annotated[str, doc("Of what it answers.", "application/json", max_length=255, pattern=r"^[ -~]*$")]
TaskId = Annotated[UUID, doc("The id of the task.", TASK)]
WorkerId = Annotated[UUID, doc("The id of the worker.", WORKER)]
Why = Annotated[str, doc("Why it failed.", "the scene is empty")]


Process = Annotated[  # a random text, new with each start of the process
    str, doc("Which process of the worker calls.", "c0ffee01", max_length=64, pattern=r"^[0-9A-Za-z_-]*$")
]


Rate = Annotated[
    str,
    AfterValidator(_is_rate),
    doc(f"How many may start within a time: N/s, N/m, N/h, N/d or N/30s; N up to {STARTS_MAX}.", "100/m"),
]
_RESULT = doc("What a completed task came to: any JSON, null for nothing.", {"images": 40}, default=None)


def _result_of_completed(body: Any) -> Any:
    if body.result is not None and body.status != "completed":
        raise PydanticCustomError("result", "A result should come with the status completed, and with no other")
    return body


class JobBody(BaseModel):
    """A job or a provider, as a worker registers it."""

    category: Annotated[Name, doc("The category, the middle part of its full name.", "modifiers")]
    name: Annotated[Name, doc("The name, the last part of its full name.", "Rotate")]
    schema_: Annotated[Object, doc("The JSON Schema of what it takes.", {"type": "object"})] = Field(
        default={}, validation_alias=AliasChoices("schema", "schema_")
    )
    worker_id: Annotated[UUID | None, doc("The worker; one is made for it when it is left out.", WORKER)] = None


class NeedBody(BaseModel):
    """One part of what each task of a job needs: so many slots."""

    label: Annotated[str, doc("The label of the slots; two to eight segments.", "gpu:a100")]
    where: Annotated[str, doc("What each slot must be like; any will do where it is empty.", "vram >= 40")] = ""
    count: Annotated[StrictInt, doc("How many such slots.", 1, ge=1, le=SLOTS_MAX)] = 1


class LimitBody(BaseModel):
    """A limit on the tasks of a job: how many may run at once, or how many may start within a time."""

    key: Annotated[
        str,
        doc(
            "A path into the payload, with dots: the limit is for each value there. Empty: for the job as a whole.",
            "customer",
            max_length=KEY_PATH_MAX,
            pattern=r"^([^.\x00-\x1f]+(\.[^.\x00-\x1f]+)*)?$",
        ),
    ] = ""
    running: Annotated[StrictInt | None, doc("How many of its tasks may run at once.", 3, ge=1, le=RUNNING_MAX)] = None
    rate: Rate | None = None

    @model_validator(mode="after")
    def _is_of_one_kind(self) -> Self:
        if (self.running is None) == (self.rate is None):
            raise PydanticCustomError("limit", "Either running or rate should be given")
        return self


class ServedBody(JobBody):
    """A job, as a worker registers it. `incarnation` names the process of the worker; the latest process to register is
    the worker. `maxAttempts` and `backoffSeconds` are for tasks that name none themselves; those of the latest
    registration count, and so do its `needs`, its `limits`, and its `validate`: with it a payload that does not fit the
    schema is refused."""

    incarnation: Process = ""
    max_attempts: Attempts = Field(default=1, alias="maxAttempts")
    backoff_s: Backoff = Field(default=1, alias="backoffSeconds")
    result_schema: Annotated[Object | None, doc("The JSON Schema of what its tasks come to.", {"type": "object"})] = (
        Field(default=None, alias="resultSchema")
    )
    validate_: Annotated[StrictBool, doc("Refuse tasks whose payload does not fit the schema.", True)] = Field(
        default=False, alias="validate"
    )
    needs: Annotated[
        list[NeedBody],
        doc(f"The slots that a claim takes together with each task: {SLOTS_MAX} at most.", [], max_length=NEEDS_MAX),
    ] = []
    same_node: Annotated[StrictBool, doc("All slots of a task are to be on one node.", False)] = Field(
        default=False, alias="sameNode"
    )
    limits: Annotated[
        list[LimitBody], doc("How many of its tasks may run or start at a time.", [], max_length=LIMITS_MAX)
    ] = []

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if sum(need.count for need in self.needs) > SLOTS_MAX:
            raise PydanticCustomError("needs", f"needs should want at most {SLOTS_MAX} slots in all")
        if self.same_node and not self.needs:
            raise PydanticCustomError("needs", "sameNode should come with needs")
        if len({(limit.key, (read_rate(limit.rate or "") or (0, 0))[1]) for limit in self.limits}) < len(self.limits):
            raise PydanticCustomError("limits", "limits should differ in key, in running or rate, or in its time")
        return self


class ProviderBody(JobBody):
    """A provider as a worker registers it."""

    content_type: MediaType = "application/json"


class TaskOptionsBody(BaseModel):
    """The options of tasks that a plain submit does not use."""

    model_config = ConfigDict(alias_generator=to_camel)

    priority: Annotated[StrictInt | None, doc("The higher one is claimed first.", 0, ge=-100, le=100)] = None
    max_attempts: Attempts | None = None
    backoff_seconds: Backoff | None = None
    max_silence_seconds: Annotated[
        Seconds | None, doc("It fails when it says nothing for so long.", 60, ge=1, le=YEAR_S)
    ] = None
    unique_key: Annotated[
        str | None,
        doc("Of its job in its room there is one task under it at a time.", "import-42", min_length=1, max_length=255),
    ] = None
    unique_seconds: Annotated[
        Seconds | None, doc("For so long after its submit also when it was completed.", 60, ge=0, le=YEAR_S)
    ] = None

    @model_validator(mode="after")
    def _is_unique_by_a_key(self) -> Self:
        if self.unique_seconds is not None and self.unique_key is None:
            raise PydanticCustomError("unique", "uniqueSeconds should come with a uniqueKey")
        return self


def options_of(body: TaskOptionsBody, **more: Any) -> Options:
    """Return the options that a body asks for, together with those of `more` that are not None."""
    options = {
        "priority": body.priority,
        "max_attempts": body.max_attempts,
        "backoff_ms": None if body.backoff_seconds is None else int(body.backoff_seconds * 1000),
        "max_silence_ms": None if body.max_silence_seconds is None else int(body.max_silence_seconds * 1000),
        "unique_key": body.unique_key,
        "unique_ms": None if body.unique_seconds is None else int(body.unique_seconds * 1000),
        **more,
    }
    given = {name: value for name, value in options.items() if value is not None}
    return Options(**given, as_the_job=body.max_attempts is None and body.backoff_seconds is None)


class SubmitBody(TaskOptionsBody):
    """A task that is submitted, or with `payloads` several tasks, and their options."""

    payload: Annotated[Object, doc("What the task is about.", {"angle": 90})] = {}
    payloads: Annotated[
        list[Object] | None, doc("Of many tasks, one each.", [{"angle": 90}], min_length=1, max_length=MANY)
    ] = None
    not_before: Moment | None = None
    after: Annotated[
        list[TaskId] | None, doc("It waits until these tasks are over.", [TASK], min_length=1, max_length=PARENTS_MAX)
    ] = None
    on_failure: Annotated[
        Literal["fail", "run"] | None, doc("What becomes of it when one of those is not completed.", "fail")
    ] = None

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.on_failure is not None and self.after is None:
            raise PydanticCustomError("after", "onFailure should come with after")
        if self.unique_key is not None and self.payloads is not None:
            raise PydanticCustomError("unique", "uniqueKey should be left out beside payloads")
        return self


class ScheduleBody(TaskOptionsBody):
    """A schedule: the job that gets a task, the payload, and the times."""

    job: Annotated[Name, doc("The full name of the job.", JOB)]
    payload: Annotated[Object, doc("What each task is about.", {"angle": 90})] = {}
    cron: Annotated[
        str | None,
        doc("Minute, hour, day of month, month, day of week.", "30 2 * * mon-fri", min_length=1, max_length=255),
    ] = None
    every_seconds: Annotated[
        Seconds | None, doc("In the place of `cron`: once in so many seconds.", 60, ge=1, le=YEAR_S)
    ] = None
    time_zone: Annotated[
        str, doc("In which `cron` counts.", "Europe/Berlin", max_length=255, json_schema_extra={"default": "UTC"})
    ] = "UTC"
    catch_up: Annotated[
        Literal["skip", "one", "all"], doc("What becomes of times at which no hub was there.", "one")
    ] = "one"
    paused: Annotated[StrictBool, doc("Whether it makes no tasks.", False)] = False

    @model_validator(mode="after")
    def _has_times(self) -> Self:
        if (self.cron is None) == (self.every_seconds is None):
            raise PydanticCustomError("schedule", "Either cron or everySeconds should be given")
        if self.every_seconds is not None and self.time_zone != "UTC":
            raise PydanticCustomError("schedule", "timeZone should come with cron")
        return self


class PauseBody(BaseModel):
    """The switch that pauses a schedule or lets it go on."""

    paused: Annotated[StrictBool, doc("Whether it makes no tasks.", True)]


class ResultBody(BaseModel):
    """A worker's report on a task that it holds under a claim; the status `pending` gives the task back to its
    queue."""

    id: TaskId
    status: Annotated[
        Literal["completed", "failed", "cancelled", "running", "pending"], doc("What it is now.", "completed")
    ]
    error: Why | None = None
    claim: ClaimName | None = None
    result: Any = _RESULT
    retry: Annotated[StrictBool, doc("False: it fails for good, as no further attempt could do better.", False)] = True

    _of_completed = model_validator(mode="after")(_result_of_completed)


class ClaimBody(BaseModel):
    """A claim, with reports on the tasks that were claimed before."""

    worker_id: WorkerId
    limit: Annotated[StrictInt | None, doc("How many tasks at most.", 10, ge=0, le=CLAIM_MAX)] = None
    wait_s: Annotated[Seconds | None, doc("How long to wait for the first one.", 20, ge=0)] = Field(
        default=None, alias="waitSeconds"
    )
    start: Annotated[StrictBool | None, doc("Take them as running.", True)] = None
    runtime_s: Annotated[Seconds | None, doc("They fail when they run for longer.", 600, ge=0.001, le=YEAR_S)] = Field(
        default=None, alias="maxRuntimeSeconds"
    )
    incarnation: Process = ""
    results: Annotated[list[ResultBody] | None, doc("What has become of those before.", [], max_length=RESULTS_MAX)] = (
        None
    )


class SaidBody(BaseModel):
    """The progress of a running task. Members that are left out stay as they are; the lines of `log` are added to the
    task's log."""

    id: TaskId
    claim: ClaimName | None = None
    progress: Annotated[Seconds | None, doc("How far it is.", 0.4, ge=0, le=1)] = None
    message: Annotated[str | None, doc("What it does now.", "step 3")] = None
    log: Annotated[list[str], FailFast(), doc("Lines for its log.", ["12 of 40 images"], max_length=LOG_MAX)] = []


class ProgressBody(BaseModel):
    """The progress of tasks that a worker runs."""

    worker_id: WorkerId
    tasks: Annotated[list[SaidBody], doc("The tasks.", [], min_length=1, max_length=HELD_MAX)]


class HeldTaskBody(BaseModel):
    """A task that a worker holds, with the name of its claim."""

    id: TaskId
    claim: ClaimName


class WorkerBeatBody(BaseModel):
    """The tasks that a worker holds, if it lists them, and the keys of its claims that have not been answered yet."""

    tasks: Annotated[list[HeldTaskBody] | None, doc("The tasks it holds.", [], max_length=HELD_MAX)] = None
    claims: Annotated[
        list[Annotated[str, Field(max_length=255)]],
        doc("The keys of its claims that have had no answer yet.", ["claim-7"], max_length=CLAIM_MAX),
    ] = []
    incarnation: Process = ""


class MoveBody(BaseModel):
    """The status that a task is to have. With `claim` the status changes only while the task is held under that
    claim."""

    status: Annotated[Status, doc("What it is to be.", "cancelled")]
    error: Why | None = None
    claim: ClaimName | None = None
    result: Any = _RESULT

    _of_completed = model_validator(mode="after")(_result_of_completed)


class PageQuery(BaseModel):
    """The part of a list that the caller asks for."""

    limit: Annotated[int, doc("How many are answered at most.", 50, ge=0, le=500)] = 50
    offset: Annotated[int, doc("How many are left out at the top.", 0, ge=0)] = 0


class LeaveQuery(BaseModel):
    """The process that leaves. If another process is the worker by now, the worker stays."""

    incarnation: Process = ""


class TakenQuery(BaseModel):
    """The number of tasks taken from the worker that the caller was answered last."""

    since: Annotated[int, doc("The number that was answered last.", 0, ge=0, le=2**53)] = 0


class TasksQuery(PageQuery):
    """The part of a list of tasks that the caller asks for: of all tasks, or of those with one status."""

    status: Annotated[Status | None, doc("Only tasks of this status.", "pending")] = None
